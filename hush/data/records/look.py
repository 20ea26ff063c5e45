"""A raw table, before there is a schema: its columns, what they seem to hold, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from hush.data.records.schema import Source
from hush.data.records.tables import Table, files, open_table, readable, reporting

ColumnKind = Literal["number", "integer", "date", "text", "empty", "list, not used", "bytes or times, not used"]
NUMERIC = ("number", "integer")
UNUSED = ", not used"  # the end of such a kind: no key of a schema can name the column
SHOWN = 8  # values of a column with few
MARKS = ("?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "Null", "null")  # often stand for "not known"


@dataclass(frozen=True)
class Column:
    """What a column holds; `values` are its commonest, commonest first, where there are few different ones."""

    name: str
    kind: ColumnKind
    distinct: int
    missing: int
    values: tuple[str, ...] = ()
    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True)
class Look:
    """A table as its file has it; `missing` are the marks in it that were taken for "not known"."""

    path: Path
    separator: str
    rows: int
    columns: tuple[Column, ...]
    decimal: Literal[".", ","] = "."
    missing: tuple[str, ...] = ()


def look(path: Path) -> Look:
    """Read a table through and say what its columns hold; CSV may be cut by , or ; or tab or |.

    Marks such as NaN and ? are taken as missing. The decimal sign is a comma if a column makes sense only so.
    """
    first = files(path)[0]
    separator = _separator(first) if first.suffix.lower() == ".csv" else ","
    table = open_table(Source(path=str(path), separator=separator))
    with reporting(str(path)):
        rows = int(table.lazy.select(pl.len()).collect(engine="streaming").item())
        table = replace(table, missing=_marks(table))
        # Between commas, a quoted 1,200 is rather a thousand.
        table = replace(table, decimal="," if separator != "," and _comma(table) else ".")
        columns = tuple(_column(table, name, rows) for name in table.kinds)
    return Look(path, separator, rows, columns, table.decimal, table.missing)


def _separator(path: Path) -> str:
    with path.open("rb") as file:
        head = next((line for line in file if line.strip()), b"")
    return max((b",", b";", b"\t", b"|"), key=head.count).decode()


def _texts(table: Table) -> list[str]:
    return [name for name, kind in table.kinds.items() if kind == pl.String]


def _marks(table: Table) -> tuple[str, ...]:
    """The marks that stand in some column of text."""
    names = _texts(table)
    if not names:
        return ()
    found = [
        pl.any_horizontal((pl.col(name) == mark).any() for name in names).alias(str(n)) for n, mark in enumerate(MARKS)
    ]
    there = table.lazy.select(found).collect(engine="streaming").row(0)
    return tuple(mark for mark, is_there in zip(MARKS, there, strict=True) if is_there)


def _comma(table: Table) -> bool:
    """Whether some column of text holds nothing but numbers, some of them with a comma."""
    names = _texts(table)
    texts = [table.text(name).str.strip_chars() for name in names]
    found = [
        (text.str.contains(r"^[+-]?\d+(,\d+)?$").all() & text.str.contains(",", literal=True).any()).alias(name)
        for name, text in zip(names, texts, strict=True)
    ]
    return bool(names) and any(table.lazy.select(found).collect(engine="streaming").row(0))


def _column(table: Table, name: str, rows: int) -> Column:
    if not readable(table.kinds[name]):
        there = int(table.lazy.select(pl.col(name).count()).collect(engine="streaming").item())
        unused: ColumnKind = "list, not used" if table.kinds[name].is_nested() else "bytes or times, not used"
        return Column(name, unused, 0, rows - there)
    text, number = table.text(name), table.number(name)
    found = table.lazy.select(
        known=text.count(),
        distinct=text.drop_nulls().n_unique(),
        numbers=number.count(),
        whole=(number == number.floor()).sum(),
        # A number that would not be written like this is a code: 007, 1e5.
        plain=(number.is_not_null() & ~text.str.contains(r"^[+-]?0\d")).sum(),
        dates=(table.date(name, None) if not table.kinds[name].is_numeric() else pl.lit(None)).count(),
        lowest=number.min(),
        highest=number.max(),
    )
    facts = found.collect(engine="streaming").row(0, named=True)
    known, values = facts["known"], ()
    kind: ColumnKind = "text"
    if not known:
        kind = "empty"
    elif facts["plain"] == known:
        kind = "integer" if facts["whole"] == known else "number"
    elif facts["dates"] == known:
        kind = "date"
    if facts["distinct"] <= SHOWN:
        often = table.lazy.select(value=text).drop_nulls().group_by("value").len().collect(engine="streaming")
        values = tuple(often.sort(["len", "value"], descending=[True, False])["value"])
    numeric = kind in NUMERIC
    lowest, highest = (facts["lowest"], facts["highest"]) if numeric else (None, None)
    return Column(name, kind, facts["distinct"], rows - known, values, lowest, highest)
