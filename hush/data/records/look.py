"""A raw table, before there is a schema: its columns, what they seem to hold, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from hush.data.records.guessing import written_as
from hush.data.records.headings import MARKS
from hush.data.records.places import files
from hush.data.records.sources import ALL, Sign, Source
from hush.data.records.tables import FILE, Table, open_table, readable, reporting

ColumnKind = Literal["number", "integer", "date", "text", "empty", "list, not used", "bytes or times, not used"]
NUMERIC = ("number", "integer")
UNUSED = ", not used"  # the end of such a kind: no key of a schema can name the column
SHOWN = 8  # values of a column with few
SENTINELS = ("-9", "-99", "-999")  # stand for "not known" where nothing else is below 0


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
    """A table as its files have it: `source` is what a schema would say of them.

    sentinels  numbers among what is missing: -9 where no other number is below 0
    named      whether the names of the columns stand in a file
    """

    path: Path
    source: Source
    rows: int
    columns: tuple[Column, ...]
    files: int = 1
    sentinels: tuple[str, ...] = ()
    named: bool = True

    @property
    def separator(self) -> str:
        """Of text; the comma where files differ, as each is then looked at."""
        return self.source.separator or ","

    @property
    def decimal(self) -> Sign | dict[str, Sign]:
        """The decimal sign of all files, or of those that have another than the point."""
        return self.source.decimal

    @property
    def missing(self) -> tuple[str, ...]:
        """The marks that were taken for "not known"."""
        return tuple(map(str, self.source.missing))


def look(path: Path) -> Look:
    """Read a table through and say what its columns hold; text may be cut by , or ; or tab or |.

    Marks such as NaN and ? are taken as missing, and so is -9 where no other number of a column is below 0. The decimal
    sign of a file is a comma if a column of it makes sense only so. Columns without a name are called c1, c2, ...
    """
    found = files(path)
    source, named = written_as(path, found)
    table = open_table(source)
    with reporting(str(path)):
        rows = int(table.lazy.select(pl.len()).collect(engine="streaming").item())
        marks = _marks(table)
        table = replace(table, missing={ALL: marks})
        # Between commas, a quoted 1,200 is rather a thousand.
        commas = tuple(label for label in table.files if source.separator != "," and _comma(table, label))
        table = replace(table, commas=commas)
        sentinels = _sentinels(table)
        table = replace(table, missing={ALL: (*marks, *sentinels)})
        columns = tuple(_column(table, name, rows) for name in table.kinds)
    decimal: Sign | dict[str, Sign] = "."
    if commas:
        decimal = "," if len(commas) == len(table.files) else dict.fromkeys(commas, ",")
    cut = None if source.separator == "," else source.separator
    source = source.model_copy(update={"decimal": decimal, "missing": (*marks, *sentinels), "separator": cut})
    return Look(path, source, rows, columns, len(found), sentinels, named)


def backwards(found: Look, came: str, left: str) -> int:
    """How many rows have the second day before the first."""
    table = open_table(found.source)
    with reporting(str(found.path)):
        wrong = (table.date(left, None) < table.date(came, None)).sum()
        return int(table.lazy.select(wrong).collect(engine="streaming").item())


def _texts(table: Table) -> list[str]:
    return [name for name, kind in table.kinds.items() if kind == pl.String]


def _marks(table: Table) -> tuple[str, ...]:
    """The marks that stand in some column of text."""
    names = _texts(table)
    if not names:
        return ()
    found = [
        pl.any_horizontal((pl.col(name).str.strip_chars() == mark).any() for name in names).alias(str(n))
        for n, mark in enumerate(MARKS)
    ]
    there = table.lazy.select(found).collect(engine="streaming").row(0)
    return tuple(mark for mark, is_there in zip(MARKS, there, strict=True) if is_there)


def _comma(table: Table, label: str) -> bool:
    """Whether some column of text holds nothing but numbers in this file, some of them with a comma."""
    names = _texts(table)
    texts = [table.text(name).str.strip_chars() for name in names]
    found = [
        (text.str.contains(r"^[+-]?\d+(,\d+)?$").all() & text.str.contains(",", literal=True).any()).alias(name)
        for name, text in zip(names, texts, strict=True)
    ]
    mine = table.lazy.filter(pl.col(FILE) == label)
    return bool(names) and any(mine.select(found).collect(engine="streaming").row(0))


def _sentinels(table: Table) -> tuple[str, ...]:
    """Those that stand in columns of numbers, none of which has another number below 0."""
    names = [name for name, kind in table.kinds.items() if readable(kind)]
    low = [float(mark) for mark in SENTINELS]
    found = []
    for name in names:
        number, text = table.number(name), table.text(name)
        clean = (number.count() == text.count()) & ((number >= 0) | number.is_in(low)).all()
        found.append(pl.struct(clean.alias("clean"), *((number == n).any().alias(str(n)) for n in low)).alias(name))
    facts = list(table.lazy.select(found).collect(engine="streaming").row(0)) if found else []
    there = {mark: [fact["clean"] for fact in facts if fact[str(float(mark))]] for mark in SENTINELS}
    return tuple(mark for mark, clean in there.items() if clean and all(clean))


def _column(table: Table, name: str, rows: int) -> Column:
    if not readable(table.kinds[name]):
        there = int(table.lazy.select(pl.col(name).count()).collect(engine="streaming").item())
        unused: ColumnKind = "list, not used" if table.kinds[name].is_nested() else "bytes or times, not used"
        return Column(name, unused, 0, rows - there)
    text, number, one = table.text(name), table.number(name), table.category(name)
    found = table.lazy.select(
        known=text.count(),
        distinct=one.drop_nulls().n_unique(),
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
        often = table.lazy.select(value=one).drop_nulls().group_by("value").len().collect(engine="streaming")
        values = tuple(often.sort(["len", "value"], descending=[True, False])["value"])
    numeric = kind in NUMERIC
    lowest, highest = (facts["lowest"], facts["highest"]) if numeric else (None, None)
    return Column(name, kind, facts["distinct"], rows - known, values, lowest, highest)
