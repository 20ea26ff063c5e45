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

from hush.errors import Aborted, Mistake
from hush.secure import bits, masks
from hush.secure.bits import Words
from hush.secure.driver import Lost, Outcome
from hush.secure.keys import Draw, Identity, self_key
from hush.secure.messages import Phase, from_client, open_at_server, pack_set, unpack_set
from hush.secure.tally import Tally
from hush.secure.terms import Terms

SEED = 32


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
    """One of the two. `take` the clients' halves, tell the other who is `present`, and `add` over who is at both."""

    def __init__(self, terms: Terms, half: Half) -> None:
        self.terms, self.half = terms, half
        self.refused: list[str] = []
        self._bodies: dict[int, bytes] = {}
        self._open = True

    def take(self, client: int, data: bytes) -> bool:
        """A message that came as this client's: whether it was accepted."""
        try:
            seat = self.terms.seat(client)
            if not self._open or seat in self._bodies:
                raise Mistake("it sent its half before, or the round is closed")
            body, _ = open_at_server(self.terms, self.half.value, seat, b"", data)
            wanted = SEED if self.half is Half.SEEDS else bits.length(self.terms.size, self.terms.bits)
            if len(body) != wanted:
                raise Mistake(f"its half has {len(body)} bytes and must have {wanted}")
            if self.half is Half.NUMBERS:
                bits.unpack(body, self.terms.size, self.terms.bits)
        except Mistake as why:
            self.refused.append(f"client {client} refused: {why}")
            return False
        self._bodies[seat] = body
        return True

    def present(self) -> bytes:
        """Who sent this half, for the other server."""
        return pack_set(self._bodies, len(self.terms.cohort))

    def add(self, others: bytes) -> bytes:
        """The sum of this half over who is present at both, packed. Once: a second set would tell what differs."""
        if not self._open:
            raise Mistake("this half was added up before: a second set of clients would tell what differs")
        both = [seat for seat in unpack_set(others, len(self.terms.cohort)) if seat in self._bodies]
        self._open = False
        if len(both) < self.terms.threshold:
            failed = Aborted(
                f"round {self.terms.round}: {len(both)} clients sent both halves, and {self.terms.threshold} are"
                " needed: nothing is opened"
            )
            failed.refused = tuple(self.refused)
            raise failed
        words = np.zeros(self.terms.size, bits.word(self.terms.bits))
        if self.half is Half.SEEDS:
            masks.add(words, [_key(self.terms, seat, self._bodies[seat]) for seat in both], [])
        else:
            for seat in both:
                words += bits.unpack(self._bodies[seat], self.terms.size, self.terms.bits)
        return bits.pack(words, self.terms.bits)


def join(terms: Terms, sums: Mapping[Half, bytes]) -> Words:
    """The sum modulo 2^bits from what both servers added up."""
    masked, added = (bits.unpack(sums[half], terms.size, terms.bits) for half in (Half.NUMBERS, Half.SEEDS))
    return masks.residues(masked - added, terms.bits, terms.size)


def run(
    terms: Terms,
    identities: Mapping[int, Identity],
    numbers: Mapping[int, npt.NDArray[np.integer]],
    lost: Lost = lambda half, client: False,
    draw: Draw = os.urandom,
) -> Outcome:
    """All clients and both servers in one process; `lost(half, client)`, half "numbers" or "seeds", loses a message."""
    servers = {half: HalfServer(terms, half) for half in Half}
    tally = Tally(tuple(half.name.lower() for half in Half), len(terms.cohort))
    for seat, (name, _) in enumerate(terms.cohort):
        for row, (half, data) in enumerate(split(identities[name], terms, numbers[name], draw).items()):
            if not lost(half.name.lower(), name):
                tally.up[row, seat] += len(data)
                servers[half].take(name, data)
    here, there = servers[Half.NUMBERS], servers[Half.SEEDS]
    heard, told = here.present(), there.present()
    total = join(terms, {Half.NUMBERS: here.add(told), Half.SEEDS: there.add(heard)})
    both = set(unpack_set(heard, len(terms.cohort))) & set(unpack_set(told, len(terms.cohort)))
    survivors = tuple(terms.cohort[seat][0] for seat in sorted(both))
    return Outcome(total, survivors, tally, (*here.refused, *there.refused))


def _key(terms: Terms, seat: int, seed: bytes) -> bytes:
    return self_key(seed, terms.digest, seat)
