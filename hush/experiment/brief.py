"""What a site makes its model and its rows of: the part of a charter that says what is learned, as canonical JSON."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

import torch

from hush.catalogue.values import Settings
from hush.core.engine import Engine, EngineKind
from hush.core.task import Problem
from hush.data.fetch import Say
from hush.data.registry import DataSet, schema_of
from hush.data.samples import Samples
from hush.errors import Mistake, Refused
from hush.experiment import population
from hush.experiment.preparing import Prepared, loss_of, model_of
from hush.models import networks
from hush.random.seeds import PublicSeed

if TYPE_CHECKING:
    from hush.data.records.schema import Schema

_OTHERS = (".npz", ".toml")  # of what a site gives, all else is a table
MOST = 2**28  # weights of a model, and a side of a row: what a site makes because a server says so


@dataclass(frozen=True)
class Brief:
    """A problem in words and numbers.

    data          the name of the set that the server tests on, for people
    shape         of a row as a site has it; `inputs`: of one as the model takes it
    classes       of the labels; 1 where they are numbers
    model, loss   by name; `share` is the rarer class's, where the loss weighs by it
    outputs       of the model
    seed          the public one of the first weights
    features, order   of images, where a public front makes features of them: how many, and its order
    columns       SHA-256 of the names of the columns of records
    schema, vocabulary   what a table's columns mean, and the public list of its codes, where records are learned from
    engine        how a client trains, which decides on last bits
    """

    data: str
    shape: list[int]
    inputs: list[int]
    classes: int
    model: str
    loss: str
    outputs: int
    seed: int
    engine: str
    share: float | None = None
    featured: bool = False
    features: int | None = None
    order: int | None = None
    columns: str | None = None
    schema: dict[str, Any] | None = None
    vocabulary: list[str] | None = None

    @property
    def json(self) -> str:
        """The same text at every member; a schema's columns stay in their order, which is that of the features."""
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)

    @classmethod
    def read(cls, text: str) -> "Brief":
        """From its JSON; anything else is refused."""
        try:
            found = json.loads(text)
            kinds = get_type_hints(cls)
            if not isinstance(found, dict) or set(found) != {field.name for field in fields(cls)}:
                raise ValueError("its keys are others")
            for name, value in found.items():
                kind = kinds[name]
                allowed = get_args(kind) if isinstance(kind, UnionType) else (kind,)
                plain = tuple(getattr(one, "__origin__", one) for one in allowed)
                if type(value) not in plain:
                    raise ValueError(f"{name} is of another type")
            made = cls(**found)
            sides = (*made.shape, *made.inputs, made.classes, made.outputs, made.features or 1, made.order or 1)
            if not all(type(side) is int and 0 < side <= MOST for side in sides) or not made.shape or not made.inputs:
                raise ValueError("its shape is none")
            if not all(type(word) is str for word in made.vocabulary or ()):
                raise ValueError("its vocabulary is not of words")
            same = made.json == text
        except (ValueError, RecursionError, TypeError) as error:
            raise Refused(f"the charter does not say what is learned as hush does: {error}") from None
        if not same:
            raise Refused("the charter does not say what is learned as hush writes it, or by another version")
        return made

    def problem(self, public: Samples | None, code: Path | None = None) -> Problem:
        """The model with its first weights, the loss, and the public batch."""
        self._check_size()
        model = model_of(_local(self.model, code), torch.Size(self.inputs), self.outputs, PublicSeed(self.seed))
        return Problem(model, loss_of(_local(self.loss, code), self.share), None, public, featured=self.featured)

    def _check_size(self) -> None:
        """Refuse a model that would fill a site's memory, before it is made; code of one's own is not run for this."""
        make = networks.MODELS.get(self.model)
        try:
            with torch.device("meta"):
                made = None if make is None else make(torch.Size(self.inputs), self.outputs)
        except ValueError:  # a shape that is none for this model, which whoever makes it says
            made = None
        except (RuntimeError, OverflowError, TypeError):
            raise Refused(f"the charter's model for inputs of {self.inputs[:4]} is too large to be made") from None
        size = 0 if made is None else sum(weight.numel() for weight in made.parameters())
        if size > MOST:
            raise Refused(f"the charter's model has {size} weights, and a site makes {MOST} at most")

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of a table on which features, labels or the choice of rows stand."""
        if self.schema is None:
            return ()
        schema = self._described()
        main, keep, wanted = schema.main, schema.keep, schema.features
        ages = keep.age if keep.min_age is not None or keep.max_age is not None else None
        others = (main.label, main.patient, ages, keep.stay, keep.admitted, keep.discharged)
        return (*wanted.numeric, *wanted.categorical, *wanted.codes, *filter(None, others), *keep.exclude)

    @property
    def names_columns(self) -> bool:
        """Whether the charter, and not a site's own table, says what the columns are called."""
        return self.schema is not None and self._described().main.columns is not None

    def _described(self) -> "Schema":
        """The schema of tables. Where a site's rows are is for the site to say, never for a server."""
        from hush.data.records.schema import Schema

        try:
            schema = Schema.model_validate(self.schema)
        except ValueError as error:
            raise Refused(f"the charter's schema is none ({type(error).__name__})") from None
        if any(source.query is not None for source in (schema.main, *schema.codes)):
            raise Refused("the charter's schema has a query, which a site does not run for a server")
        return schema

    @property
    def trained(self) -> Engine:
        """How a client trains."""
        if self.engine not in get_args(EngineKind):
            raise Refused(f"the charter trains by {self.engine!r}, which is not known")
        return Engine(cast(EngineKind, self.engine))

    def rows(self, place: Path, folder: Path, say: Say = population.quiet) -> Samples:
        """A site's own rows: an .npz, its own schema, or a table that the charter's schema describes.

        `folder`: where the charter's list of codes is put, for a table that needs it.
        """
        found = self._read(place, folder, say)
        if self.columns is not None and _digest(found.features) != self.columns:
            raise Mistake(f"{place} gives other columns than the federation's: take its schema, or correct yours")
        shape = list(found.train.inputs.shape[1:])
        if shape != self.shape:
            raise Mistake(f"{place} has rows of shape {shape}, and the federation learns from {self.shape}")
        if found.classes > self.classes or (found.classes == 1) != (self.classes == 1):
            raise Mistake(f"{place} has {found.classes} classes, and the federation {self.classes}: check the labels")
        if not self.featured:
            return found.train
        wanted = Settings(features=self.features) if self.order is None else None
        settings = wanted or Settings(features=self.features, scattering_order=cast(int, self.order))
        alone = replace(found, test=found.train.rows(torch.arange(1)), public=None)
        return population.featured(alone, settings, say).train

    def _read(self, place: Path, folder: Path, say: Say) -> DataSet:
        if is_table(place):
            return self._table(place, folder, say)
        return population.found(str(place), self.seed, "train") if place.suffix == ".npz" else _all(place, say)

    def _table(self, place: Path, folder: Path, say: Say) -> DataSet:
        if self.schema is None:
            raise Mistake(f"{place} is a table, and this federation has no schema for tables: give an .npz file")
        if not place.exists():
            raise Mistake(f"{place} is not there: give the table with this site's rows, or the folder of its files")
        schema = self._described()
        if schema.table is None:
            raise Mistake("the federation's records are in two tables: write a schema.toml that names yours")
        words = None
        if self.vocabulary is not None:
            words = str(folder / "vocabulary.txt")
            Path(words).write_text("\n".join(self.vocabulary) + "\n")
        table = schema.table.model_copy(update={"path": str(place.resolve())})
        features = schema.features.model_copy(update={"vocabulary": words})
        return _whole(schema.model_copy(update={"table": table, "features": features}), place.stem, say)


def is_table(place: Path) -> bool:
    """Whether a site's rows are a table, or a folder of its files, that the charter's schema describes."""
    return place.suffix.lower() not in _OTHERS


def brief(ready: Prepared, engine: str) -> Brief:
    """What a server sends its sites of the problem that it has prepared."""
    config, data, features = ready.config, ready.data, ready.front.settings["features"]
    if isinstance(features, str):
        raise Mistake(
            f"features={features} is code, which is never sent to a site: leave it out, or give every site its rows of"
            " features as an .npz and take another scheme"
        )
    fitted = [note for note in data.notes if note.startswith("fitted on the records: ")]
    if fitted:
        raise Mistake(
            f"a federation's features are public, and the schema leaves one to the records ({fitted[0][23:]}): write it"
            " in the schema"
        )
    schema, words = _schema(config.data.name) if data.features else (None, None)
    return Brief(
        data=data.name,
        shape=list(ready.shape),
        inputs=list(data.train.inputs.shape[1:]),
        classes=data.classes,
        model=ready.model_name,
        loss=ready.loss.name,
        outputs=ready.outputs,
        seed=config.run.seed,
        engine=engine,
        share=ready.loss.share,
        featured=ready.entry.featured,
        features=features,
        order=ready.front.settings["scattering_order"],
        columns=_digest(data.features) if data.features else None,
        schema=schema,
        vocabulary=words,
    )


def _schema(name: str) -> tuple[dict[str, Any] | None, list[str] | None]:
    """The schema of records without its paths, and its list of codes."""
    from hush.data.records import read_schema

    place = schema_of(name)
    if place is None:
        return None, None
    schema = read_schema(place[0])
    known = schema.model_dump(mode="json", exclude_none=True, exclude={"deal"})
    words = known["features"].pop("vocabulary", None)
    for table in (known.get("table"), known.get("admissions"), *known.get("codes", ())):
        if table is not None:  # where the server's own rows are is nobody's business
            table["path"] = Path(table.get("path", "rows")).name
            table.pop("database", None)
            table.pop("query", None)
    return known, None if words is None else Path(words).read_text().split()


def _all(place: Path, say: Say) -> DataSet:
    from hush.data.records import read_schema

    return _whole(read_schema(place), place.stem, say)


def _whole(schema: Any, name: str, say: Say) -> DataSet:
    """All records of a schema: a site has no test rows to set aside."""
    from hush.data.records.stored import stored

    found = stored(schema, say)
    if found.fitted:
        raise Mistake(f"a federation's features are public, and this one is fitted on the records: {found.fitted[0]}")
    rows = Samples(found.inputs, found.targets)
    classes = max(2, int(found.targets.max()) + 1)
    return DataSet(name, rows, rows, classes, "own records", "none known", features=found.names)


def _digest(names: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _local(name: str, code: Path | None) -> str:
    """A name of hush's own, or a function of a file that this site's operator has named: none is ever sent."""
    if ".py:" not in name:
        return name
    place, _, called = name.rpartition(":")
    if code is None or code.name != Path(place).name:
        raise Refused(f"the charter's {name} is code, which is never sent: read it, and give it with --code")
    return f"{code}:{called}"
