"""Files that are written whole or not at all, and files that grow by whole lines."""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STALE = 3600  # seconds: a younger draft may belong to a process that is still writing

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def full(error: OSError) -> bool:
    """Whether it says that there is no room left: on the disk, in the user's quota, in a file's largest size."""
    return error.errno in _FULL


def write(path: Path, data: bytes, private: bool = False) -> None:
    """Put data at path: a reader, a kill or a power cut meets the old file or the new one; for its owner if private."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(path)
    try:
        with open(draft, "xb", opener=_private if private else None) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def write_folder(path: Path, fill: Callable[[Path], None], ready: Callable[[], bool]) -> None:
    """Put a folder at path, filled in its draft beside it; what is there goes, unless it is `ready` by then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(path)
    draft.mkdir()
    try:
        fill(draft)
        for file in draft.rglob("*"):
            _sync(file)
        _sync(draft)
        if ready():  # another process was faster
            return
        if path.exists():
            old = _draft(path)
            path.rename(old)
            shutil.rmtree(old, ignore_errors=True)
        try:
            draft.rename(path)
        except OSError:
            if not ready():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _sync(path.parent)


def add_folders(parent: Path, fill: Callable[[Path], None]) -> None:
    """Put the folders that `fill` makes in a draft into parent: all of them, or none; FileExistsError where one is."""
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    draft, moved = _draft(parent / "new"), list[Path]()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir(mode=0o700)
        fill(draft)
        for file in draft.rglob("*"):
            _sync(file)
        for folder in sorted(draft.iterdir()):
            place = parent / folder.name
            if os.path.lexists(place):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))
            folder.rename(place)
            moved.append(place)
        _sync(parent)
    except BaseException:
        for place in (*moved, draft):
            shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise
    draft.rmdir()


def move(path: Path, place: Path) -> None:
    """Rename a file to a place on the same disk, which has its name from here on."""
    place.parent.mkdir(parents=True, exist_ok=True)
    path.rename(place)
    for folder in (place.parent, path.parent):
        _sync(folder)


def drafts(folder: Path) -> set[Path]:
    """What `write` and `write_folder` have not finished there, or never will."""
    return set(folder.glob(".*.part"))


def clear(folder: Path) -> None:
    """Remove the drafts that killed processes left there long ago."""
    for draft in drafts(folder):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - draft.stat().st_mtime > STALE:
                shutil.rmtree(draft, ignore_errors=True) if draft.is_dir() else draft.unlink()


def append(path: Path, data: bytes) -> None:
    """Add data to the end of the file at path: on disk when this returns; cut short, at worst, by a kill before."""
    new = not path.exists()
    with path.open("ab", buffering=0) as file:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file.fileno())
    if new:
        _sync(path.parent)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """One writer of the file at path at a time, in this process and all others; the lock dies with its process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _private(path: str, flags: int) -> int:
    """A new file that nobody else can read, not even while it is written."""
    return os.open(path, flags, 0o600)


def _draft(path: Path) -> Path:
    """A name beside it that no other writer takes, in this process or another."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")


def _sync(path: Path) -> None:
    """On disk: the content of a file, or the names in a folder, which must survive a power cut as well."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
