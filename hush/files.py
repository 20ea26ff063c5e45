"""Files that are written whole or not at all, and files that grow by whole lines."""

import errno
import os
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Put data at path: a reader, a kill or a power cut meets the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def drafts(folder: Path) -> set[Path]:
    """Files that `write` has not finished there, or never will."""
    return set(folder.glob(".*.part"))


def append(path: Path, data: bytes) -> None:
    """Add data to the end of the file at path: on disk when this returns; cut short, at worst, by a kill before."""
    new = not path.exists()
    with path.open("ab", buffering=0) as file:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())
    if new:
        _sync(path.parent)


def _sync(folder: Path) -> None:
    """A new name itself must survive a power cut as well."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
