"""Flower as it is deployed, for network.py: a SuperLink and SuperNodes as processes, over TLS on this machine.

The app (workers/network_flower) sends a vector to each node and gets one of the same length back: one message round
trip, which is what a phase of hush is. It trains nothing. A SuperNode looks for messages every 3 seconds and for
answers every 0.5, and starts a process for each message; what starts it looks every second, which alone can be set.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import psutil
from environments import HERE, binaries
from parties import free_port

PATIENCE = 180.0  # seconds: whatever takes longer has failed


class Failed(Exception):
    """Flower gave no answer."""


@dataclass
class Peer:
    """A running federation of Flower's: `phase` has one message round trip done."""

    line: socket.socket
    heard: TextIO
    nodes: int
    running: list[subprocess.Popen[bytes]]

    def phase(self) -> dict[str, float]:
        """Its seconds, and the CPU seconds of all processes."""
        end, before = time.monotonic() + PATIENCE, _spent(self.running)
        while time.monotonic() < end:
            try:
                self.line.sendall(json.dumps({"nodes": self.nodes}).encode() + b"\n")
                found = json.loads(self.heard.readline() or "{}")
            except OSError:
                raise Failed(f"Flower gave no answer in {PATIENCE:.0f} seconds") from None
            if "seconds" in found:
                if not found["right"]:
                    raise Failed("Flower's answers are not of all nodes")
                return {"seconds": float(found["seconds"]), "cpu": _spent(self.running) - before}
            if not found:
                break
            time.sleep(0.5)  # until all nodes are there
        raise Failed("Flower's app has ended, or its nodes did not come")


@contextmanager
def flower(folder: Path, kits: Path, nodes: int, size: int, poll: float | None = None) -> Iterator[Peer]:
    """A SuperLink with the coordinator's certificate, so many SuperNodes, and the app; all end with it.

    poll: seconds between two looks for a task to start a process for, if not Flower's own.
    """
    own, port = kits / "coordinator", free_port()
    folder.mkdir()
    shutil.copytree(HERE / "workers" / "network_flower", folder / "app")
    home = folder / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "bench"\n[superlink.bench]\naddress = "localhost:{port}"\n'
        f'root-certificates = "{own / "ca.pem"}"\n'
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    path = f"{binaries('flower')}{os.pathsep}{os.environ['PATH']}"
    environment = kept | {"PATH": path, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    if poll is not None:
        environment["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = str(poll)
    tls = ["--ssl-certfile", own / "cert.pem", "--ssl-keyfile", own / "key.pem", "--ssl-ca-certfile", own / "ca.pem"]
    running: list[subprocess.Popen[bytes]] = []
    log = (folder / "log.txt").open("wb")

    def start(program: str, *arguments: Any) -> subprocess.Popen[bytes]:
        running.append(
            subprocess.Popen(
                [binaries("flower") / program, *arguments],
                env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )
        )  # fmt: skip
        return running[-1]

    with socket.create_server(("127.0.0.1", 0)) as waiting:
        waiting.settimeout(PATIENCE)
        try:
            start("flower-superlink", *tls, "--port", str(port), "--disable-runtime-dependency-installation")
            _listens(port)
            for _ in range(nodes):
                given = ("--superlink", f"localhost:{port}", "--root-certificates", own / "ca.pem", *tls)
                start("flower-supernode", *given, "--host", "localhost", "--port", str(free_port()))
            wanted = f"port={waiting.getsockname()[1]} size={size}"
            if start("flwr", "run", "app", "bench", "--run-config", wanted).wait(PATIENCE):
                raise Failed(f"flwr run: {_tail(folder)}")
            try:
                line, _ = waiting.accept()
            except TimeoutError:
                raise Failed(f"Flower's app did not begin: {_tail(folder)}") from None
            line.settimeout(PATIENCE)
            with line:
                yield Peer(line, line.makefile(), nodes, running)
        finally:
            for one in _all(running):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            for program in running:
                program.wait()
            log.close()


def _all(running: list[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    """These processes, and all that they started."""
    found = []
    for program in running:
        with suppress(psutil.NoSuchProcess):
            found += [(one := psutil.Process(program.pid)), *one.children(recursive=True)]
    return found


def _spent(running: list[subprocess.Popen[bytes]]) -> float:
    """CPU seconds so far of these processes and all that they started, with those that have ended."""
    total = 0.0
    for one in _all(running):
        with suppress(psutil.NoSuchProcess):
            total += sum(one.cpu_times()[:4])
    return total


def _listens(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise Failed("the SuperLink does not listen")


def _tail(folder: Path) -> str:
    lines = [line for line in (folder / "log.txt").read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]).replace(str(folder), "")[-400:]
