"""A whole secure sum in one process: for tests, for the simulator, and as the example of how the two sides meet."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hush.errors import Aborted, Mistake
from hush.secure.bits import Words
from hush.secure.client import Client
from hush.secure.keys import Draw, Identity
from hush.secure.messages import Phase
from hush.secure.server import Server
from hush.secure.tally import Tally
from hush.secure.terms import Terms

Lost = Callable[[str, int], bool]
Numbers = npt.NDArray[np.integer]


def nobody(phase: str, client: int) -> bool:
    """No client is lost in any phase."""
    return False


@dataclass(frozen=True)
class Outcome:
    """The sum modulo 2^bits, whose it is, the bytes of each phase, and what was refused, in a sentence each."""

    residues: Words
    survivors: tuple[int, ...]
    tally: Tally
    refused: tuple[str, ...]


class Round:
    """All clients and the server: `begin`, then `add` one client's numbers after the other's, then `finish`.

    Only the sum is kept of the numbers. A client that is never added has dropped out after it shared its secrets, one
    for which `lost(phase, client)` says so is gone from that phase on. An abort leaves `tally` and `refused`.
    """

    def __init__(
        self, terms: Terms, identities: Mapping[int, Identity], draw: Draw = os.urandom, lost: Lost = nobody
    ) -> None:
        self.terms = terms
        self._server, self._lost = Server(terms), lost
        self._clients = {name: Client(identities[name], terms, draw) for name, _ in terms.cohort}
        self._asked = dict.fromkeys(self._clients, b"")  # who goes on, and what the server sent it
        self._failed: list[str] = []

    @property
    def tally(self) -> Tally:
        """The bytes of each phase so far."""
        return self._server.tally

    @property
    def refused(self) -> tuple[str, ...]:
        """What the server refused, then what clients did."""
        return (*self._server.refused, *self._failed)

    def begin(self) -> None:
        """All advertise their keys and share their secrets."""
        for phase in (Phase.ADVERTISE, Phase.SHARE):
            self._all(phase)
            self._advance()

    def add(self, client: int, numbers: Numbers) -> bool:
        """One client masks its numbers: whether the server took them. In any order, each client once."""
        self._turn(Phase.MASK)
        self.terms.seat(client)
        return self._ask(client, Phase.MASK, numbers)

    def finish(self) -> Outcome:
        """Who was added consents and unmasks: the sum, or an abort."""
        self._turn(Phase.MASK)
        self._advance()
        self._all(Phase.CONSENT)
        self._advance()
        self._all(Phase.UNMASK)
        try:
            opened = self._server.finish()
        except Aborted as why:
            why.refused = self.refused
            raise
        return Outcome(opened.residues, opened.survivors, self.tally, self.refused)

    def _all(self, phase: Phase) -> None:
        self._turn(phase)
        for client in self._asked:
            self._ask(client, phase)

    def _ask(self, client: int, phase: Phase, numbers: Numbers | None = None) -> bool:
        if client not in self._asked or self._lost(phase.word, client):
            return False
        try:
            said = answer(self._clients[client], phase, self._asked[client], numbers)
        except (Mistake, Aborted) as why:
            self._failed.append(f"client {client}: {why}")
            return False
        return self._server.take(client, said)

    def _advance(self) -> None:
        try:
            self._asked = self._server.advance()
        except Aborted as why:
            why.refused = self.refused
            raise

    def _turn(self, phase: Phase) -> None:
        if self._server.phase is not phase:
            at = self._server.phase.word
            raise Mistake(f"the round is at phase {at} and not at {phase.word}: begin(), then add(), then finish()")


def run(
    terms: Terms,
    identities: Mapping[int, Identity],
    numbers: Mapping[int, Numbers],
    lost: Lost = nobody,
    draw: Draw = os.urandom,
) -> Outcome:
    """All clients and the server; a client for which `lost(phase, client)` says so is gone from that phase on."""
    whole = Round(terms, identities, draw, lost)
    whole.begin()
    for name, _ in terms.cohort:
        whole.add(name, numbers[name])
    return whole.finish()


def answer(client: Client, phase: Phase, data: bytes, numbers: Numbers | Callable[[], Numbers] | None = None) -> bytes:
    """What a client says to a message of this phase; only the mask phase needs its numbers."""
    match phase:
        case Phase.ADVERTISE:
            return client.advertise()
        case Phase.SHARE:
            return client.share(data)
        case Phase.MASK if numbers is not None:
            return client.mask(data, numbers)
        case Phase.CONSENT:
            return client.consent(data)
        case Phase.UNMASK:
            return client.unmask(data)
    raise Mistake(f"phase {phase.word} asks for nothing, or for numbers that are not here")
