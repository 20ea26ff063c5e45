"""How the files of a raw table are written, before there is a schema: header, separator, encoding."""

from __future__ import annotations

from pathlib import Path

from hush.data.records import delimited, sheets
from hush.data.records.headings import LOOKED, Row, headless
from hush.data.records.places import kind, labels
from hush.data.records.sources import Source
from hush.data.records.tables import reporting
from hush.errors import Mistake

_WINDOWS = "cp1252"  # what text that is not UTF-8 is written in, most often


def written_as(path: Path, found: list[Path]) -> tuple[Source, bool]:
    """What a schema says of the files, and whether a file has the names of the columns.

    Where some files have a header and some have none, its names are those of all. Columns without a name are c1, c2.
    """
    forms: set[tuple[str, str]] = set()
    bare: list[int] = []
    headers: list[Row] = []
    for file, label in zip(found, labels(found), strict=True):
        with reporting(label):
            rows, form = _head(file)
        if form is not None:
            forms.add(form)
        if rows and headless(rows):
            bare.append(len(rows[0]))
        elif rows:
            headers.append([(field or "").strip() for field in rows[0]])
    columns = None
    if bare:
        columns = tuple(map(str, headers[0])) if headers else tuple(f"c{n}" for n in range(1, bare[0] + 1))
    cuts, codes = ({form[n] for form in forms} for n in range(2))
    return Source(
        path=str(path),
        columns=columns,
        separator=cuts.pop() if len(cuts) == 1 else None,
        encoding=_WINDOWS if _WINDOWS in codes else None,
    ), not bare or bool(headers)


def _head(file: Path) -> tuple[list[Row], tuple[str, str] | None]:
    """The first rows of a file, and for text its separator and encoding. Parquet has its own names."""
    what = kind(file)
    if what == "parquet":
        return [], None
    if what == "workbook":
        return list(sheets.grid(file, None).head(LOOKED).rows()), None
    code = delimited.encoding(file, _WINDOWS)
    cut = delimited.separator(file, code, None)
    rows = delimited.head(file, code, cut)
    if not rows:
        raise Mistake(f"{file.name} is empty and cannot be read as a table: export it again, or take it out")
    return rows, (cut, code)
