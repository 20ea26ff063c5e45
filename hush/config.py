"""What a run is asked to do, as TOML: every key has a type, and an unknown one is an error."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hush.errors import Mistake

Count = Annotated[int, Field(ge=1)]
MODES = ("simulated", "full")  # of a secure sum


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(_Table):
    """Which data, and who holds which part of it."""

    name: str = "fashion-mnist"
    clients: Count | None = None
    partition: Literal["iid", "shards", "dirichlet", "column", "pooled"] | None = None
    size: Count | None = None
    shards: Count | None = None
    alpha: Annotated[float, Field(gt=0, lt=1e6)] | None = None
    column: str | None = None
    public: str | None = None
    public_size: Count | None = None


class Model(_Table):
    """Which network and loss: names of hush's own, or file.py:function."""

    name: str | None = None
    loss: str | None = None


class Scheme(_Table):
    """Which scheme of the catalogue, and its privacy."""

    name: str = "hush"
    ratio: Annotated[float, Field(gt=0, le=1)] | None = None
    select: Literal["public", "vote"] = "public"
    clip: Literal["paper", "public", "adaptive"] | Annotated[float, Field(gt=0, lt=1e30)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    noise: Annotated[float, Field(ge=0.01, le=1e6)] | None = None
    epsilon: Annotated[float, Field(ge=1e-3, le=1e6)] | None = None
    delta: Annotated[float, Field(ge=1e-100, lt=1)] | None = None
    accountant: Literal["moments", "rdp", "pld"] = "pld"
    against: Literal["model", "server", "colluding"] | None = None
    gamma: Annotated[float, Field(gt=0, lt=1e30)] | None = None
    places: int | None = None
    bound: float | None = None
    follow: bool | None = None
    bits: int | None = None
    chunks: Count | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    server_rate: Annotated[float, Field(gt=0, lt=1e30)] | None = None
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    down: Literal[2, 4, 8, 32] | None = None
    directions: Annotated[int, Field(ge=1, le=600)] | None = None
    order: Literal[1, 2] | None = None


class Train(_Table):
    """Local training at a client."""

    rate: Annotated[float, Field(gt=0, lt=1e30)] | None = None
    steps: Count | None = None
    epochs: Count | None = None
    batch: Count | Literal["all"] | None = None
    probe: Count = 5
    balance: Literal["none", "weights", "downsample", "rates"] | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    batches: Literal["poisson", "fixed"] | None = None
    divisor: Literal["public", "drawn"] | None = None


class Sampling(_Table):
    """Who takes part in a round."""

    kind: Literal["poisson", "fixed", "once"] | None = None
    cohort: Count | None = None
    passes: Count | None = None
    floor: Annotated[int, Field(ge=0)] = 0
    tolerance: Annotated[float, Field(ge=0, lt=1)] | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Secure(_Table):
    """Whether the server sees nothing but the sum, and in which whole numbers."""

    mode: Literal["simulated", "full"] | None = None
    servers: Literal[1, 2] | None = None
    corrupt: Annotated[float, Field(ge=0, lt=1)] | None = None
    loss: Annotated[float, Field(gt=0, lt=1e6)] | None = None
    noise: Literal["skellam", "gaussian"] | None = None


class Run(_Table):
    """How long, from which seed, and how often to look."""

    rounds: Annotated[int, Field(ge=1, le=10**6)] = 50
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    eval_every: Count = 1
    block: Count | None = None
    workers: Count | None = None
    engine: Literal["lockstep", "vmap"] | None = None
    device: str = "cpu"


class Config(_Table):
    """A whole run."""

    data: Data = Data()
    model: Model = Model()
    scheme: Scheme = Scheme()
    train: Train = Train()
    sampling: Sampling = Sampling()
    secure: Secure = Secure()
    run: Run = Run()


def parse(tables: dict[str, Any], where: str) -> Config:
    """A Config from tables of plain values; the first mistake is told in one sentence."""
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        raise Mistake(_sentence(error, where)) from None


def read(path: Path) -> Config:
    """A Config from a TOML file; functions and data files are found beside it."""
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Mistake(f"{path} is not there: give a TOML file or the name of a scheme (`hush schemes`)") from None
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise Mistake(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None
    for table, key in (("data", "name"), ("data", "public"), ("model", "name"), ("model", "loss")):
        value = tables.get(table, {}).get(key) if isinstance(tables.get(table), dict) else None
        if isinstance(value, str) and _is_path(value) and not Path(value).is_absolute():
            tables[table][key] = str((path.parent / value).resolve())
    return parse(tables, str(path))


def dump(config: Config) -> str:
    """The TOML of a Config; what is not set is left out."""
    return tomli_w.dumps({name: table for name, table in config.model_dump(exclude_none=True).items() if table})


def changed(old: Config, new: Config) -> str | None:
    """The first key in which two configurations differ, in words."""
    before, after = old.model_dump(), new.model_dump()
    if None in (old.scheme.epsilon, new.scheme.epsilon):  # the noise tells; older runs kept it alone
        before["scheme"].pop("epsilon")
    for table, keys in before.items():
        for key, value in keys.items():
            if after[table][key] != value and key != "workers":  # the numbers do not depend on how many there are
                return f"[{table}] {key} was {value} and is now {after[table][key]}"
    return None


def _is_path(value: str) -> bool:
    return value.endswith((".npz", ".toml")) or ".py:" in value


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than": lambda known: f"more than {_shown(known['gt'])}",
    "greater_than_equal": lambda known: f"at least {_shown(known['ge'])}",
    "less_than": lambda known: f"less than {_shown(known['lt'])}",
    "less_than_equal": lambda known: f"at most {_shown(known['le'])}",
    "literal_error": lambda known: str(known["expected"]),
    "int_type": lambda _: "an integer",
    "int_from_float": lambda _: "an integer",
    "float_type": lambda _: "a number",
    "bool_type": lambda _: "true or false",
    "string_type": lambda _: "text",
    "model_type": lambda _: "a table",
    "model_attributes_type": lambda _: "a table",
}
_RANGES = {
    "scheme.delta": "between 1e-100 and 1: take less than one over the clients, such as 1e-5",
    "scheme.epsilon": "between 0.001 and 1000000: take 1, or more for more accuracy and less privacy",
}


def _sentence(error: ValidationError, where: str) -> str:
    first = error.errors()[0]
    key = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("literal", "function", "constrained"))
    )
    if first["type"] == "extra_forbidden":
        return f"{where}: key {key!r} is not known: remove it or mend its spelling"
    alike = [one for one in error.errors() if one["loc"][:2] == first["loc"][:2]]
    allowed = [
        _WORDS[one["type"]](one.get("ctx", {})) if one["type"] in _WORDS else one["msg"].lower() for one in alike
    ]
    given = repr(first["input"])
    given = given if len(given) <= 60 else f"{given[:60]}..."
    return f"{where}: {key} = {given} must be {_RANGES.get(key, ' or '.join(dict.fromkeys(allowed)))}"


def _shown(bound: float) -> str:
    """A bound as one would write it: 1e-100, 1000000."""
    return str(int(bound)) if float(bound).is_integer() and abs(bound) < 1e10 else f"{bound:g}".replace("e+", "e")
