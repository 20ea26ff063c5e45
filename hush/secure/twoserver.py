"""The same sum with two servers that do not talk behind the clients' backs: two messages a client, no neighbours.

A client sends its numbers plus a mask to one server and the mask's seed, 32 bytes, to the other. Both learn who sent
both halves, each adds up its half over these clients, and the difference of the two sums is the sum of the numbers.
Each message must travel so that the other server cannot read it (TLS to each). What the servers say to each other is
signed (hush/secure/link.py).

Guarantee: a server alone, with any clients, sees uniform numbers, or seeds, and at the end one sum over at least
`threshold` clients. Both servers together see everything. Who stands between the servers can stop the sum, and not
choose or change it.
"""

import os
from collections.abc import Mapping
from enum import Enum
from threading import Lock

import numpy as np
import numpy.typing as npt

from hush.errors import Aborted, Mistake
from hush.secure import bits, link, masks
from hush.secure.bits import Words
from hush.secure.driver import Lost, Outcome, nobody
from hush.secure.keys import Draw, Identity, self_key
from hush.secure.link import LinkMessage
from hush.secure.messages import SEED, Phase, from_client, open_at_server, pack_set, unpack_set
from hush.secure.refusals import Refusals
from hush.secure.server import Opened
from hush.secure.tally import HALVES, Tally
from hush.secure.terms import BOTH, Terms
from hush.secure.turns import alone


class Half(Enum):
    """What a server gets of each client."""

    NUMBERS = Phase.NUMBERS
    SEEDS = Phase.SEEDS

    @property
    def other(self) -> "Half":
        """What the other server gets."""
        return Half.SEEDS if self is Half.NUMBERS else Half.NUMBERS


def split(
    identity: Identity, terms: Terms, numbers: npt.NDArray[np.integer], draw: Draw = os.urandom
) -> dict[Half, bytes]:
    """At the client: a signed message for each server. Once in a round, as ever."""
    seats = [seat for seat, (_, key) in enumerate(terms.cohort) if key == identity.public]
    if not seats:
        raise Mistake("this client's key is not in the cohort: the terms are meant for others")
    words, seed = masks.residues(numbers, terms.bits, terms.size), draw(SEED)
    identity.claim(terms.run, terms.round, terms.binding)
    masks.add(words, [_key(terms, seats[0], seed)], [])
    bodies = {Half.NUMBERS: bits.pack(words, terms.bits), Half.SEEDS: seed}
    return {half: from_client(identity, terms, half.value, seats[0], b"", body) for half, body in bodies.items()}


class HalfServer:
    """One of the two. `take` the clients' halves, report to the other who is `present`, and `add` over who is at both.

    `identity` is this server's own key, `other` the public one of the other server. After `present` no client is
    taken. Numbers of a client that the other server `has`, which `meet` hears, are added up as they come; those of
    others are kept until `add`. Any thread may call it.
    """

    def __init__(self, terms: Terms, half: Half, identity: Identity, other: bytes) -> None:
        if other == identity.public:
            raise Mistake("the two servers must have different keys: one that is both sees everything")
        self.terms, self.half = terms, half
        self._identity, self._other = identity, other
        self._lock = Lock()
        self._refusals = Refusals()
        self._bodies: dict[int, bytes] = {}  # what is not yet in the sum
        self._added: set[int] = set()
        self._met: set[int] = set()
        self._sum: Words = np.zeros(terms.size, bits.word(terms.bits))
        self._taking = self._open = True

    @property
    def refused(self) -> list[str]:
        """What was refused, a sentence each."""
        return self._refusals.sentences

    @alone
    def take(self, client: int, data: bytes) -> bool:
        """A message that came as this client's: whether it was accepted."""
        seat = None
        try:
            seat = self.terms.seat(client)
            self._refusals.check(client)
            if not self._taking:
                raise Mistake("it comes after the other server heard who is present")
            if self._has(seat):
                raise Mistake("it sent its half before")
            body, _ = open_at_server(self.terms, self.half.value, seat, b"", data)
            if self.half is Half.NUMBERS:
                words = bits.unpack(body, self.terms.size, self.terms.bits)
            elif len(body) != SEED:
                raise Mistake(f"its half has {len(body)} bytes and must have {SEED}")
        except Mistake as why:
            self._refusals.note(client, why, seat is not None)
            return False
        if self.half is Half.NUMBERS and seat in self._met:
            self._sum += words
            self._added.add(seat)
        else:
            self._bodies[seat] = body
        return True

    @alone
    def has(self, client: int) -> bytes:
        """For the other server: this client's half is here, and stays."""
        seat = self.terms.seat(client)
        if not self._has(seat):
            raise Mistake(f"client {client} did not send its half")
        return self._say(LinkMessage.HAS, seat.to_bytes(4, "little"))

    @alone
    def meet(self, other: bytes) -> None:
        """The other server `has` a client's half: its numbers need not be kept."""
        seat = int.from_bytes(self._hear(LinkMessage.HAS, other), "little")
        if seat >= len(self.terms.cohort):
            raise Mistake(f"the other server has a seat {seat} that is not in the cohort")
        self._met.add(seat)
        if self.half is Half.NUMBERS and seat in self._bodies:
            self._sum += bits.unpack(self._bodies.pop(seat), self.terms.size, self.terms.bits)
            self._added.add(seat)

    @alone
    def present(self) -> bytes:
        """Who sent this half, for the other server; whoever comes later is refused."""
        self._taking = False
        return self._say(LinkMessage.PRESENT, pack_set(self._added.union(self._bodies), len(self.terms.cohort)))

    @alone
    def add(self, others: bytes) -> bytes:
        """Who is present at both, and the sum of this half over them. Once: a second set would reveal what differs."""
        n = len(self.terms.cohort)
        there = unpack_set(self._hear(LinkMessage.PRESENT, others), n)
        if not self._open:
            raise Mistake("this half was added up before: a second set of clients would reveal what differs")
        if not self._added.issubset(there):
            raise Mistake("the other server lacks a client that it had: its numbers are in the sum")
        both = [seat for seat in there if self._has(seat)]
        self._taking = self._open = False
        if why := self.terms.lack(both, (), BOTH):
            failed = Aborted(self.terms.aborted(why))
            failed.refused = tuple(self.refused)
            raise failed
        left = [(seat, self._bodies[seat]) for seat in both if seat in self._bodies]
        if self.half is Half.SEEDS:
            masks.add(self._sum, [_key(self.terms, seat, seed) for seat, seed in left], [])
        else:
            for _, body in left:
                self._sum += bits.unpack(body, self.terms.size, self.terms.bits)
        return self._say(LinkMessage.SUM, pack_set(both, n) + bits.pack(self._sum, self.terms.bits))

    def _has(self, seat: int) -> bool:
        return seat in self._bodies or seat in self._added

    def _say(self, kind: LinkMessage, body: bytes) -> bytes:
        return link.say(self._identity, self._other, self.terms, self.half.value, kind, body)

    def _hear(self, kind: LinkMessage, data: bytes) -> bytes:
        return link.hear(self._other, self._identity.public, self.terms, self.half.other.value, kind, data)


def join(terms: Terms, servers: Mapping[Half, bytes], sums: Mapping[Half, bytes]) -> Opened:
    """The sum modulo 2^bits from what both servers, known by their public keys, added up over the same clients."""
    n, seats, words = len(terms.cohort), {}, {}
    for half in Half:
        body = link.hear(servers[half], servers[half.other], terms, half.value, LinkMessage.SUM, sums[half])
        end = (n + 7) // 8
        seats[half] = unpack_set(body[:end], n)
        words[half] = bits.unpack(body[end:], terms.size, terms.bits)
    if seats[Half.NUMBERS] != seats[Half.SEEDS]:
        raise Mistake(
            f"the servers added up over {len(seats[Half.NUMBERS])} and {len(seats[Half.SEEDS])} clients, which are not"
            " the same: the masks do not cancel, and there is no sum"
        )
    total = masks.residues(words[Half.NUMBERS] - words[Half.SEEDS], terms.bits, terms.size)
    return Opened(total, tuple(terms.cohort[seat][0] for seat in seats[Half.NUMBERS]))


class Halves:
    """All clients and both servers in one process, as driver.Round is with one: `begin`, `add` each, `finish`.

    `lost(half, client)`, half "numbers" or "seeds", loses that message. An abort leaves `tally` and `refused`.
    """

    def __init__(
        self, terms: Terms, identities: Mapping[int, Identity], draw: Draw = os.urandom, lost: Lost = nobody
    ) -> None:
        self.terms, self.tally = terms, Tally(HALVES, len(terms.cohort))
        self._identities, self._draw, self._lost = identities, draw, lost
        one, other = Identity.new(draw), Identity.new(draw)
        self._keys = {Half.NUMBERS: one.public, Half.SEEDS: other.public}
        self._here = HalfServer(terms, Half.NUMBERS, one, other.public)
        self._there = HalfServer(terms, Half.SEEDS, other, one.public)
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
            self._here.meet(self._there.has(client))  # so that its numbers are not kept
        return self._send(seat, self._here, halves) and taken

    def finish(self) -> Outcome:
        """The sum over who sent both halves, or an abort."""
        heard, said = self._here.present(), self._there.present()
        try:
            sums = {Half.NUMBERS: self._here.add(said), Half.SEEDS: self._there.add(heard)}
        except Aborted as why:
            why.refused = self.refused
            raise
        opened = join(self.terms, self._keys, sums)
        return Outcome(opened.residues, opened.survivors, self.tally, self.refused)

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
