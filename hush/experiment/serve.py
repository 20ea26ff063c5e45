"""`hush serve`: runs in a browser. It reads and never writes, for this machine alone."""

import os
from collections.abc import Iterator, Sequence
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hush.errors import Mistake
from hush.experiment.report import assets, overview, page, runs
from hush.experiment.report.runs import Run

HOST = "127.0.0.1"
DEPTH = 4  # folders below the given ones: sweeps, repetitions
FILES = ("config.toml", "rounds.jsonl", "privacy.json", "about.json", "audit.json")
HEADERS = {
    "Content-Security-Policy": f"{assets.policy(served=True)}; frame-ancestors 'none'",
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Shelf:
    """The runs below some folders, by name; each is read again when its files change."""

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise Mistake(f"{str(folder)!r} is not a directory: give the one that runs are in")
        self.folders = tuple(folders)
        self._kept: dict[Path, tuple[Any, Run | str]] = {}

    def places(self) -> dict[str, Path]:
        """Where each run is, the newest first. No path is ever made of a name that somebody asked for."""
        found = {}
        for folder in self.folders:
            for place in _below(folder):
                inside = place.relative_to(folder).as_posix()
                name = place.resolve().name if inside == "." else inside
                found[name if name not in found else str(place)] = place
        newest = sorted(found.items(), key=lambda one: one[0])
        return dict(sorted(newest, key=lambda one: _changed(one[1]), reverse=True))

    def run(self, place: Path) -> Run | str:
        """A run, or why it cannot be read."""
        stamp = tuple(_stamp(place / name) for name in FILES)
        if place not in self._kept or self._kept[place][0] != stamp:
            try:
                found: Run | str = runs.read(place)
            except Mistake as mistake:
                found = str(mistake)
            self._kept[place] = stamp, found
        return self._kept[place][1]

    def everything(self) -> dict[str, Run | str]:
        """All runs, the newest first."""
        return {name: self.run(place) for name, place in self.places().items()}


def _below(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    if (folder / "config.toml").is_file() and (folder / "rounds.jsonl").is_file():
        yield folder
        return
    if depth:
        for inner in sorted(folder.iterdir()):
            if inner.is_dir() and not inner.is_symlink() and os.access(inner, os.R_OK | os.X_OK):
                yield from _below(inner, depth - 1)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _changed(place: Path) -> int:
    return (_stamp(place / "rounds.jsonl") or (0, 0))[0]


class _Handler(BaseHTTPRequestHandler):
    server: "Server"
    server_version, sys_version = "hush", ""

    def do_GET(self) -> None:
        status, text = self._answer()
        body = text.encode()
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self) -> tuple[HTTPStatus, str]:
        # Another site's page may point a name of its own at this machine: only who asks for this machine is answered.
        if self.headers.get("Host", "") not in self.server.names:
            return HTTPStatus.FORBIDDEN, _said("This server answers to its own address alone")
        asked = urlsplit(self.path)
        try:
            return self._found(unquote(asked.path), parse_qs(asked.query).get("run", []))
        except (Mistake, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            why = (
                str(error) if isinstance(error, Mistake) else "The files of this run cannot be shown: they are damaged"
            )
            return HTTPStatus.INTERNAL_SERVER_ERROR, _said(why)

    def _found(self, path: str, wanted: list[str]) -> tuple[HTTPStatus, str]:
        shelf = self.server.shelf
        if path == "/":
            return HTTPStatus.OK, overview.listing(shelf.everything())
        if path == "/favicon.ico":
            return HTTPStatus.NOT_FOUND, ""
        places = shelf.places()
        if path == "/compare":
            named = {name: shelf.run(places[name]) for name in dict.fromkeys(wanted) if name in places}
            several = {name: run for name, run in named.items() if isinstance(run, Run) and run.rounds}
            if not 1 <= len(several) <= overview.MOST:
                return HTTPStatus.BAD_REQUEST, _said(f"Tick 1 to {overview.MOST} runs that have a finished round")
            return HTTPStatus.OK, overview.comparison(several)
        place = places.get(path.removeprefix("/run/")) if path.startswith("/run/") else None
        if place is None:
            return HTTPStatus.NOT_FOUND, _said("There is no such run here")
        run = shelf.run(place)
        if isinstance(run, str):
            return HTTPStatus.INTERNAL_SERVER_ERROR, _said(run)
        return HTTPStatus.OK, page.html(run, served=True)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def _said(sentence: str) -> str:
    body = f'<nav><a href="/">All runs</a></nav><p>{escape(sentence)}.</p>'
    return assets.document("hush serve", body, '{"tables":[],"charts":{}}', None, served=True)


class Server(ThreadingHTTPServer):
    """Bound to this machine's own address."""

    daemon_threads = True
    shelf: Shelf
    names: frozenset[str]

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/"


def server(folders: Sequence[Path], port: int) -> Server:
    """A server of the runs below these folders; port 0 takes any that is free."""
    shelf = Shelf(folders)
    try:
        found = Server((HOST, port), _Handler)
    except OSError as error:
        raise Mistake(f"port {port} cannot be taken ({error.strerror}): choose another --port, or 0 for any") from None
    found.shelf = shelf
    found.names = frozenset(f"{name}:{found.server_port}" for name in (HOST, "localhost"))
    return found
