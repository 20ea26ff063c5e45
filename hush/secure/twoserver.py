"""The same sum with two servers that do not talk behind the clients' backs: two messages a client, no neighbours.

A client sends its numbers plus a mask to one server and the mask's seed, 32 bytes, to the other. Both learn who sent
both halves, each adds up its half over these clients, and the difference of the two sums is the sum of the numbers.
Each message must travel so that the other server cannot read it (TLS to each).

Guarantee: a server alone, with any clients, sees uniform numbers, or seeds, and at the end one sum over at least
`threshold` clients. Both servers together see everything.
"""

import os
from collections.abc import Mapping
from enum import Enum

import numpy as np
import numpy.typing as npt

from hush import bits
from hush.bits import Words
from hush.errors import Aborted, Mistake
from hush.secure import masks
from hush.secure.driver import Lost, Outcome, nobody
from hush.secure.keys import Draw, Identity, self_key
from hush.secure.messages import SEED, Phase, from_client, open_at_server, pack_set, unpack_set
from hush.secure.server import SENTENCES
from hush.secure.tally import HALVES, Tally
from hush.secure.terms import BOTH, Terms


class Half(Enum):
    """What a server gets of each client."""

    NUMBERS = Phase.NUMBERS
    SEEDS = Phase.SEEDS


def split(
    identity: Identity, terms: Terms, numbers: npt.NDArray[np.integer], draw: Draw = os.urandom
) -> dict[Half, bytes]:
    """At the client: a signed message for each server. Once in a round, as ever."""
    seats = [seat for seat, (_, key) in enumerate(terms.cohort) if key == identity.public]
    if not seats:
        raise Mistake("this client's key is not in the cohort: the terms are meant for others")
    words, seed = masks.residues(numbers, terms.bits, terms.size), draw(SEED)
    identity.claim(terms.run, terms.round)
    masks.add(words, [_key(terms, seats[0], seed)], [])
    bodies = {Half.NUMBERS: bits.pack(words, terms.bits), Half.SEEDS: seed}
    return {half: from_client(identity, terms, half.value, seats[0], b"", body) for half, body in bodies.items()}


class HalfServer:
    """One of the two. `take` the clients' halves, tell the other who is `present`, and `add` over who is at both.

    Numbers of a client that `meet` named are added up as they come; those of others are kept until `add`.
    """

    def __init__(self, terms: Terms, half: Half) -> None:
        self.terms, self.half = terms, half
        self.refused: list[str] = []
        self._bodies: dict[int, bytes] = {}  # what is not yet in the sum
        self._added: set[int] = set()
        self._met: set[int] = set()
        self._sum: Words = np.zeros(terms.size, bits.word(terms.bits))
        self._open = True

    def take(self, client: int, data: bytes) -> bool:
        """A message that came as this client's: whether it was accepted."""
        try:
            seat = self.terms.seat(client)
            if not self._open or seat in self._bodies or seat in self._added:
                raise Mistake("it sent its half before, or the round is closed")
            body, _ = open_at_server(self.terms, self.half.value, seat, b"", data)
            if self.half is Half.NUMBERS:
                words = bits.unpack(body, self.terms.size, self.terms.bits)
            elif len(body) != SEED:
                raise Mistake(f"its half has {len(body)} bytes and must have {SEED}")
        except Mistake as why:
            if len(self.refused) < SENTENCES:  # a client may send rubbish for ever
                self.refused.append(f"client {client} refused: {why}")
            return False
        if self.half is Half.NUMBERS and seat in self._met:
            self._sum += words
            self._added.add(seat)
        else:
            self._bodies[seat] = body
        return True

    def meet(self, client: int) -> None:
        """The other server has this client's half, and will not take it back: its numbers need not be kept."""
        seat = self.terms.seat(client)
        self._met.add(seat)
        if self.half is Half.NUMBERS and seat in self._bodies:
            self._sum += bits.unpack(self._bodies.pop(seat), self.terms.size, self.terms.bits)
            self._added.add(seat)

    def present(self) -> bytes:
        """Who sent this half, for the other server."""
        return pack_set(self._added.union(self._bodies), len(self.terms.cohort))

    def add(self, others: bytes) -> bytes:
        """The sum of this half over who is present at both, packed. Once: a second set would tell what differs."""
        if not self._open:
            raise Mistake("this half was added up before: a second set of clients would tell what differs")
        there = unpack_set(others, len(self.terms.cohort))
        if not self._added.issubset(there):
            raise Mistake("the other server lacks a client that it had: its numbers are in the sum")
        both = [seat for seat in there if seat in self._bodies or seat in self._added]
        self._open = False
        if why := self.terms.lack(both, {}, BOTH):
            failed = Aborted(self.terms.aborted(why))
            failed.refused = tuple(self.refused)
            raise failed
        left = [(seat, self._bodies[seat]) for seat in both if seat in self._bodies]
        if self.half is Half.SEEDS:
            masks.add(self._sum, [_key(self.terms, seat, seed) for seat, seed in left], [])
        else:
            for _, body in left:
                self._sum += bits.unpack(body, self.terms.size, self.terms.bits)
        return bits.pack(self._sum, self.terms.bits)


def join(terms: Terms, sums: Mapping[Half, bytes]) -> Words:
    """The sum modulo 2^bits from what both servers added up."""
    masked, added = (bits.unpack(sums[half], terms.size, terms.bits) for half in (Half.NUMBERS, Half.SEEDS))
    return masks.residues(masked - added, terms.bits, terms.size)


class Halves:
    """All clients and both servers in one process, as driver.Round is with one: `begin`, `add` each, `finish`.

    `lost(half, client)`, half "numbers" or "seeds", loses that message. An abort leaves `tally` and `refused`.
    """

    def __init__(
        self, terms: Terms, identities: Mapping[int, Identity], draw: Draw = os.urandom, lost: Lost = nobody
    ) -> None:
        self.terms, self.tally = terms, Tally(HALVES, len(terms.cohort))
        self._identities, self._draw, self._lost = identities, draw, lost
        self._here, self._there = HalfServer(terms, Half.NUMBERS), HalfServer(terms, Half.SEEDS)
        self._failed: list[str] = []

    @property
    def refused(self) -> tuple[str, ...]:
        """What the servers refused, then what clients did."""
        return (*self._here.refused, *self._there.refused, *self._failed)

    def begin(self) -> None:
        """Nothing: a client says all that it has to say at once."""

    def add(self, client: int, numbers: npt.NDArray[np.integer]) -> bool:
        """One client sends both halves: whether both were taken. In any order, each client once."""
        seat = self.terms.seat(client)
        try:
            halves = split(self._identities[client], self.terms, numbers, self._draw)
        except Mistake as why:
            self._failed.append(f"client {client}: {why}")
            return False
        if taken := self._send(seat, self._there, halves):
            self._here.meet(client)  # so that its numbers are not kept
        return self._send(seat, self._here, halves) and taken

    def finish(self) -> Outcome:
        """The sum over who sent both halves, or an abort."""
        heard, told = self._here.present(), self._there.present()
        try:
            sums = {Half.NUMBERS: self._here.add(told), Half.SEEDS: self._there.add(heard)}
        except Aborted as why:
            why.refused = self.refused
            raise
        n = len(self.terms.cohort)
        both = sorted(set(unpack_set(heard, n)) & set(unpack_set(told, n)))
        survivors = tuple(self.terms.cohort[seat][0] for seat in both)
        return Outcome(join(self.terms, sums), survivors, self.tally, self.refused)

    def _send(self, seat: int, server: HalfServer, halves: Mapping[Half, bytes]) -> bool:
        client, word = self.terms.cohort[seat][0], server.half.value.word
        if self._lost(word, client):
            return False
        self.tally.up[HALVES.index(word), seat] += len(halves[server.half])
        return server.take(client, halves[server.half])


def run(
    terms: Terms,
    identities: Mapping[int, Identity],
    numbers: Mapping[int, npt.NDArray[np.integer]],
    lost: Lost = nobody,
    draw: Draw = os.urandom,
) -> Outcome:
    """All clients and both servers in one process; `lost(half, client)`, half "numbers" or "seeds", loses a message."""
    whole = Halves(terms, identities, draw, lost)
    whole.begin()
    for name, _ in terms.cohort:
        whole.add(name, numbers[name])
    return whole.finish()


def _key(terms: Terms, seat: int, seed: bytes) -> bytes:
    return self_key(seed, terms.digest, seat)
