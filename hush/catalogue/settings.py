"""What a user may set of a scheme: every setting once, with its type, range, default and meaning.

The tables of a configuration, the keywords of hush.scheme, the options of `hush run` and docs/settings.md come from
these declarations. Importing them is quick: nothing here needs torch.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonValue

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, lt=1e30)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Holder = Literal["part", "private", "features", "travels"]


class Table(BaseModel):
    """Settings that stand together in a TOML file; an unknown one is an error. None: not given."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def setting(help: str, default: object = None, *, usual: JsonValue = None, of: Holder | None = None) -> Any:
    """Declares a setting.

    usual: what holds if it is not given and neither the scheme's paper nor the data have a value of their own, where
    that is not its default. of: which schemes have it, if not all: those of which a part names it among its settings,
    private ones, those on public features, or those in which something travels.
    """
    return Field(default, description=help, json_schema_extra={"usual": usual, "of": of})


class SchemeTable(Table):
    """Which scheme, and its privacy."""

    name: str = setting("The scheme: `hush schemes` lists them; or file.py:function.", "hush")
    ratio: Annotated[float, Field(gt=0, le=1)] | None = setting(
        "Fraction of the weights that travels.", usual=0.005, of="part"
    )
    select: Literal["public", "vote"] = setting(
        "Top-K by public data, or by a noisy vote of the clients.", "public", of="part"
    )
    clip: Literal["paper", "public", "adaptive"] | Positive | None = setting(
        "Bound on an update's L2 norm: a number, paper (its table), public (a rule on public data) or adaptive.",
        usual="adaptive",
        of="private",
    )
    quantile: Fraction | None = setting("Quantile of the norms that clip=adaptive follows.", usual=0.5, of="private")
    noise: Annotated[float, Field(ge=0.01, le=1e6)] | None = setting(
        "Noise multiplier; beside epsilon it must keep to it.", of="private"
    )
    epsilon: Annotated[float, Field(ge=1e-3, le=1e6)] | None = setting(
        "Privacy budget (model view); needs delta.", of="private"
    )
    delta: Annotated[float, Field(ge=1e-100, lt=1)] | None = setting("The delta of every epsilon.", usual=1e-5)
    accountant: Literal["moments", "rdp", "pld"] = setting(
        "How epsilon is computed: pld is tight, moments is the papers'.", "pld", of="private"
    )
    against: Literal["model", "server", "colluding"] | None = setting(
        "Whom a round's noise is sized for; colluding needs a secure sum.", usual="model", of="private"
    )
    gamma: Positive | None = setting("The server's step where clients send signs.", usual=0.001, of="part")
    precision: int | None = setting(
        "Two-bit's p, from 3 to 64: bits in which a number is written, of which one is sent.", usual=32, of="part"
    )
    bound: float | None = setting("Two-bit's m: larger magnitudes are cut.", usual=1.0, of="part")
    follow: bool | None = setting("Whether two-bit's m follows the mean.", usual=False, of="part")
    bits: int | None = setting(
        "Bits per weight on the wire, where they can be chosen, or of the integers of a secure sum.", of="travels"
    )
    chunks: Count | None = setting("Parts of an update that fl-cs senses.", usual=200, of="part")
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = setting(
        "Momentum of the server's step.", usual=0.0, of="part"
    )
    server_rate: Positive | None = setting("Learning rate of the server's step.", usual=1.0, of="part")
    average: Annotated[float, Field(ge=0, lt=1)] | None = setting(
        "What the released model, an average over the rounds, keeps of the one before.", usual=0.0, of="travels"
    )
    blocks: Count | None = setting(
        "Blocks of the weights that travel up in turn, one a round; all train and travel down.", usual=1, of="travels"
    )
    downlink_bits: Literal[2, 4, 8, 32] | None = setting(
        "Bits per weight on the downlink; what is rounded off stays for the next round.", usual=32, of="travels"
    )
    features: Annotated[int, Field(ge=1, le=600)] | str | None = setting(
        "Public features that an image becomes: how many, or file.py:function that makes your own of any rows.",
        usual=200,
        of="features",
    )
    scattering_order: Literal[1, 2] | None = setting("Order of the scattering transform.", usual=1, of="features")


class TrainTable(Table):
    """Local training at a client."""

    rate: Positive | None = setting("Learning rate at the clients.", usual=0.215, of="part")
    steps: Count | None = setting("Local SGD steps a round.", usual=5, of="part")
    epochs: Count | None = setting("Passes over a client's rows a round, instead of steps.", of="part")
    batch: Count | Literal["all"] | None = setting("Rows of a local batch, or all.", usual=10, of="part")
    ridge: Positive | None = setting(
        "One ridge solve in place of steps, where the model is linear: its gamma.", of="features"
    )
    probe: Count = setting("Steps on public data that select the Top-K.", 5, of="part")
    balance: Literal["none", "weights", "downsample", "rates"] | None = setting(
        "What is done about a rare class.", usual="none", of="part"
    )
    share: Fraction | None = setting("The public share of the rows with label 1, for balance.", of="part")
    batches: Literal["poisson", "fixed"] | None = setting(
        "How batches of protected records are drawn.", usual="poisson", of="part"
    )
    divisor: Literal["public", "drawn"] | None = setting(
        "What sums over records are divided by: the expected batch, or the batch drawn.", usual="public", of="part"
    )


# Keys of earlier versions: they are refused with the new name.
RENAMED = {
    "scheme.places": "scheme.precision",
    "scheme.down": "scheme.downlink_bits",
    "scheme.directions": "scheme.features",
    "scheme.order": "scheme.scattering_order",
    "secure.loss": "secure.rounding",
}
# Settings of single parts: a scheme whose function reads one of them has it, others refuse it.
OWN = ("ratio", "gamma", "precision", "bound", "follow", "bits", "chunks", "momentum", "server_rate")


def extra(table: type[Table], name: str, what: Literal["usual", "of"]) -> Any:
    """What the declaration says beside type, default and help."""
    found = table.model_fields[name].json_schema_extra
    assert isinstance(found, dict)
    return found[what]


def usual(name: str) -> Any:
    """What holds for a setting of [scheme] or [train] that nobody gives."""
    table = SchemeTable if name in SchemeTable.model_fields else TrainTable
    value = extra(table, name, "usual")
    return table.model_fields[name].default if value is None else value


def nearest(name: str, known: Iterable[str]) -> str:
    """Which known name was meant, as the beginning of a sentence's remedy; empty where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]}? " if near else ""


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than": lambda known: f"more than {shown(known['gt'])}",
    "greater_than_equal": lambda known: f"at least {shown(known['ge'])}",
    "less_than": lambda known: f"less than {shown(known['lt'])}",
    "less_than_equal": lambda known: f"at most {shown(known['le'])}",
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
    "delta": "between 1e-100 and 1: take less than one over the clients, such as 1e-5",
    "epsilon": "between 0.001 and 1000000: take 1, or more for more accuracy and less privacy",
    "features": "an integer from 1 to 600, or file.py:function",
}


def sentence(error: ValidationError, where: str, known: Iterable[str] = ()) -> str:
    """The first mistake of a table in one sentence: the value and the rule, or the known name nearest to the key."""
    first = error.errors()[0]
    key = ".".join(
        str(part) for part in first["loc"] if not str(part).startswith(("literal", "function", "constrained"))
    )
    if first["type"] == "extra_forbidden":
        tables = {name.partition(".")[0] for name in known} if isinstance(first["input"], dict) else known
        return f"{where}: key {key!r} is not known: {nearest(key, sorted(tables))}remove it or correct its spelling"
    alike = [one for one in error.errors() if one["loc"][:2] == first["loc"][:2]]
    allowed = [
        _WORDS[one["type"]](one.get("ctx", {})) if one["type"] in _WORDS else one["msg"].lower() for one in alike
    ]
    given = repr(first["input"])
    given = given if len(given) <= 60 else f"{given[:60]}..."
    rule = _RANGES.get(key.rpartition(".")[2], " or ".join(dict.fromkeys(allowed)))
    return f"{where}: {key} = {given} must be {rule}"


def shown(bound: float) -> str:
    """A bound as one would write it: 1e-100, 1000000."""
    return str(int(bound)) if float(bound).is_integer() and abs(bound) < 1e10 else f"{bound:g}".replace("e+", "e")
