"""The parties of a federation as processes of their own, which tests start, disturb and kill."""

import json
import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from hush.errors import Mistake, Stopped

SEED, VERSION = 7, "tests"
LONG = 60.0  # seconds: whatever takes longer has failed


# What a party would import by itself, a second of it: torch and nvflare, its drivers, the accountants.
PRELOADED = [
    "hush.experiment.server",
    "hush.experiment.client",
    "nvflare.fuel.f3.cellnet.core_cell",
    "nvflare.fuel.f3.drivers.grpc_driver",
    "nvflare.fuel.f3.drivers.aio_http_driver",
    "torch._dynamo",
    "dp_accounting.rdp",
    "scipy.stats",
]


def context() -> ForkServerContext:
    """Processes that find all of that imported."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOADED)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def log_to(path: Path) -> Callable[..., None]:
    def say(event: str, **facts: Any) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # a full disk is for what is tested
        with path.open("a") as file:
            file.write(json.dumps({"time": time.time(), "event": event, **facts}) + "\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return say


def serve(tables: dict[str, Any], kit: Path, out: Path, log: Path, more: dict[str, Any]) -> None:
    """The server's process. `die`: (round, phase, "before" | "after") at which it kills itself.

    `deed(say)`: what a dishonest one changes in its own process before it begins.
    """
    import torch

    from hush.experiment import config
    from hush.experiment import server as coordinator
    from hush.federation import kit as kits
    from hush.federation.network import Network

    torch.set_num_threads(1)
    say = log_to(log)
    die, together, full = more.pop("die", None), more.pop("together", True), more.pop("full", None)
    asked, round = Network.phase, [0]

    def phase(self: Network, name: str, messages: Any, timeout: float | None) -> Any:
        say("phase", name=name, clients=len(messages))
        _die(die, "before", name, say)
        found = asked(self, name, messages, timeout)
        _die(die, "after", name, say)
        return found

    collected = coordinator.Remote.collect

    def collect(self: Any, order: Any) -> Any:
        round[0] = order.plan.round
        sites = self.channel.sites
        if together:  # who was killed has come back before the next round
            sites.gather(lambda: not sites.undecided(self.charter) and not sites.absent, LONG)
        say("begin", round=round[0])
        if round[0] == full:
            _fill()
        return collected(self, order)

    def _die(when: Any, moment: str, name: str, say: Any) -> None:
        if when == (round[0], name, moment):
            say("dies", phase=name)
            os.kill(os.getpid(), signal.SIGKILL)

    noted = coordinator._Taken.note

    def note(self: Any, number: int, clients: tuple[int, ...]) -> None:
        say("taken", round=number, clients=list(clients))
        noted(self, number, clients)

    Network.phase = phase
    coordinator.Remote.collect = collect
    coordinator._Taken.note = note
    _do(more, say)
    more.setdefault("deadline", LONG)
    _ends(log, lambda: _served(coordinator, config.parse(tables, "test"), kits.read(kit), out, say, more))


def _served(coordinator: Any, wanted: Any, own: Any, out: Path, say: Any, more: dict[str, Any]) -> None:
    version = more.pop("version", VERSION)
    with coordinator.host(wanted, own, out, version, say, **more) as hosted:
        for row in hosted.rows:
            say("round", round=row["round"], aborted=row["aborted"], reason=row["reason"], refused=row["refused"])


def _fill() -> None:
    """A limit for files is a full disk that needs no disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def take_part(kit: Path, data: Path, log: Path, more: dict[str, Any]) -> None:
    """A site's process. `die`: (round, number of the message in it, "before" | "after")."""
    import torch

    from hush.experiment import client, rules
    from hush.federation import kit as kits
    from hush.federation import messages, session
    from hush.secure.messages import DOWN

    torch.set_num_threads(1)
    say = log_to(log)
    die, freeze, full = more.pop("die", None), more.pop("freeze", None), more.pop("full", None)
    answered, at = session.ClientSession.answer, [0, 0]

    def answer(self: Any, data: bytes, taken: int | None = None) -> bytes:
        if data[: len(DOWN)] == DOWN:
            at[1] += 1
        else:
            plan = data
            if self._scheme.secure:
                plan, _ = messages.split_cohort(data, 2**16)
            at[:] = [messages.round_of(plan), 0]
        if die == (*at, "before"):
            say("dies", at=at)
            os.kill(os.getpid(), signal.SIGKILL)
        if full == at[0]:
            _fill()
        if freeze == tuple(at):
            say("freezes", at=at)
            os.kill(os.getpid(), signal.SIGSTOP)
        found = answered(self, data, taken)
        say("answer", round=at[0], message=at[1])
        if die == (*at, "after"):
            say("dies", at=at)
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    session.ClientSession.answer = answer
    _do(more, say)
    policy = more.pop("policy", None)
    version = more.pop("version", VERSION)

    def go() -> None:
        own = kits.read(kit)
        found = client.take_part(own, data, rules.rules(own, policy), version, say, **more)
        say("over", why=found)

    _ends(log, go)


def _do(more: dict[str, Any], say: Callable[..., None]) -> None:
    deed = more.pop("deed", None)
    if deed is not None:
        deed(say)


def help_out(kit: Path, log: Path, more: dict[str, Any]) -> None:
    """The second server's process."""
    from hush.experiment import client, rules
    from hush.federation import kit as kits

    say = log_to(log)

    def go() -> None:
        own = kits.read(kit)
        say("over", why=client.help_out(own, rules.rules(own, None), VERSION, say))

    _ends(log, go)


def _ends(log: Path, go: Callable[[], None]) -> None:
    """As the command line does: a mistake is one sentence and status 2."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        go()
    except (KeyboardInterrupt, Stopped):
        log_to(log)("stopped")
        sys.exit(130)
    except Mistake as why:
        log_to(log)("mistake", why=str(why))
        sys.exit(2)


@dataclass
class Party:
    """A process and its log."""

    process: ForkServerProcess
    log: Path

    def events(self, *names: str) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [one for one in found if not names or one["event"] in names]

    def until(self, name: str, count: int = 1, timeout: float = LONG) -> dict[str, Any]:
        """The count-th event of this name, when it is there."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            found = self.events(name)
            if len(found) >= count:
                return found[count - 1]
            time.sleep(0.02)
        raise AssertionError(f"no event {name} in {self.log.read_text() if self.log.exists() else 'an empty log'}")

    def join(self, timeout: float = LONG) -> int | None:
        self.process.join(timeout)
        return self.process.exitcode


@dataclass
class Place:
    """A federation on this machine: kits, each site's rows, and the processes that were started."""

    folder: Path
    sites: tuple[str, ...]
    tables: dict[str, Any]
    running: list[Party] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "run"

    def kit(self, name: str) -> Path:
        return self.folder / "kits" / ("coordinator" if name == "server" else name)

    def server(self, **more: Any) -> Party:
        arguments = (more.pop("tables", self.tables), self.kit("server"), more.pop("out", self.out))
        return self._start(serve, arguments, "server", more)

    def site(self, name: str, **more: Any) -> Party:
        data = more.pop("data", self.folder / "rows" / f"{name}.npz")
        return self._start(take_part, (more.pop("kit", self.kit(name)), data), name, more)

    def second(self, name: str) -> Party:
        return self._start(help_out, (self.kit(name),), name, {})

    def all(self, **more: Any) -> dict[str, Party]:
        return {name: self.site(name, **more) for name in self.sites}

    def _start(self, target: Callable[..., None], arguments: tuple[Any, ...], name: str, more: dict[str, Any]) -> Party:
        number = sum(party.log.name.startswith(f"{name}-") for party in self.running)
        log = self.folder / f"{name}-{number}.jsonl"
        process = context().Process(target=target, args=(*arguments, log, more), daemon=True)
        process.start()
        self.running.append(Party(process, log))
        return self.running[-1]

    def start(self, target: Callable[..., None], name: str, *arguments: Any, **more: Any) -> Party:
        """Another process: of an adversary."""
        return self._start(target, arguments, name, more)

    def stop(self) -> None:
        for party in self.running:
            if party.process.is_alive():
                os.kill(party.process.pid, signal.SIGKILL)
                party.process.join(5)


@contextmanager
def federation(
    folder: Path,
    sites: tuple[str, ...],
    tables: dict[str, Any],
    seed: int | None = SEED,
    second: tuple[str, ...] = (),
) -> Iterator[Place]:
    """Kits and rows for these sites; all processes end with it."""
    from hush.experiment.population import deal
    from hush.federation.coordinator import init

    kits = folder / "kits"
    init(kits, "localhost", free_port(), [*sites, *second], simulation=seed)
    for name in (*sites, *second):
        (kits / name / "policy.toml").write_text('accept = "rule"\n')
    deal("digits", folder / "rows", list(sites), "iid", SEED)
    place = Place(folder, sites, tables)
    try:
        yield place
    finally:
        place.stop()
