"""The schema of a hospital's export: which columns mean what, and which rows are kept, as TOML."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hush.data.records.sources import Codes, Described, Main, Names, Values, written
from hush.errors import Mistake

Count = Annotated[int, Field(ge=1)]
UNKNOWN = "Unknown"  # the level of a missing value


class Numeric(Described):
    """A number, scaled to [0, 1] by its bounds. A bound that is not given is fitted on the data.

    A missing value may become the `median` (fitted), `zero` (the scaled feature, that is the lower bound) or a number.
    """

    min: float | None = None
    max: float | None = None
    missing: Literal["median", "zero", "drop", "refuse"] | float = "refuse"
    outside: Literal["refuse", "clamp", "drop"] = "refuse"

    @model_validator(mode="after")
    def _ordered(self) -> Numeric:
        if self.min is not None and self.max is not None and not self.min < self.max:
            raise ValueError(f"min = {self.min:g} must be less than max = {self.max:g}")
        for low, high in ((self.min, self.missing), (self.missing, self.max)):
            if isinstance(low, float) and isinstance(high, float) and not low <= high:
                raise ValueError(f"missing = {self.missing} must lie between min and max")
        return self


class Categorical(Described):
    """A category, one feature for each level; a plain list is that of its levels. No levels: fitted on the data.

    A missing value, and separately one that is `other` than the levels, is refused, dropped or taken as a level.
    Where "Unknown" is a level, a missing value is that; another value never is, if it is not said.
    """

    levels: Values = ()
    missing: str | None = None
    other: str = "refuse"

    @property
    def unknown(self) -> str:
        """What becomes of a missing value: a level, "refuse" or "drop"."""
        if self.missing is not None:
            return self.missing
        return UNKNOWN if not self.levels or UNKNOWN in self.levels else "refuse"


def _levels(value: object) -> object:
    return {"levels": value} if isinstance(value, list | tuple) else value


class Features(Described):
    """What becomes a column: numbers, one-hot categories, multi-hot codes. An empty list of levels is fitted."""

    numeric: dict[str, Numeric] = Field(default_factory=dict)
    categorical: dict[str, Annotated[Categorical, BeforeValidator(_levels)]] = Field(default_factory=dict)
    codes: Names = ()
    vocabulary: str | None = None
    unknown_codes: Literal["refuse", "drop"] = "refuse"

    @model_validator(mode="after")
    def _distinct(self) -> Features:
        for column, wanted in self.categorical.items():
            names = [written(level) for level in wanted.levels]
            if len(set(names)) < len(names):
                raise ValueError(f"categorical.{column} has a level twice: remove one")
            for key, value in (("missing", wanted.missing), ("other", wanted.other)):
                if names and value not in (None, "refuse", "drop", *names):
                    raise ValueError(
                        f"categorical.{column}: {key} = {value!r} must be 'refuse', 'drop' or a level: add it to levels"
                    )
        return self


class Keep(Described):
    """Which rows are kept. A row that a rule cannot decide on (no age, no date) is `undecided`."""

    age: str = "age"
    min_age: float | None = None
    max_age: float | None = None
    exclude: dict[str, Values] = Field(default_factory=dict)
    stay: str | None = None
    admitted: str | None = None
    discharged: str | None = None
    dates: str | None = None
    min_days: float | None = None
    wrong_dates: Literal["refuse", "drop"] = "refuse"
    undecided: Literal["refuse", "drop"] = "refuse"
    duplicates: Literal["refuse", "first", "last"] = "refuse"
    rare_codes: Count | None = None
    min_rows_per_client: Count | None = None

    @model_validator(mode="after")
    def _days(self) -> Keep:
        if (self.admitted is None) != (self.discharged is None):
            raise ValueError("admitted and discharged go together: give both columns or neither")
        if self.stay is not None and self.admitted is not None:
            raise ValueError("stay and admitted/discharged both say the days: give one of them")
        if self.min_days is not None and self.stay is None and self.admitted is None:
            raise ValueError("min_days needs the column stay, or the columns admitted and discharged")
        return self


class Deal(Described):
    """Virtual clients, in place of the table's own: training rows are dealt at random, `rows` to each.

    Each has a row of label 1 at least. There are `clients`, or as many as there are rows for. `public` rows are set
    aside that no client holds. Where the schema names patients, all rows of one are dealt together, so that a client
    may have a few more, and `public` a few fewer.
    """

    rows: Count
    clients: Count | None = None
    public: Count | None = None


def _several(value: object) -> object:
    """One [codes] table, or several [[codes]]."""
    return [value] if isinstance(value, dict) else value


class Schema(Described):
    """An export: `admissions` and `codes` tables, or one wide `table`. Paths are absolute once read."""

    admissions: Main | None = None
    codes: Annotated[tuple[Codes, ...], Field(strict=False), BeforeValidator(_several)] = ()
    table: Main | None = None
    features: Features
    keep: Keep = Keep()
    deal: Deal | None = None

    @property
    def main(self) -> Main:
        """The table with one row per admission, long or wide."""
        found = self.admissions or self.table
        assert found is not None
        return found

    @model_validator(mode="after")
    def _whole(self) -> Schema:
        if (self.admissions is None) == (self.table is None):
            raise ValueError("give [admissions] with its [codes], or one wide [table]")
        if self.table is not None and self.codes:
            raise ValueError("[codes] belongs to [admissions]; a wide [table] names its code columns in features.codes")
        if self.admissions is not None and self.admissions.id is None:
            raise ValueError("[admissions] needs id, the column that [codes] points at")
        if self.main.id is None and self.keep.duplicates != "refuse":
            raise ValueError("duplicates needs the column id, by which a duplicate is found")
        wanted, has_codes = self.features, bool(self.codes or self.features.codes)
        if not (wanted.numeric or wanted.categorical or has_codes):
            raise ValueError("[features] names no column: give numeric, categorical or codes")
        if self.main.label in (*wanted.numeric, *wanted.categorical, *wanted.codes):
            raise ValueError(f"{self.main.label!r} is the label and a feature: it would reveal what is to be predicted")
        if not has_codes and (wanted.vocabulary is not None or self.keep.rare_codes is not None):
            raise ValueError("vocabulary and rare_codes are about codes, and there are none")
        return self


def read_schema(path: Path, folder: Path | None = None) -> Schema:
    """A Schema from a TOML file. The paths in it are read from its own folder, or from `folder`."""
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Mistake(
            f"{path} is not there: give a schema, or draft one with `hush data describe FILE --draft`"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None
    try:
        schema = Schema.model_validate(tables)
    except ValidationError as error:
        raise Mistake(_sentence(error, str(path))) from None
    return _placed(schema, (folder or path.parent).resolve())


def _placed(schema: Schema, folder: Path) -> Schema:
    def put(source: Any) -> Any:
        if source is None:
            return None
        here = {"path": source.path}
        if source.database is not None and source.database[0] != "$" and "://" not in source.database:
            here["database"] = source.database
        if source.query is not None and source.query.endswith(".sql"):
            here["query"] = source.query
        return source.model_copy(update={key: value and str(folder / value) for key, value in here.items()})

    words = schema.features.vocabulary
    features = schema.features.model_copy(update={"vocabulary": words and str(folder / words)})
    update = {
        "admissions": put(schema.admissions),
        "table": put(schema.table),
        "codes": tuple(put(codes) for codes in schema.codes),
        "features": features,
    }
    return schema.model_copy(update=update)


def _names() -> list[str]:
    """All keys of a schema's tables."""
    known = Schema.model_json_schema()
    return sorted({key for table in (known, *known["$defs"].values()) for key in table.get("properties", ())})


def _sentence(error: ValidationError, where: str) -> str:
    first = error.errors()[0]
    # The types of a union stand in the place of an error; the user did not write them.
    parts = [str(p) for p in first["loc"] if str(p) not in ("float", "int", "str", "bool") and "[" not in str(p)]
    key = ".".join(parts)
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(parts[-1], _names(), n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{where}: key {key!r} is not known: {hint}remove it or correct its spelling"
    if first["type"] == "missing":
        return f"{where}: key {key!r} is missing: add it"
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{where}: {f'{key}: ' if key else ''}{message}"
    allowed = [e["msg"] for e in error.errors() if e["loc"][: len(parts)] == first["loc"][: len(parts)]]
    return f"{where}: {key} = {first['input']!r} is wrong: {' or '.join(dict.fromkeys(allowed)).lower()}"
