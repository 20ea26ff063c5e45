"""The parties of a federation as processes, for network.py: hush's own engine, and the floor beside it.

One federation has both. A round travels over hush's engine or over bare gRPC, as the bench says; all else of it is the
same objects: the server's loop and its secure sum, each site's session, claims and ledger on disk.
"""

import ctypes
import multiprocessing
import os
import socket
import struct
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import bare
import numpy as np
import psutil

from hush.data.files import write

VERSION = "benchmark"
PATIENCE = 300.0  # seconds: whatever takes longer has failed
SPARE = 2 * 2**30  # bytes of memory that are left to others: a case that would take them is ended
# struct tcp_info of the kernel: bytes that the peer has acknowledged, and bytes received.
TCP_INFO, COUNTERS, COUNTED = 11, struct.Struct("<QQ"), 120
MMAP_THRESHOLD = -3  # of mallopt: larger pieces go back to the system when they are freed
Answer = dict[str, Any]


class Failed(Exception):
    """A federation that gave no answer."""


def context() -> ForkServerContext:
    """Processes that find torch and nvflare imported."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(
        ["parties", "hush.experiment.server", "hush.experiment.client", "nvflare.fuel.f3.cellnet.core_cell",
         "nvflare.fuel.f3.drivers.grpc_driver", "torch._dynamo"]
    )  # fmt: skip
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def moved(port: int) -> dict[str, int]:
    """Bytes of TCP that this process has sent and received on its sockets of a port, as the kernel counts them."""
    total = {"down": 0, "up": 0}
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family not in (socket.AF_INET, socket.AF_INET6) or one.getsockname()[1] != port:
                    continue
                info = one.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 256)
        except OSError:  # closed meanwhile, or no TCP
            continue
        down, up = COUNTERS.unpack_from(info, COUNTED)
        total["down"] += down
        total["up"] += up
    return total


def peak(reset: bool = False) -> int:
    """The most memory of this process since the last reset, in bytes. A reset gives back what was freed."""
    if reset:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024


def serve(tables: Answer, kit: Path, out: Path, port: int, line: Connection) -> None:
    """The coordinator's process: a round for each request, over the transport that it names."""
    import torch

    from hush.experiment import config, server
    from hush.federation import kit as kits
    from hush.federation.network import Network

    torch.set_num_threads(1)
    own = kits.read(kit)
    members = [one.name for one in kits.roster(own)]
    floor = bare.Bare(own, port, len(members))
    ports = {"hush": own.port, "bare gRPC": port}
    over, phases, seconds = ["hush"], list[tuple[str, float]](), [0.0, 0.0]
    asked, collected = Network.phase, server.Remote.collect

    def phase(self: Network, name: str, sent: Any, timeout: float | None) -> Any:
        began = time.perf_counter()
        if over[0] == "hush":
            found, refused = asked(self, name, sent, timeout)
        else:
            taken = {name: site.taken for name, site in self.sites._sites.items()}
            answers = floor.phase({members[client]: data for client, data in sent.items()}, taken)
            found, refused = {members.index(site): data for site, data in answers.items()}, {}
        phases.append((name, time.perf_counter() - began))
        return found, refused

    def collect(self: Any, order: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        found = collected(self, order)
        seconds[:] = [time.perf_counter() - wall, time.process_time() - cpu]
        return found

    Network.phase, server.Remote.collect = phase, collect
    counted = {"up": 0.0, "down": 0.0}
    with server.host(config.parse(tables, "bench"), own, out, VERSION, lambda event, **facts: None) as it:
        floor.gather(len(members))
        line.send({"numbers": it.experiment.scheme.coordinates.count(it.experiment.task.layout)})
        while (request := line.recv()) is not None:
            if "idle" in request:
                cpu = time.process_time()
                time.sleep(request["idle"])
                line.send({"cpu": (time.process_time() - cpu) / request["idle"]})
                continue
            over[0] = request["over"]
            phases.clear()
            peak(reset=True)
            before = moved(ports[over[0]])
            row = next(it.rows)
            highest = peak()
            if row["aborted"] or row["refused"]:
                raise SystemExit(f"a round failed: {row['reason']} {row['refused']}")
            time.sleep(0.05)  # until the kernel has the last acknowledgements
            after = moved(ports[over[0]])
            total = {way: sum(kind["mean"] for kind in row["bytes"][way].values()) for way in counted}
            in_round, counted = {way: total[way] - counted[way] for way in counted}, total
            line.send(
                {
                    "phases": dict(phases),
                    "seconds": seconds[0],
                    "cpu": seconds[1],
                    "memory": highest,
                    "counted": in_round,
                    "socket": {way: (after[way] - before[way]) / len(members) for way in after},
                }
            )
    floor.stop()


def take_part(folder: Path, names: list[str], data: Path, port: int, frugal: bool) -> None:
    """A process of some sites, each with its own cell, kit and session."""
    import torch

    from hush.experiment import client, rules
    from hush.federation import kit as kits

    if frugal:
        ctypes.CDLL("libc.so.6").mallopt(MMAP_THRESHOLD, 2**20)
    torch.set_num_threads(1)
    join, agree, alone = client.Office.join, client.Office.agree, threading.Lock()

    def joined(self: client.Office, facts: Any) -> Any:
        with alone:  # Python 3.11 cannot parse the headers of .npz files on two threads at once
            return join(self, facts)

    def agreed(self: client.Office, *offered: Any) -> Any:
        with alone:
            found = agree(self, *offered)
        bare.answer(self.own, port, found)
        return found

    client.Office.join, client.Office.agree = joined, agreed

    def go(name: str) -> None:
        try:
            own = kits.read(folder / name)
            client.take_part(own, data, rules.rules(own, None), VERSION, lambda event, **facts: None)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threads = [threading.Thread(target=go, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Federation:
    """A running federation: `round` has one of its rounds done."""

    line: Connection
    coordinator: ForkServerProcess
    sites: list[ForkServerProcess]
    numbers: int = 0

    def ask(self, request: Answer | None) -> Answer:
        """The coordinator's answer."""
        self.line.send(request)
        return self.hear()

    def hear(self) -> Answer:
        """What the coordinator says next."""
        end = time.monotonic() + PATIENCE
        while not self.line.poll(0.1):
            if psutil.virtual_memory().available < SPARE:
                raise Failed("the machine has not the memory for it")
            if not all(one.is_alive() for one in self.sites):
                raise Failed("a site has ended")
            if time.monotonic() > end:
                raise Failed(f"no answer of the coordinator in {PATIENCE:.0f} seconds")
        try:
            found: Answer = self.line.recv()
        except EOFError:
            raise Failed("the coordinator has ended") from None
        return found

    def round(self, over: str) -> Answer:
        """One round, and the CPU seconds of the sites in it."""
        before = self._spent()
        found = self.ask({"over": over})
        return found | {"sites": self._spent() - before}

    def _spent(self) -> float:
        times = [psutil.Process(one.pid).cpu_times() for one in self.sites]
        return float(sum(one.user + one.system for one in times))


@dataclass(frozen=True)
class Given:
    """What a federation is to be: `shape` and `classes` of its random rows, `most` processes of sites.

    frugal: the sites give memory back at once, which takes time in every transport.
    """

    sites: int
    tables: Answer
    shape: tuple[int, ...]
    classes: int
    most: int
    frugal: bool = False


@contextmanager
def federation(folder: Path, given: Given) -> Iterator[Federation]:
    """Kits, random rows, a coordinator and its sites; all processes end with it."""
    from hush.federation.coordinator import init

    names = [f"site-{number:03}" for number in range(given.sites)]
    init(folder / "kits", "localhost", free_port(), names)
    inputs = np.random.default_rng(0).normal(size=(2 * given.classes, *given.shape)).astype(np.float32)
    targets = np.arange(2 * given.classes) % given.classes
    np.savez(folder / "test.npz", x_test=inputs, y_test=targets)
    np.savez(folder / "rows.npz", x_train=inputs, y_train=targets)
    for name in names:
        write(folder / "kits" / name / "policy.toml", b'accept = "rule"\n')
    tables = given.tables | {"data": {"name": str(folder / "test.npz")}}
    (ours, theirs), port, make = multiprocessing.Pipe(), free_port(), context().Process
    served = (tables, folder / "kits" / "coordinator", folder / "run", port, theirs)
    found = Federation(ours, make(target=serve, args=served, daemon=True), [])
    found.coordinator.start()
    theirs.close()
    for part in range(min(given.most, given.sites)):
        own = (folder / "kits", names[part :: given.most], folder / "rows.npz", port, given.frugal)
        found.sites.append(make(target=take_part, args=own, daemon=True))
        found.sites[-1].start()
    try:
        found.numbers = found.hear()["numbers"]
        yield found
        ours.send(None)
        found.coordinator.join(60)
    finally:
        for one in (found.coordinator, *found.sites):
            if one.is_alive():
                one.kill()
            one.join()
