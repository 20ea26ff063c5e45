"""Reading, downloading and keeping files whose content is known by its digest."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import queue
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from hush.data import archives, files
from hush.data.archives import SLACK, Damaged
from hush.data.known import SETS, File, Known

_WAIT = 5  # seconds for an answer: a closed network must fail fast


def cache() -> Path:
    """The folder for fetched sets, one sub-folder each."""
    return Path(platformdirs.user_cache_dir("hush"))


def paths(wanted: Known, folder: Path) -> dict[File, Path] | None:
    """Where each file of the set lies, plain, .gz or in an archive if the set comes in one; None if one is missing."""
    found = {}
    packed = archives.among(wanted, folder)
    for file in wanted.files:
        for path in (folder / file.name, folder / f"{file.name}.gz"):
            if path.is_file():
                found[file] = path
                break
        else:
            inside = next((path for path in packed if archives.holds(path, file)), None)
            if inside is None:
                return None
            found[file] = inside
    return found


def read(wanted: Known, folder: Path) -> dict[str, bytes] | None:
    """The verified content of every file; None if the folder does not hold the set."""
    contents = {}
    try:
        found = paths(wanted, folder)
        if found is None:
            return None
        packed: dict[str, bytes] = {}
        for path in set(archives.among(wanted, folder)) & set(found.values()):
            inside = [file for file in found if found[file] == path]
            packed |= archives.unpacked(path.read_bytes(), inside, f"file {path}")
        for file, path in found.items():
            raw = packed.get(file.name)
            if raw is None:
                with path.open("rb") as stream:
                    raw = stream.read(file.size + SLACK)
            contents[file.name] = verified(raw, file, f"file {path}")
    except Damaged as damaged:
        # MNIST and Fashion-MNIST use the same file names: the folder of the one is no damaged other.
        if any(damaged.sha256 == file.sha256 for known in SETS.values() for file in known.files):
            return None
        raise
    except OSError as error:
        raise Damaged(f"file {error.filename} cannot be read ({error.strerror})") from error
    return contents


def loose(url: str, wanted: Known) -> dict[str, bytes]:
    """The verified content of every file, each on its own in a folder of the web. Raises OSError or Damaged."""
    return {file.name: download(url, file) for file in wanted.files}


def archived(url: str, wanted: Known) -> dict[str, bytes]:
    """The verified content of every file, all in one archive. Raises OSError or Damaged."""
    raw = get(url, sum(file.size for file in wanted.files) + SLACK)
    inside = archives.unpacked(raw, wanted.files, "download")
    return {file.name: verified(inside[file.name], file, "download") for file in wanted.files}


def download(url: str, file: File) -> bytes:
    """The verified content of `<url>/<name>.gz`. Raises OSError or Damaged."""
    return verified(get(f"{url.rstrip('/')}/{file.name}.gz", file.size + SLACK), file, "download")


def get(address: str, most: int) -> bytes:
    """The first `most` bytes of what lies at the address. Raises OSError."""
    answer: queue.Queue[Any] = queue.Queue()

    def ask() -> None:
        try:
            answer.put(urllib.request.urlopen(address, timeout=_WAIT))
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer.put(error)

    # In a thread, since the look-up of a name and a host with many addresses know no total time limit.
    threading.Thread(target=ask, daemon=True).start()
    try:
        got = answer.get(timeout=2 * _WAIT)
    except queue.Empty:
        raise OSError(f"no answer in {2 * _WAIT} s") from None
    if isinstance(got, urllib.error.HTTPError):
        got.close()
        raise OSError(f"status {got.code}, {got.reason}")
    if isinstance(got, OSError):
        raise got
    if isinstance(got, Exception):
        raise OSError(str(got)) from got
    with got as stream:
        try:
            found: bytes = stream.read(most)
        except http.client.HTTPException as error:
            raise OSError(f"the download broke off ({error})") from error
    return found


def verified(raw: bytes, file: File, called: str) -> bytes:
    """Decompress if it is gzip, never past the known size, and compare with the known digest."""
    content = raw
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as plain:
                content = plain.read(file.size + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise Damaged(f"{called} is corrupt or cut off ({error})") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if len(content) < file.size:
        raise Damaged(f"{called} is cut off ({len(content)} of {file.size} bytes)", sha256)
    if sha256 != file.sha256:
        raise Damaged(f"{called} is not the known {file.name} (its SHA-256 differs)", sha256)
    return content


def write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Keep plain files. Each appears whole or not at all."""
    files.clear(folder)
    for name, content in contents.items():
        files.write(folder / name, content)
