"""A raw table, before there is a schema: its columns, what they seem to hold, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from hush.data.records.schema import Source
from hush.data.records.tables import Table, files, open_table, told

Kind = Literal["number", "whole number", "date", "text", "empty"]
SHOWN = 8  # values of a column with few


@dataclass(frozen=True)
class Column:
    """What a column holds; `values` are its commonest, commonest first, where there are few different ones."""

    name: str
    kind: Kind
    distinct: int
    missing: int
    values: tuple[str, ...] = ()
    lowest: float | None = None
    highest: float | None = None


@dataclass(frozen=True)
class Look:
    """A table as its file has it."""

    path: Path
    separator: str
    rows: int
    columns: tuple[Column, ...]


def look(path: Path) -> Look:
    """Read a table through and say what its columns hold; CSV may be cut by , or ; or tab or |."""
    first = files(path)[0]
    separator = _separator(first) if first.suffix.lower() == ".csv" else ","
    table = open_table(Source(path=str(path), separator=separator))
    with told(str(path)):
        rows = int(table.lazy.select(pl.len()).collect(engine="streaming").item())
        columns = tuple(_column(table, name, rows) for name in table.kinds)
    return Look(path, separator, rows, columns)


def _separator(path: Path) -> str:
    with path.open("rb") as file:
        head = file.readline(65536)
    return max((b",", b";", b"\t", b"|"), key=head.count).decode()


def _column(table: Table, name: str, rows: int) -> Column:
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
    kind: Kind = "text"
    if not known:
        kind = "empty"
    elif facts["plain"] == known:
        kind = "whole number" if facts["whole"] == known else "number"
    elif facts["dates"] == known:
        kind = "date"
    if facts["distinct"] <= SHOWN:
        often = table.lazy.select(value=text).drop_nulls().group_by("value").len().collect(engine="streaming")
        values = tuple(often.sort(["len", "value"], descending=[True, False])["value"])
    numeric = kind in ("number", "whole number")
    lowest, highest = (facts["lowest"], facts["highest"]) if numeric else (None, None)
    return Column(name, kind, facts["distinct"], rows - known, values, lowest, highest)
