"""A cohort with repeatable secrets, its terms, its numbers, and a round that is kept message by message."""

import copy
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.secure import Client, Identity, Server, Terms, binding
from hush.secure.driver import answer
from hush.secure.keys import Agreement, agree, pair, private, repeatable
from hush.secure.messages import ADVERT, HEAD, PHASES, Phase, listed

Numbers = npt.NDArray[np.int64]


def identities(count: int, label: str = "") -> dict[int, Identity]:
    """Clients with numbers that are not their seats."""
    return {7 + 3 * i: Identity.new(repeatable(f"identity {label}{i}".encode())) for i in range(count)}


def terms(people: dict[int, Identity], **other: Any) -> Terms:
    """Everybody a neighbour of everybody, two thirds needed; other fields as told."""
    n = len(people)
    threshold = max(3, n - n // 3)
    cohort = tuple((name, identity.public) for name, identity in people.items())
    fields: dict[str, Any] = {
        "run": "trial",
        "round": 1,
        "cohort": cohort,
        "threshold": threshold,
        "degree": n - 1,
        "shares": threshold - 1,
        "bits": 12,
        "size": 20,
        "binding": binding(b"plan", b"model", b"%d" % other.get("round", 1)),  # a client takes each but once
    }
    return Terms(**(fields | other))


def numbers(agreed: Terms, seed: int = 0) -> dict[int, Numbers]:
    """Any residues, as numbers on both sides of zero."""
    top = 2 ** (agreed.bits - 1)
    draw = np.random.default_rng(seed)
    return {name: draw.integers(-top, top, agreed.size) for name, _ in agreed.cohort}


def plain(agreed: Terms, values: dict[int, Numbers], who: tuple[int, ...]) -> Numbers:
    """What the sum must be."""
    return np.sum([values[name] for name in who], axis=0) % 2**agreed.bits


@dataclass
class Kept:
    """Of each phase: the sides before it, what went down to each client and what came up."""

    agreed: Terms
    values: dict[int, Numbers]
    servers: dict[Phase, Server] = field(default_factory=dict)
    clients: dict[Phase, dict[int, Client]] = field(default_factory=dict)
    down: dict[Phase, dict[int, bytes]] = field(default_factory=dict)
    up: dict[Phase, dict[int, bytes]] = field(default_factory=dict)

    def server(self, phase: Phase) -> Server:
        """As it was before the phase's messages came."""
        return snapshot(self.servers[phase])

    def client(self, phase: Phase, name: int) -> Client:
        """As it was before it got the phase's message."""
        return copy.copy(self.clients[phase][name])

    def pairs(self, name: int) -> dict[int, Agreement]:
        """What a client derives with each neighbour, of which it keeps but a part."""
        seat, key = self.agreed.seat(name), private(self.clients[Phase.SHARE][name]._key)
        roster = listed(self.down[Phase.SHARE][name][HEAD.size :], self.agreed.near(seat), ADVERT.size)
        agreed = {other: agree(key, ADVERT.unpack(entry)[0]) for other, entry in roster.items()}
        return {other: pair(secret, self.agreed.digest, seat, other) for other, secret in agreed.items()}

    def rest(self, server: Server) -> tuple[Numbers, tuple[int, ...]]:
        """The round from this phase on, with the messages that were kept."""
        for phase in PHASES[server.phase :]:
            for name, data in self.up[phase].items():
                server.take(name, data)
            if phase is not Phase.UNMASK:
                server.advance()
        opened = server.finish()
        return opened.residues.astype(np.int64), opened.survivors


def snapshot(server: Server) -> Server:
    """The server as it is now, with a lock of its own."""
    return copy.deepcopy(server, {id(server._lock): threading.Lock()})


def keep(people: dict[int, Identity], agreed: Terms, seed: int = 0, gone: tuple[int, ...] = ()) -> Kept:
    """A round in which those `gone` share their secrets and then say no more."""
    server = Server(agreed)
    clients = {name: Client(people[name], agreed, repeatable(b"%d %d" % (seed, name))) for name, _ in agreed.cohort}
    kept = Kept(agreed, numbers(agreed, seed))
    down = dict.fromkeys(clients, b"")
    for phase in PHASES:
        kept.servers[phase] = snapshot(server)
        kept.clients[phase] = {name: copy.copy(clients[name]) for name in down}
        kept.down[phase] = down
        heard = [name for name in down if phase < Phase.MASK or name not in gone]
        kept.up[phase] = {name: answer(clients[name], phase, down[name], kept.values[name]) for name in heard}
        for name, data in kept.up[phase].items():
            assert server.take(name, data), server.refused
        if phase is not Phase.UNMASK:
            down = server.advance()
    return kept
