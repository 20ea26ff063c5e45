"""Tables from CSV or Parquet files, read when they are needed. CSV is taken as the text that stands in it."""

from __future__ import annotations

import csv
import difflib
import glob
import hashlib
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import polars as pl

from hush.errors import Mistake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hush.data.records.schema import Source, Value

ROW = "\0row"  # counted from 1, without the header; no column of a user's is called so
_DAY = "%Y-%m-%d"


@dataclass(frozen=True, eq=False)
class Table:
    """A table by its short name, its lazy frame and the types of its columns."""

    name: str
    lazy: pl.LazyFrame
    kinds: Mapping[str, pl.DataType]
    missing: tuple[str, ...] = ()
    decimal: Literal[".", ","] = "."

    def check(self, column: str, key: str) -> str:
        """The column, which must be there and hold one value a row; `key` is what the schema calls it."""
        if column not in self.kinds:
            near = difflib.get_close_matches(column, self.kinds, n=1, cutoff=0.4)
            hint = f" (the nearest is {near[0]!r})" if near else ""
            raise Mistake(
                f"{key} = {column!r} is not a column of {self.name}{hint}: name one of {', '.join(self.kinds)}"
            )
        if not readable(self.kinds[column]):
            raise Mistake(
                f"{key} = {column!r} of {self.name} is of the type {self.kinds[column]}: "
                "export it as text, numbers or dates, one value a row"
            )
        return column

    def text(self, column: str) -> pl.Expr:
        """The value as text, exactly as a CSV has it; null where it is missing. A whole float is written as one."""
        kind, value = self.kinds[column], pl.col(column)
        if kind.is_float():
            value = value.fill_nan(None)
            # Pandas turns integers into floats where one is missing: 250.0 is the code 250.
            whole = (value == value.round()) & (value.abs() < 2**53)
            found = pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String))
            return self._known(found.otherwise(value.cast(pl.String)))
        return self._known(value if kind == pl.String else value.cast(pl.String))

    def _known(self, text: pl.Expr) -> pl.Expr:
        return pl.when(~text.is_in(["", *self.missing])).then(text)

    def number(self, column: str) -> pl.Expr:
        """The value as a float; null where it is missing or no number.

        Where the decimal sign is a comma, a point is in no number: 1.200 may be meant as 1200.
        """
        kind = self.kinds[column]
        if kind.is_numeric() or kind == pl.Boolean:
            number = pl.col(column).cast(pl.Float64)
        else:
            text = self.text(column).str.strip_chars()
            if self.decimal == ",":
                plain = ~text.str.contains(".", literal=True)
                text = pl.when(plain).then(text.str.replace(",", ".", literal=True))
            number = text.cast(pl.Float64, strict=False)
        return pl.when(number.is_finite() & self.text(column).is_not_null()).then(number)

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
        return replace(self, lazy=lazy, kinds={**self.kinds, **dict.fromkeys(values, pl.String())})

    def rows(self) -> pl.LazyFrame:
        """The table with its rows numbered."""
        return self.lazy.with_row_index(ROW, 1)


def readable(kind: pl.DataType) -> bool:
    """Whether a value of this type can be written as text; lists, durations and bytes cannot."""
    return not (kind.is_nested() or kind in (pl.Duration, pl.Binary, pl.Object))


def written(value: Value) -> str:
    """A value of the schema as `Table.text` writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def files(path: str | Path) -> list[Path]:
    """The files of a source: one file, the Parquet files of a folder, or those that a pattern matches, by name."""
    place = Path(path)
    if place.is_dir():
        found = sorted(place.glob("*.parquet")) or sorted(place.glob("*.csv"))
    elif place.is_file():
        found = [place]
    else:
        found = sorted(Path(match) for match in glob.glob(str(path)))
    if not found:
        raise Mistake(f"{path} is not there: paths are read from the folder of the schema")
    return found


def open_table(source: Source) -> Table:
    """The table of a source."""
    found = files(source.path)
    kinds = {file.suffix.lower() for file in found}
    if kinds not in ({".csv"}, {".parquet"}):
        raise Mistake(f"{source.path} is neither CSV nor Parquet: name a file that ends in .csv or .parquet")
    with reporting(source.path):
        if kinds == {".csv"}:
            blank = _even(found, source.separator)
            lazy = pl.scan_csv(found, separator=source.separator, infer_schema=False)
            if blank:  # polars takes an empty line for a row in which all is missing
                lazy = lazy.with_row_index(ROW).filter(~pl.col(ROW).is_in(blank)).drop(ROW)
        else:
            lazy = pl.scan_parquet(found)
        missing = tuple(map(written, source.missing))
        return Table(Path(source.path).name, lazy, dict(lazy.collect_schema()), missing, source.decimal)


def _even(paths: list[Path], separator: str) -> list[int]:
    """Refuse CSV whose rows have more or fewer fields than the header: polars would silently shift or fill them.

    Returns which rows of all files together, from 0, are empty lines.
    """
    header: list[str] | None = None
    blank: list[int] = []
    before = 0
    for path in paths:
        with _lines(path) as file:
            rows = csv.reader(file, delimiter=separator)
            names = next(filter(None, rows), [])
            if header is not None and names != header:
                raise Mistake(f"{path.name} has other columns than {paths[0].name}: give files with the same header")
            header = names
            if len(set(names)) < len(names):
                twice = next(name for number, name in enumerate(names) if name in names[:number])
                raise Mistake(f"{path.name} has two columns {twice!r}: rename one")
            lengths = Counter(map(len, rows))  # an empty line has no fields
        if set(lengths) - {0, len(names)}:
            with _lines(path) as file:
                full = filter(None, csv.reader(file, delimiter=separator))
                number, row = next((n, row) for n, row in enumerate(full) if len(row) != len(names))
            raise Mistake(
                f"row {number} of {path.name} has {len(row)} fields and the header {len(names)}: "
                "quote what holds the separator, or say which it is with separator = ';'"
            )
        if lengths[0]:
            with _lines(path) as file:
                rows = csv.reader(file, delimiter=separator)
                next(filter(None, rows))
                blank += [number for number, row in enumerate(rows, before) if not row]
        before += lengths.total()
    return blank


def _lines(path: Path) -> TextIO:
    """The text of a CSV; a line ends where it does for polars, at a line feed."""
    return path.open(encoding="utf-8-sig", newline="\n")


@contextmanager
def reporting(path: str) -> Iterator[None]:
    """Whatever polars says of a broken file becomes the user's mistake."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError, csv.Error) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Mistake(f"{path} cannot be read as a table ({line}): export it again, CSV as UTF-8") from error


def digest(paths: list[Path]) -> str:
    """SHA-256 over the content of files."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()
