"""The files that a path of a schema names, what each is called, and which kind it is, by its content."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hush.errors import Mistake

Kind = Literal["text", "parquet", "workbook"]
FROM_PATH = ("file", "folder")  # what a client may be called by, in place of a column
_LEFT = (".toml",)  # of a folder: the schema itself
_ENDS = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".parquet", ".xlsx", ".xls")
_NO_TABLES = (".toml", ".npz", ".json", ".zip")
# First bytes, and what to do about them.
_OTHERS = {
    b"\xd0\xcf\x11\xe0": "is a workbook of the old form .xls: save it as .xlsx or .csv",
    b"\x1f\x8b": "is compressed by gzip: unpack it",
    b"SQLite format 3": "is an SQLite database: name it with database = ..., and give a query",
    b"%PDF": "is a PDF: export the table itself",
}


def files(path: str | Path) -> list[Path]:
    """The files of a source, by name: one file, those of a folder, or those that a pattern matches.

    Of a folder all files are taken but hidden ones (. or _ in front) and schemas, so that no hospital is left out for
    the end of its file's name.
    """
    place = Path(path)
    if place.is_dir():
        inside = (file for file in place.iterdir() if file.is_file() and file.name[0] not in "._")
        found = sorted(file for file in inside if file.suffix.lower() not in _LEFT)
        if not found:
            raise Mistake(f"the folder {path} has no files: name another, or a pattern such as '{place.name}/*/*.csv'")
    elif place.is_file():
        found = [place]
    else:
        found = sorted(file for match in glob.glob(str(path)) if (file := Path(match)).is_file())
    if not found:
        raise Mistake(f"{path} is not there: paths are read from the folder of the schema")
    _apart(found)
    return found


def _apart(found: list[Path]) -> None:
    """Refuse one table in two forms: its rows would count twice."""
    seen: dict[Path, Path] = {}
    for file in found:
        other = seen.setdefault(file.with_suffix("") if file.suffix.lower() in _ENDS else file, file)
        if other != file:
            raise Mistake(
                f"{other.name} and {file.name} have one name but for its end, as one table in two forms has: rename"
                " one, or choose by a pattern such as '*.csv'"
            )


def labels(found: list[Path]) -> list[str]:
    """What messages call each file: its name, or with folders where two have the same."""
    names = [file.name for file in found]
    if len(set(names)) == len(names):
        return names
    common = os.path.commonpath([file.parent for file in found])
    return [str(file.relative_to(common)) for file in found]


def named(found: list[Path], by: str) -> list[str]:
    """The client of each file: its name, without the end if these differ, or the name of its folder."""
    if by == "folder":
        return [file.resolve().parent.name for file in found]
    names = [file.stem for file in found]
    if len(set(names)) < len(names):  # visit.north and visit.south
        names = [file.name for file in found]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise Mistake(f"client = 'file', and two files are called {twice!r}: rename one, or say client = 'folder'")
    return names


def kind(file: Path) -> Kind:
    """What a file is by its first bytes, whatever its name ends in."""
    if file.suffix.lower() in _NO_TABLES:
        raise Mistake(
            f"{file.name} is neither CSV nor Parquet nor a workbook: give a table, or a pattern such as '*.csv'"
        )
    with file.open("rb") as content:
        head = content.read(16)
    for start, why in _OTHERS.items():
        if head.startswith(start):
            raise Mistake(f"{file.name} {why}")
    if head[8:12] == b"DUCK":
        raise Mistake(f"{file.name} is a DuckDB database: name it with database = ..., and give a query")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"PK\x03\x04"):
        return "workbook"
    if file.suffix.lower() in (".parquet", ".xlsx"):
        raise Mistake(f"{file.name} is not what its name ends in: export it again")
    return "text"


def digest(paths: list[Path], name: Callable[[Path], str] = lambda path: "") -> str:
    """SHA-256 over the content of files, and over what `name` says of each."""
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest() + name(path).encode())
    return whole.hexdigest()
