import gzip
import hashlib
import http.server
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hush.data.known import File, Known


def idx(*shape: int, seed: int) -> bytes:
    """A small idx file whose bytes depend on the seed."""
    size = 1
    for axis in shape:
        size *= axis
    body = bytes((i * 7 + seed) % 251 for i in range(size))
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body


CONTENTS = {"images": idx(4, 3, 3, seed=1), "labels": idx(4, seed=2)}


@pytest.fixture
def contents() -> dict[str, bytes]:
    """What the files of `tiny` hold."""
    return dict(CONTENTS)


@pytest.fixture
def tiny() -> Known:
    """A set of two small files that no source has yet."""
    files = tuple(File(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENTS.items())
    return Known("tiny", "a set for tests", files)


@pytest.fixture
def put():
    """Write the files of `tiny` in a folder, plain or compressed."""

    def write(folder: Path, *, packed: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in CONTENTS.items():
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content) if packed else content)
        return folder

    return write


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real server on this machine for the folder `served`."""
    (tmp_path / "served").mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, directory=str(tmp_path / "served"), **kwargs)

        def log_message(self, *args: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no HUSH_DATA, no network, no package tools."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-home"))
    monkeypatch.delenv("HUSH_DATA", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the port of discard: refused at once
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "no-tools").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "no-tools"))
