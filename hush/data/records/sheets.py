"""Sheets of Excel workbooks (.xlsx), as the text of their cells: needs the extra `tables`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from hush.data.records.headings import LOOKED, heading
from hush.errors import Mistake


def scan(path: Path, sheet: str | None, columns: Sequence[str] | None) -> pl.LazyFrame:
    """The rows of a sheet; empty rows and columns are left out. A number is written with a point, a whole one without.

    A workbook with one sheet needs no `sheet`.
    """
    cells = grid(path, sheet)
    used = [column.name for column in cells if column.null_count() < len(cells)]
    if columns is None:
        cells = cells.select(used)
    elif cells.width > len(columns):  # formatted cells behind the last column
        cells = cells.select(cells.columns[: max(len(columns), cells.columns.index(used[-1]) + 1)])
    names, header = heading(path.name, cells.head(LOOKED).rows(), columns)
    if len(names) != cells.width:
        raise Mistake(f"row 1 of {path.name} has {cells.width} fields and columns {len(names)}: correct columns")
    cells.columns = names
    return cells.slice(1 if header else 0).lazy()


def grid(path: Path, sheet: str | None) -> pl.DataFrame:
    """The rows that are not empty, header and all."""
    try:
        import fastexcel
    except ImportError:
        raise Mistake(
            f"{path.name} is an Excel workbook, which takes fastexcel: pip install 'hush-fl[tables]', or save it as CSV"
        ) from None
    try:
        book = fastexcel.read_excel(path)
        names = book.sheet_names
        if sheet is None and len(names) > 1:
            raise Mistake(f"{path.name} has the sheets {', '.join(names)}: choose one with sheet = {names[0]!r}")
        if sheet is not None and sheet not in names:
            raise Mistake(f"sheet = {sheet!r} is not in {path.name}: name one of {', '.join(names)}")
        found = book.load_sheet(sheet or 0, header_row=None, dtypes="string").to_polars()
    except fastexcel.FastExcelError as error:
        raise Mistake(
            f"{path.name} cannot be read as a workbook ({str(error).splitlines()[0]}): save it again"
        ) from None
    found = found.filter(~pl.all_horizontal(pl.all().is_null()))
    if not len(found):
        raise Mistake(f"{path.name} is empty and cannot be read as a table: export it again, or take it out")
    return found
