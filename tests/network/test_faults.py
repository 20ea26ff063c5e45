"""Parties that are killed, frozen, cut off or out of room in any phase: nothing is lost in silence or counted twice."""

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from network.parties import SEED, Party, Place, federation
from safetensors.torch import load_file

from hush.core.clients import Opening, Order
from hush.core.rounds import loop
from hush.core.spec import Total
from hush.core.task import Task
from hush.errors import Aborted
from hush.experiment import config
from hush.experiment.resolving import build
from hush.federation.blocks import Simulation
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.privacy.ledger import Ledger

pytestmark = pytest.mark.network
SITES, VICTIM = ("a", "b", "c", "d", "e"), "c"
NUMBER = SITES.index(VICTIM)
PLAIN = {
    "scheme": {"name": "fl-top-dp", "ratio": 0.1, "noise": 1.0, "clip": 0.5},
    "data": {"name": "digits"},
    "sampling": {"kind": "fixed", "cohort": 5},
    "run": {"rounds": 4, "seed": SEED},
}
SECURE = {
    **PLAIN,
    "scheme": {"name": "fl-sign-dp", "noise": 1.0},
    "train": {"batch": 20, "steps": 2},
    "secure": {"mode": "full"},
}
PHASES = ("advertise", "share", "mask", "consent", "unmask")


@dataclass
class Twin:
    """The simulator with the losses that a federation had, and rounds that its server did not finish."""

    clients: Simulation
    skipped: set[int]

    @property
    def enrolled(self) -> Task:
        return self.clients.enrolled

    def begin(self, terms: Opening) -> int | None:
        return self.clients.begin(terms)

    def collect(self, order: Order) -> Total:
        if order.plan.round in self.skipped:
            raise Aborted("the server was stopped")
        return self.clients.collect(order)


def simulated(tables: dict[str, Any], taken: dict[int, list[int]]) -> torch.Tensor:
    """The weights of the same cohorts and losses, in one process."""
    wanted = {
        **tables,
        "data": {**tables["data"], "clients": len(SITES)},
        "run": {**tables["run"], "block": 1, "exact": True},
    }
    built = build(config.parse(wanted, "test"))
    rounds = built.config.run.rounds
    how = Simulated(1, lost=lambda round, client: client not in taken.get(round, []), engine=built.engine, exact=True)
    twin = Twin(how.of(built.task), set(range(1, rounds + 1)) - set(taken))
    for report in loop(built.scheme, twin, rounds=rounds, seed=SEED):
        weights = report.state.released
    return weights


def check(place: Place, servers: list[Party], lost: dict[int, set[int]], skipped: set[int] = frozenset()) -> None:
    """The model is the simulator's, each round is charged once, and no site has answered a round twice."""
    rounds = place.tables["run"]["rounds"]
    noted = [event for server in servers for event in server.events("taken")]
    taken = {event["round"]: event["clients"] for event in noted}
    assert len(noted) == len(taken)
    expected = {
        number: [client for client in range(len(SITES)) if client not in lost.get(number, ())]
        for number in range(1, rounds + 1)
        if number not in skipped
    }
    assert taken == expected
    found = load_file(place.out / "model.safetensors")
    built = build(config.parse({**place.tables, "data": {**place.tables["data"], "clients": len(SITES)}}, "test"))
    model = built.task.model
    model.load_state_dict(found)
    assert torch.equal(flatten(model), simulated(place.tables, taken))
    charged = [event.round for event in Ledger.load(place.out / "privacy.json").events]
    assert charged == list(range(1, rounds + 1))
    for number, name in enumerate(SITES):
        parties = [party for party in place.running if party.log.name.startswith(f"{name}-")]
        answers = Counter((event["round"], event["message"]) for party in parties for event in party.events("answer"))
        assert set(answers.values()) <= {1}
        own = Ledger.load(place.kit(name) / "state" / "ledger.json").events
        spent = [event.round for event in own]
        assert len(set(spent)) == len(spent)
        assert set(spent) >= {round for round, clients in taken.items() if number in clients}


def finish(parties: list[Party]) -> None:
    codes = {party.log.name: party.join() for party in parties}
    assert set(codes.values()) == {0}, {name: codes[name] for name in codes if codes[name] != 0}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("message", range(len(PHASES)))
def test_a_site_killed_in_a_phase_of_a_secure_sum(message: int, moment: str, tmp_path: Path) -> None:
    """Its upload counts if it was sent, and it is back in the next round."""
    with federation(tmp_path, SITES, SECURE) as place:
        server = place.server()
        others = [place.site(name) for name in SITES if name != VICTIM]
        victim = place.site(VICTIM, die=(2, message, moment))
        assert victim.join() == -signal.SIGKILL
        finish([server, *others, place.site(VICTIM)])
        check(place, [server], {2: {NUMBER}} if message <= 2 else {})


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_site_killed_before_or_behind_its_plain_upload(moment: str, tmp_path: Path) -> None:
    with federation(tmp_path, SITES, PLAIN) as place:
        server = place.server()
        others = [place.site(name) for name in SITES if name != VICTIM]
        victim = place.site(VICTIM, die=(2, 0, moment))
        assert victim.join() == -signal.SIGKILL
        finish([server, *others, place.site(VICTIM)])
        check(place, [server], {2: {NUMBER}})


CASES = [(SECURE, phase, moment) for phase in PHASES for moment in ("before", "after")]
CASES += [(PLAIN, "upload", moment) for moment in ("before", "after")]


@pytest.mark.parametrize(("tables", "phase", "moment"), CASES, ids=[f"{phase}-{moment}" for _, phase, moment in CASES])
def test_a_server_killed_in_a_phase(tables: dict[str, Any], phase: str, moment: str, tmp_path: Path) -> None:
    """The same command goes on; the round that it was killed in counts as aborted, and the sites wait."""
    with federation(tmp_path, SITES, tables) as place:
        first, sites = place.server(die=(2, phase, moment)), place.all()
        assert first.join() == -signal.SIGKILL
        second = place.server()
        finish([second, *sites.values()])
        check(place, [first, second], {}, {2})


@pytest.mark.parametrize("late", [False, True])
def test_a_frozen_site_is_waited_for_until_the_deadline(late: bool, tmp_path: Path) -> None:
    with federation(tmp_path, SITES, SECURE) as place:
        server = place.server(deadline=4.0 if late else 60.0)
        others = [place.site(name) for name in SITES if name != VICTIM]
        victim = place.site(VICTIM, freeze=(2, 0))
        victim.until("freezes")
        if late:
            server.until("deadline")
        else:
            time.sleep(1.0)
        os.kill(victim.process.pid, signal.SIGCONT)
        finish([server, *others, victim])
        check(place, [server], {2: {NUMBER}} if late else {})


@dataclass
class Proxy:
    """A line between a site and the server that can be cut."""

    target: int
    port: int = 0
    lines: list[socket.socket] = field(default_factory=list)
    closed: bool = False

    def open(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """All connections end, without a word."""
        lines, self.lines = self.lines, []
        for line in lines:
            try:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                line.close()
            except OSError:
                pass

    def close(self) -> None:
        self.closed = True
        self.listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self.closed:
            try:
                here, _ = self.listener.accept()
            except OSError:
                continue
            try:
                there = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                here.close()
                continue
            self.lines += [here, there]
            if self.closed:
                self.cut()
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for line in (one, other):
            line.close()


@contextmanager
def cuttable(place: Place, name: str) -> Iterator[Proxy]:
    """A site whose line to the server can be cut."""
    kit = place.kit(name) / "kit.json"
    known = json.loads(kit.read_text())
    proxy = Proxy(known["port"])
    proxy.open()
    kit.write_text(json.dumps({**known, "port": proxy.port}))
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("message", [0, 2, 4])
def test_a_cut_line_costs_nothing_if_the_site_comes_back_in_time(message: int, tmp_path: Path) -> None:
    """What was on its way is asked or said again; the same process answers the same bytes."""
    with federation(tmp_path, SITES, SECURE) as place, cuttable(place, VICTIM) as proxy:
        server = place.server(grace=30.0)
        others = [place.site(name) for name in SITES if name != VICTIM]
        victim = place.site(VICTIM, freeze=(2, message))
        victim.until("freezes")
        proxy.cut()
        server.until("left")
        os.kill(victim.process.pid, signal.SIGCONT)
        finish([server, *others, victim])
        check(place, [server], {})


def test_a_site_that_stays_away_has_dropped_out_and_comes_back(tmp_path: Path) -> None:
    with federation(tmp_path, SITES, SECURE) as place, cuttable(place, VICTIM) as proxy:
        server = place.server(grace=0.5)
        others = [place.site(name) for name in SITES if name != VICTIM]
        victim = place.site(VICTIM, freeze=(2, 1))
        victim.until("freezes")
        proxy.cut()
        server.until("round", 2)
        os.kill(victim.process.pid, signal.SIGCONT)
        finish([server, *others, victim])
        check(place, [server], {2: {NUMBER}})


def test_a_site_without_room_on_its_disk_leaves_in_a_sentence(tmp_path: Path) -> None:
    """It cannot write down what it is about to release, and so releases nothing."""
    with federation(tmp_path, SITES, PLAIN) as place:
        server = place.server()
        others = [place.site(name) for name in SITES if name != VICTIM]
        victim = place.site(VICTIM, full=2)
        assert victim.join() == 2
        assert "make room" in victim.until("mistake")["why"]
        finish([server, *others, place.site(VICTIM)])
        check(place, [server], {2: {NUMBER}})


def test_a_server_without_room_on_its_disk_goes_on_when_there_is(tmp_path: Path) -> None:
    with federation(tmp_path, SITES, PLAIN) as place:
        first, sites = place.server(full=2), place.all()
        assert first.join() == 2
        assert "make room" in first.until("mistake")["why"]
        second = place.server()
        finish([second, *sites.values()])
        noted = [event["round"] for server in (first, second) for event in server.events("taken")]
        check(place, [first, second], {}, {1, 2, 3, 4} - set(noted))
