"""The names of a table's columns: from its first row, or from the schema where a file has no header."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hush.errors import Mistake

LOOKED = 50  # rows by which a header is distinguished from data
FEW = 8  # rows that show whether the words of a column repeat
MARKS = ("?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "Null", "null")  # often stand for "not known"
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")

Row = Sequence[str | None]


def heading(file: str, rows: Sequence[Row], columns: Sequence[str] | None) -> tuple[list[str], bool]:
    """The names of the columns, and whether the first of `rows` is a header, which is then no row.

    With `columns` a file has no header, unless its first row has these very names.
    """
    first = [(field or "").strip() for field in rows[0]]
    if columns is None:
        return _own(file, [field or "" for field in rows[0]], rows[1:]), True
    if [name.casefold() for name in first] == [name.strip().casefold() for name in columns]:
        return list(columns), True
    if len(first) == len(columns) and _seems_header(first, rows[1:LOOKED]):
        raise Mistake(
            f"row 1 of {file} seems to be a header ({_shown(first)}), and the schema gives columns: write these as the"
            " header has them, and it is skipped, or remove that line"
        )
    return list(columns), False


def headless(rows: Sequence[Row]) -> bool:
    """Whether the first row is data: half of it or more is numbers, marks such as ? or values that come again below.

    So it is where a number is there twice. A header that is repeated whole, as in files that were put together, is one.
    """
    first = [(field or "").strip() for field in rows[0]]
    below = _below(first, [row for row in rows[1:LOOKED] if list(row) != list(rows[0])])
    data = [field for field in first if _NUMBER.fullmatch(field) or field in MARKS]
    again = [field for field, column in zip(first, below, strict=True) if field in column and field not in data]
    return (len(data) + len(again)) * 2 >= len(first) or len(set(data)) < len(data)


def _own(file: str, names: list[str], rest: Sequence[Row]) -> list[str]:
    if headless([names, *rest]):
        raise Mistake(
            f"{file} has no header, as its first row is {_shown(names)}: name its {len(names)} columns in the schema,"
            " with columns = [...]"
        )
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise Mistake(
            f"{file} has two columns {twice!r}: rename one, or name all with columns = [...] if row 1 is no header"
        )
    return names


def _seems_header(first: list[str], rest: Sequence[Row]) -> bool:
    """No number, no mark and no repeat in it, none of its words comes again below, where numbers or few words are."""
    if any(not field or _NUMBER.fullmatch(field) or field in MARKS for field in first) or len(set(first)) < len(first):
        return False
    below = _below(first, rest)
    if any(word in column for word, column in zip(first, below, strict=True)):
        return False
    known = [[field for field in column if field and field not in MARKS] for column in below]
    numbers = any(column and all(map(_NUMBER.fullmatch, column)) for column in known)
    return numbers or all(len(column) >= FEW and len(set(column)) * 2 <= len(column) for column in known)


def _below(first: list[str], rest: Sequence[Row]) -> list[list[str]]:
    """What stands in each column of the other rows."""
    return [[(row[n] or "").strip() for row in rest if n < len(row)] for n in range(len(first))]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
