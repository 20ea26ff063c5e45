"""Files by their name within an archive: zip, or tar packed by gzip."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from hush.data.known import File, Known

SLACK = 2**20  # a compressed file is never much longer than its content


class Damaged(Exception):
    """A file that is there but does not hold the known content; `sha256` is that of what it holds."""

    def __init__(self, sentence: str, sha256: str = "") -> None:
        super().__init__(sentence)
        self.sha256 = sha256


def names(wanted: Known) -> list[str]:
    """What the set's archives are called."""
    return [url.rpartition("/")[2] for url in wanted.archives]


def among(wanted: Known, folder: Path) -> list[Path]:
    """The archives of a folder that may hold the set: any zip, a tar only by its own name.

    The members of a tar are not known before all of it is unpacked, which is too long for a look.
    """
    tars = [name for name in names(wanted) if not name.endswith(".zip")]
    zips = sorted(folder.glob("*.zip")) if len(tars) < len(wanted.archives) else []
    return zips + [folder / name for name in tars if (folder / name).is_file()]


def holds(path: Path, file: File) -> bool:
    """Whether an archive, one of `among`, may hold the file."""
    if path.suffix != ".zip":
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.rpartition("/")[2] == file.name or name.endswith(".zip") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def unpacked(raw: bytes, files: Iterable[File], called: str) -> dict[str, bytes]:
    """The files of these names in an archive, in whatever folder there. Raises Damaged.

    Never reads more of a member than the known size: a small archive may hold a huge one.
    """
    if raw[:2] == b"\x1f\x8b":
        return _untarred(raw, {file.name: file for file in files}, called)
    return {file.name: _unzipped(raw, file, called) for file in files}


def _untarred(raw: bytes, files: dict[str, File], called: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                stream = archive.extractfile(member) if name in files and name not in found else None
                if stream is not None:
                    found[name] = stream.read(files[name].size + 1)
                if len(found) == len(files):
                    break
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:  # OSError is gzip's own
        raise Damaged(f"{called} is not a whole tar archive ({error})") from error
    for name in files:
        if name not in found:
            raise Damaged(f"{called} does not hold {name}")
    return {name: found[name] for name in files}


def _unzipped(raw: bytes, file: File, called: str) -> bytes:
    try:
        found = _member(raw, file, within=True)
    # RuntimeError is zipfile's own for an encrypted member and, as its subclass, for a packing that it does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise Damaged(f"{called} is not a whole zip archive ({error})") from error
    if found is None:
        raise Damaged(f"{called} does not hold {file.name}")
    return found


def _member(raw: bytes, file: File, within: bool) -> bytes | None:
    """The file in the archive, or in an archive within it."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for member in archive.infolist():
            name = member.filename.rpartition("/")[2]
            if name == file.name:
                with archive.open(member) as stream:
                    return stream.read(file.size + 1)
            if within and name.endswith(".zip"):
                with archive.open(member) as stream:
                    found = _member(stream.read(file.size + SLACK), file, within=False)
                if found is not None:
                    return found
    return None
