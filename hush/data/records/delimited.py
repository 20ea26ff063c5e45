"""Text files with a separator: any encoding, any of the usual separators, with a header or without."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, dropwhile, islice
from pathlib import Path
from typing import TextIO

import polars as pl

from hush.data.records.headings import LOOKED, Row, heading
from hush.errors import Mistake

SEPARATORS = (",", ";", "\t", "|")
_UTF8 = "utf-8-sig"
_AT = "\0at"


@dataclass(frozen=True)
class Form:
    """How a text file is written: its encoding, its separator, its columns and whether its first row is a header."""

    encoding: str
    separator: str
    columns: tuple[str, ...]
    header: bool


def form(path: Path, code: str | None, cut: str | None, columns: Sequence[str] | None) -> Form:
    """The form of a file, from its encoding and its separator, where they are given, and from its first rows."""
    written = encoding(path, code)
    wanted = None if columns is None else len(columns)
    cut = cut or separator(path, written, wanted)
    rows = head(path, written, cut)
    if not rows:
        raise Mistake(f"{path.name} is empty and cannot be read as a table: export it again, or take it out")
    _check(path, written, cut, len(rows[0]), wanted)
    names, header = heading(path.name, rows, columns)
    return Form(written, cut, tuple(names), header)


def head(path: Path, code: str, cut: str) -> list[Row]:
    """The first rows, without empty lines."""
    with _lines(path, code) as file:
        return list(islice(filter(None, csv.reader(file, delimiter=cut)), LOOKED))


def scan(path: Path, found: Form) -> pl.LazyFrame:
    """The rows of a file as the text that stands in it.

    Rows with more or fewer fields than it has columns are refused: polars would silently shift or fill them. Empty
    lines are left out, which polars takes for rows in which all is missing.
    """
    width, schema = len(found.columns), dict.fromkeys(found.columns, pl.String())
    with _lines(path, found.encoding) as file:
        rows = csv.reader(file, delimiter=found.separator)
        if found.header:
            next(filter(None, rows))
        start, row = rows.line_num, next(rows, None)
        while row == []:
            start, row = rows.line_num, next(rows, None)
        if row is None:
            return pl.LazyFrame(schema=schema)
        lengths = Counter(map(len, chain([row], rows)))  # an empty line has no fields
    if set(lengths) - {0, width}:
        number, length = next(found for found in _lengths(path, found) if found[1] != width)
        names = "the header" if found.header else "columns"
        hint = "quote what holds the separator" if length > width else "correct the row"
        if length == 1:
            hint = (
                f"correct it, say what separates its fields with separator = ..., as {found.separator!r} does not, or"
                " name the files by a pattern, if it is no table"
            )
        raise Mistake(f"row {number} of {path.name} has {length} fields and {names} {width}: {hint}")
    source: Path | io.BytesIO = path
    if found.encoding != _UTF8:
        source = io.BytesIO(path.read_bytes().decode(found.encoding).encode())
    lazy = pl.scan_csv(source, separator=found.separator, has_header=False, schema=schema, skip_lines=start)
    return (
        lazy if not lengths[0] else lazy.with_row_index(_AT).filter(~pl.col(_AT).is_in(_blank(path, found))).drop(_AT)
    )


def _lengths(path: Path, found: Form) -> Iterator[tuple[int, int]]:
    """The number of each row, from 1, and of its fields."""
    with _lines(path, found.encoding) as file:
        full = filter(None, csv.reader(file, delimiter=found.separator))
        yield from ((number, len(row)) for number, row in enumerate(full, 0 if found.header else 1) if number)


def _blank(path: Path, found: Form) -> list[int]:
    """Which lines behind the first row are empty, that row being 0."""
    with _lines(path, found.encoding) as file:
        rows = csv.reader(file, delimiter=found.separator)
        if found.header:
            next(filter(None, rows))
        return [number for number, row in enumerate(dropwhile(lambda row: not row, rows)) if not row]


def encoding(path: Path, given: str | None) -> str:
    """UTF-8 if the file is that, else UTF-16 if it says so itself, else what is given."""
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
    if given is None:
        return _UTF8
    try:
        with path.open(encoding=_UTF8) as lines:
            for _ in lines:
                pass
    except UnicodeDecodeError:
        return given
    return _UTF8


def separator(path: Path, code: str, wanted: int | None) -> str:
    """The one that cuts every one of the first rows alike, in as many fields as wanted; the comma before others."""
    fits = [cut for cut in SEPARATORS if _cuts(path, code, cut, wanted)]
    return fits[0] if fits and (len(fits) == 1 or fits[0] == ",") else ","


def _cuts(path: Path, code: str, cut: str, wanted: int | None) -> bool:
    lengths = {len(row) for row in head(path, code, cut)}
    return len(lengths) == 1 and (lengths == {wanted} if wanted is not None else max(lengths) > 1)


def _check(path: Path, code: str, cut: str, fields: int, wanted: int | None) -> None:
    """Refuse a separator that cuts nothing where another one would."""
    better = [other for other in SEPARATORS if other != cut and _cuts(path, code, other, wanted)]
    if better and fields != wanted and (fields == 1 or wanted is not None):
        raise Mistake(
            f"row 1 of {path.name} has {fields} fields by the separator {cut!r}: say separator = {better[0]!r},"
            f" by which all rows are alike"
        )


@contextmanager
def _lines(path: Path, code: str) -> Iterator[TextIO]:
    """The text of a file; a line ends where it does for polars, at a line feed."""
    try:
        with path.open(encoding=code, newline="\n") as file:
            yield file
    except UnicodeError:
        raise Mistake(_undecoded(path, code)) from None


def _undecoded(path: Path, code: str) -> str:
    """Which line is not of the encoding, and what to do."""
    if code != _UTF8:
        return f"{path.name} is not written in {code}: correct encoding in the schema, or save the file as UTF-8"
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                return (
                    f"line {number} of {path.name} has the byte 0x{byte:02x}, which is not UTF-8: say encoding ="
                    " 'cp1252' if it comes from Windows, or save the file as UTF-8"
                )
    return f"{path.name} is not UTF-8: save it as that"
