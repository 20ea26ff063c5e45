"""Tables from files or from a query, read when they are needed. Text is taken as it stands in the file."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import polars as pl

from hush.data.records import delimited, sheets
from hush.data.records.places import FROM_PATH, Kind, files, kind, labels, named
from hush.data.records.queries import Answers, answer
from hush.data.records.sources import ALL, Source, written
from hush.errors import Mistake

# No column of a user's is called so. A row is counted from 1 within its file, without the header.
ROW, FILE = "\0row", "\0file"
_DAY = "%Y-%m-%d"
_QUERY = "the query's answer, which is sorted"


@dataclass(frozen=True, eq=False)
class Table:
    """A table by its short name, its lazy frame (with ROW and FILE) and the types of its columns.

    files    what messages call them, each with the client that its name gives, where the schema asks for that
    missing  what stands for "not known": by column, and for ALL
    commas   the files in which the decimal sign is a comma
    given    the columns that are of no file: see `filled`
    """

    name: str
    lazy: pl.LazyFrame
    kinds: Mapping[str, pl.DataType]
    files: Mapping[str, str | None]
    missing: Mapping[str, tuple[str, ...]]
    commas: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def check(self, column: str, key: str) -> str:
        """The column, which must be there and hold one value a row; `key` is what the schema calls it."""
        if column not in self.kinds:
            there = [name for name in self.kinds if name not in self.given]
            near = difflib.get_close_matches(column, there, n=1, cutoff=0.4)
            hint = f" (the nearest is {near[0]!r})" if near else ""
            others = ", or say 'file' if each file is of one" if key == "client" and len(self.files) > 1 else ""
            raise Mistake(
                f"{key} = {column!r} is not a column of {self.name}{hint}: name one of {', '.join(there)}{others}"
            )
        if not readable(self.kinds[column]):
            raise Mistake(
                f"{key} = {column!r} of {self.name} is of the type {self.kinds[column]}: "
                "export it as text, numbers or dates, one value a row"
            )
        return column

    @property
    def by_path(self) -> bool:
        """Whether the names of files or folders say who the client is."""
        return any(client is not None for client in self.files.values())

    def text(self, column: str) -> pl.Expr:
        """The value as text, exactly as a file has it; null where it is missing. A whole float is written as one."""
        text = _text(column, self.kinds[column])
        marks = {"", *self.missing.get(ALL, ()), *self.missing.get(column, ())}
        numbers = any(mark[-1:].isdigit() for mark in marks)  # -9 may be written -9.0
        seen = self._plain(text) if numbers else text.str.strip_chars()
        return pl.when(~seen.is_in(sorted(marks))).then(text)

    def category(self, column: str) -> pl.Expr:
        """The value as the name of a category: without blanks around it, and one number in one way (1.0 is 1)."""
        return self._plain(self.text(column))

    def client(self, column: str) -> pl.Expr:
        """Who holds the row: what stands in the column, or what its file or folder is called."""
        if column in self.kinds:
            return self.text(column).str.strip_chars().str.replace(r"^(-?\d+)\.0+$", "$1")
        return pl.col(FILE).replace_strict(dict(self.files), return_dtype=pl.String)

    def number(self, column: str) -> pl.Expr:
        """The value as a float; null where it is missing or no number.

        Where the decimal sign is a comma, a point is in no number: 1.200 may be meant as 1200.
        """
        type_ = self.kinds[column]
        if type_.is_numeric() or type_ == pl.Boolean:
            number = pl.col(column).cast(pl.Float64)
        else:
            text = self.text(column).str.strip_chars()
            plain = ~text.str.contains(".", literal=True)
            comma = pl.when(plain).then(text.str.replace(",", ".", literal=True))
            number = self._signed(comma, text).cast(pl.Float64, strict=False)
        return pl.when(number.is_finite() & self.text(column).is_not_null()).then(number)

    def _signed(self, comma: pl.Expr, point: pl.Expr) -> pl.Expr:
        """The one in files with a decimal comma, the other in the others."""
        if not self.commas:
            return point
        if set(self.commas) == set(self.files):
            return comma
        return pl.when(pl.col(FILE).is_in(self.commas)).then(comma).otherwise(point)

    def _plain(self, text: pl.Expr) -> pl.Expr:
        """As `sources.written` has it."""
        text = text.str.strip_chars()
        comma = text.str.replace(r"^([+-]?\d+),(\d*)$", "$1.$2")
        return self._signed(comma, text).str.replace(r"^\+?(-?\d+)(?:\.0*|(\.\d*?[1-9])0*)$", "$1$2")

    def date(self, column: str, format: str | None) -> pl.Expr:
        """The day, from a date, a date with a time, or text in the given format (ISO by default)."""
        if self.kinds[column] in (pl.Date, pl.Datetime):
            return pl.col(column).cast(pl.Date)
        text = self.text(column).str.strip_chars()
        if format is None:  # an ISO date; the time after it does not matter
            text, format = text.str.slice(0, 10), _DAY
        return text.str.strptime(pl.Date, format, strict=False)

    def filled(self, values: Mapping[str, str]) -> Table:
        """The same table with columns that hold one value in every row."""
        if not values:
            return self
        lazy = self.lazy.with_columns(pl.lit(value).alias(column) for column, value in values.items())
        given = tuple(name for name in values if name not in self.kinds)
        return replace(self, lazy=lazy, kinds={**self.kinds, **dict.fromkeys(values, pl.String())}, given=given)


def _text(column: str, kind: pl.DataType) -> pl.Expr:
    value = pl.col(column)
    if kind.is_float():
        value = value.fill_nan(None)
        # Pandas turns integers into floats where one is missing: 250.0 is the code 250.
        whole = (value == value.round()) & (value.abs() < 2**53)
        found = pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String))
        return found.otherwise(value.cast(pl.String))
    return value if kind == pl.String else value.cast(pl.String)


def readable(kind: pl.DataType) -> bool:
    """Whether a value of this type can be written as text; lists, durations and bytes cannot."""
    return not (kind.is_nested() or kind in (pl.Duration, pl.Binary, pl.Object))


def open_table(source: Source, asked: Answers | None = None, client: str | None = None) -> Table:
    """The table of a source. `asked`: the answers to queries; `client`: what the schema calls the client."""
    found: list[Path] = []
    commas: tuple[str, ...] = ()
    if source.query is not None:
        key = str(source.database), source.query
        frame = asked[key] if asked is not None and key in asked else answer(*key)
        name, parts = _QUERY, {_QUERY: frame.lazy()}
    else:
        name, found = Path(str(source.path)).name, files(str(source.path))
        parts, commas = _parts(found, source)
    lazy, kinds = _together(parts)
    clients: list[str | None] = [None] * len(parts)
    if client in FROM_PATH and client not in kinds:
        if not found:
            raise Mistake(f"client = {client!r} is about files, and the rows are from a query: name a column of it")
        clients = list(named(found, client))
    marks = source.missing if isinstance(source.missing, dict) else {ALL: source.missing}
    for column in marks:
        if column not in (ALL, *kinds):
            raise Mistake(f"missing has {column!r}, which is not a column of {name}: name one of {', '.join(kinds)}")
    missing = {column: tuple(map(written, values)) for column, values in marks.items()}
    return Table(name, lazy, kinds, dict(zip(parts, clients, strict=True)), missing, commas)


def _parts(found: list[Path], source: Source) -> tuple[dict[str, pl.LazyFrame], tuple[str, ...]]:
    """The rows of each file, by its label, and the files with a decimal comma. Files of several kinds become text."""
    shown = labels(found)
    with reporting(str(source.path)):
        kinds = [kind(file) for file in found]
    parts = {}
    for file, label, what in zip(found, shown, kinds, strict=True):
        with reporting(label):
            parts[label] = _part(file, what, source)
            own = parts[label].collect_schema()
        first = parts[shown[0]].collect_schema()
        if own.names() != first.names():
            raise Mistake(
                f"{label} has other columns than {shown[0]} ({_difference(own.names(), first.names())}): give files"
                " with the same columns, or name these by a pattern"
            )
    schemas = [part.collect_schema() for part in parts.values()]
    mixed = any(schema != schemas[0] for schema in schemas)
    if mixed:
        parts = {label: _as_text(part) for label, part in parts.items()}
    signs = {label: _sign(source, label) for label in shown}
    signed = ("text",) if mixed else ("text", "parquet")
    return parts, tuple(
        label for label, what in zip(shown, kinds, strict=True) if what in signed and signs[label] == ","
    )


def _part(file: Path, what: Kind, source: Source) -> pl.LazyFrame:
    if what == "text":
        return delimited.scan(file, delimited.form(file, source.encoding, source.separator, source.columns))
    if what == "workbook":
        return sheets.scan(file, source.sheet, source.columns)
    lazy = pl.scan_parquet(file)
    names = lazy.collect_schema().names()
    if source.columns is not None and set(names) != set(source.columns):
        raise Mistake(
            f"{file.name} has columns of its own ({_difference(list(source.columns), names)}): correct columns"
        )
    return lazy if source.columns is None else lazy.select(source.columns)


def _sign(source: Source, label: str) -> str:
    """The decimal sign of a file."""
    if isinstance(source.decimal, str):
        return source.decimal
    return next((sign for pattern, sign in source.decimal.items() if fnmatch(label, pattern)), ".")


def _difference(mine: list[str], theirs: list[str]) -> str:
    """In words, for two lists of columns that are not the same."""
    more = [name for name in mine if name not in theirs]
    fewer = [name for name in theirs if name not in mine]
    said = [f"{word} {names[0]!r}" for word, names in (("it has", more), ("it lacks", fewer)) if names]
    return " and ".join(said) or "they are in another order"


def _as_text(part: pl.LazyFrame) -> pl.LazyFrame:
    kinds = part.collect_schema()
    return part.select(_text(name, kind).alias(name) if readable(kind) else name for name, kind in kinds.items())


def _together(parts: Mapping[str, pl.LazyFrame]) -> tuple[pl.LazyFrame, dict[str, pl.DataType]]:
    """One frame of all, in which each row has its number and its file."""
    kinds = dict(next(iter(parts.values())).collect_schema())
    each = [part.with_row_index(ROW, 1).with_columns(pl.lit(label).alias(FILE)) for label, part in parts.items()]
    return (each[0] if len(each) == 1 else pl.concat(each)), kinds


@contextmanager
def reporting(path: str) -> Iterator[None]:
    """Whatever polars says of a broken file becomes the user's mistake."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError, csv.Error) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Mistake(f"{path} cannot be read as a table ({line}): export it again, CSV as UTF-8") from error
