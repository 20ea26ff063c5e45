"""Every setting of a run, table by table: those of schemes from the catalogue, all others declared here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import Field

from hush.catalogue.settings import Count, Holder, SchemeTable, Table, TrainTable, extra, setting, shown

MODES = ("simulated", "full")  # of a secure sum
# Which may name a file.
PATHS = ("scheme.name", "scheme.features", "data.name", "data.public", "model.name", "model.loss", "model.metrics")
PYTHON = "python"  # stands for an object that a Python program gave, which no file names


class DataTable(Table):
    """Which data, and who holds which part of it."""

    name: str = setting("A set by name, a schema.toml, an .npz, or file.py:function.", "fashion-mnist")
    clients: Count | None = setting("Registered clients.")
    partition: Literal["iid", "shards", "dirichlet", "column", "pooled", "sites", "own"] | None = setting(
        "How rows are dealt to clients; own: as a Python program says.", usual="iid"
    )
    size: Count | None = setting("Rows of each client, with partition iid.")
    shards: Count | None = setting("Shards of each client, with partition shards.", usual=2)
    alpha: Annotated[float, Field(gt=0, lt=1e6)] | None = setting("Dirichlet's alpha.", usual=0.5)
    column: str | None = setting("The column that names the client, with partition column.")
    public: str | None = setting("The data set of the public batch.")
    public_size: Count | None = setting("Rows of the public batch.", usual=10)


class ModelTable(Table):
    """Which network, loss and metrics: names of hush's own, or file.py:function."""

    name: str | None = setting("cnn, cnn-small, cnn-color, mlp, linear, head, or file.py:function.")
    loss: str | None = setting("cross-entropy, binary-cross-entropy, mean-squared-error, or file.py:function.")
    metrics: str | None = setting(
        "classification, regression, multi-label, language, or file.py:function; found if not given."
    )


class SamplingTable(Table):
    """Who takes part in a round."""

    kind: Literal["poisson", "fixed", "once"] | None = setting("poisson, fixed, or once: by public turns.")
    cohort: Count | None = setting("Clients per round (expected, under Poisson).")
    passes: Count | None = setting("Turns of each client, with kind once.", usual=1)
    floor: Annotated[int, Field(ge=0)] = setting("A round with a smaller cohort is aborted.", 0)
    tolerance: Annotated[float, Field(ge=0, lt=1)] | None = setting(
        "Fraction of a cohort that noise against the server does without."
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = setting(
        "Largest probability that a drawn client drops out, as you declare it.", 0.0
    )


class SecureTable(Table):
    """Whether the server sees nothing but the sum, and in which integers."""

    mode: Literal["simulated", "full"] | None = setting(
        "Secure sum of integers; full: with all masks and messages.", of="travels"
    )
    servers: Literal[1, 2] | None = setting(
        "Servers of the secure sum: 1, or 2 that do not collude.", usual=1, of="travels"
    )
    corrupt: Annotated[float, Field(ge=0, lt=1)] | None = setting(
        "Fraction of each cohort that may collude with the server.", usual=0.1, of="travels"
    )
    rounding: Annotated[float, Field(gt=0, lt=1e6)] | None = setting(
        "Extra noise allowed from rounding, as a fraction; instead of bits.", usual=0.05, of="travels"
    )
    noise: Literal["skellam", "gaussian"] | None = setting(
        "Distribution of the integer noise; gaussian is the discrete Gaussian.", usual="skellam", of="travels"
    )


class RunTable(Table):
    """How long, from which seed, and how often to look."""

    rounds: Annotated[int, Field(ge=1, le=10**6)] = setting("Rounds of training.", 50)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = setting("Seed of the simulation.", 0)
    eval_every: Count = setting("Evaluate every so many rounds.", 1)
    block: Count | None = setting("Clients trained together.")
    workers: Count | None = setting("Threads that train; one for each core if not given.")
    engine: Literal["lockstep", "vmap", "loop"] | None = setting("How blocks train; measured if not given.")
    exact: bool = setting("Make each upload as a client on a network would, with noise of its own.", False)
    canaries: Annotated[int, Field(ge=0, le=10**6)] | None = setting(
        "Canaries of an audit: clients, or records where these are protected; 0: a twentieth, 100 to 1,000, and a tenth"
        " at most."
    )
    device: str = setting("cpu, cuda or another of torch's devices.", "cpu")


class Config(Table):
    """A whole run."""

    data: DataTable = DataTable()
    model: ModelTable = ModelTable()
    scheme: SchemeTable = SchemeTable()
    train: TrainTable = TrainTable()
    sampling: SamplingTable = SamplingTable()
    secure: SecureTable = SecureTable()
    run: RunTable = RunTable()


@dataclass(frozen=True)
class Setting:
    """A setting as its declaration has it. kind: its type and range in words; of: see hush.catalogue.settings."""

    table: str
    name: str
    kind: str
    default: Any
    help: str
    of: Holder | None

    @property
    def key(self) -> str:
        """Its name with the table's."""
        return f"{self.table}.{self.name}"


def _declared() -> Mapping[str, Setting]:
    found = []
    for table, field in Config.model_fields.items():
        kind = field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, Table)
        hints = get_type_hints(kind, include_extras=True)
        for name, one in kind.model_fields.items():
            usual = extra(kind, name, "usual")
            default = one.default if usual is None else usual
            of = extra(kind, name, "of")
            found.append(Setting(table, name, _kind(hints[name]), default, one.description or "", of))
    return {one.key: one for one in found}


def _kind(hint: Any, limits: tuple[Any, ...] = ()) -> str:
    """A type in words: number in (0, 1], integer >= 1, a | b, text."""
    if get_origin(hint) is Annotated:
        return _kind(hint.__origin__, tuple(one for field in hint.__metadata__ for one in field.metadata))
    if get_origin(hint) is Literal:
        # Sorted: Python keeps one object for unions that are equal, in whichever order the first was written.
        return " | ".join(map(str, sorted(get_args(hint))))
    if get_args(hint):
        return " | ".join(_kind(one) for one in get_args(hint) if one is not NoneType)
    word = {int: "integer", float: "number", str: "text", bool: "true | false"}[hint]
    bounds = {key: value for one in limits for key, value in vars_of(one).items()}
    low = f"> {shown(bounds['gt'])}" if "gt" in bounds else f">= {shown(bounds['ge'])}" if "ge" in bounds else ""
    high = bounds.get("lt", bounds.get("le"))
    if high is None or high >= 1e30 or high >= 2**60:
        return f"{word} {low}".strip()
    return f"{word} {low}, {'<' if 'lt' in bounds else '<='} {shown(high)}"


def vars_of(limit: Any) -> dict[str, Any]:
    """What a limit of annotated_types bounds."""
    return {key: getattr(limit, key) for key in ("gt", "ge", "lt", "le") if hasattr(limit, key)}


SETTINGS = _declared()
