"""A secure sum over a network: what a client answers in each phase, and what the server makes of it."""

import math
import struct
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hush.core.integers import centred
from hush.core.spec import Asked, Total
from hush.errors import Aborted, Refused
from hush.secure import bits
from hush.secure.client import Client
from hush.secure.driver import answer
from hush.secure.keys import Identity
from hush.secure.messages import HEAD, PHASES, Phase
from hush.secure.sealed import enclose
from hush.secure.server import Opened, Server
from hush.secure.tally import HALVES, Tally
from hush.secure.terms import Terms
from hush.secure.twoserver import Half, HalfServer, join, split

RECORDS = struct.Struct("<I")  # behind the numbers, where the mean is weighted by them
LENGTH = struct.Struct("<I")
Numbers = Callable[[], Tensor]


class Neighbour:
    """A client of the graph: five phases, its numbers in the third."""

    def __init__(self, terms: Terms, identity: Identity, records: int | None) -> None:
        self._client, self._records = Client(identity, terms), records

    def first(self, numbers: Numbers) -> bytes:
        """Its keys."""
        return self._client.advertise()

    def answer(self, data: bytes, numbers: Numbers) -> bytes:
        """What it says in a later phase."""
        if len(data) < HEAD.size or data[4] not in PHASES:
            raise Refused(f"a message of {len(data)} bytes is of no phase of a secure sum: refused")
        phase = Phase(data[4])
        if phase is not Phase.MASK:
            return answer(self._client, phase, data)
        said = answer(self._client, phase, data, lambda: numbers().int().numpy())
        return said if self._records is None else said + RECORDS.pack(self._records)


class Halved:
    """A client of two servers: both halves at once, the second sealed for the server with the key `second`.

    Without one it is as it is, for simulations, where nobody carries it.
    """

    def __init__(self, terms: Terms, identity: Identity, records: int | None, second: bytes = b"") -> None:
        self._terms, self._identity, self._records, self._second = terms, identity, records, second

    def first(self, numbers: Numbers) -> bytes:
        """The half with the numbers behind its length, then the half with the seed."""
        halves = split(self._identity, self._terms, numbers().int().numpy())
        behind = b"" if self._records is None else RECORDS.pack(self._records)
        one, other = halves[Half.NUMBERS] + behind, halves[Half.SEEDS]
        if self._second:
            seat = [key for _, key in self._terms.cohort].index(self._identity.public)
            other = enclose(self._second, self._terms.digest, seat, other)
        return LENGTH.pack(len(one)) + one + other

    def answer(self, data: bytes, numbers: Numbers) -> bytes:
        """It has said all."""
        raise Refused("a sum of two servers has one phase: refused")


class GraphRound:
    """The server of the graph, phase by phase."""

    def __init__(self, terms: Terms, asked: Asked) -> None:
        self._server, self._asked = Server(terms), asked
        self._opened: Opened | None = None
        self._weights: dict[int, int] = {}

    @property
    def phase(self) -> str:
        """Its name."""
        return self._server.phase.word

    def take(self, client: int, data: bytes) -> None:
        """A client's message of this phase; Refused where it is not right, and the round goes on without it."""
        numbers, records = self._server.phase is Phase.MASK, 1
        if numbers and self._asked.weighted:
            data, records = weighed(data, self._asked, client)
            self._server.tally.up[Phase.MASK, self._server.terms.seat(client)] += RECORDS.size
        if not self._server.take(client, data):
            raise Refused(self._server.refused[-1])
        if numbers:
            self._weights[client] = records

    def advance(self) -> dict[int, bytes]:
        """The messages of the next phase; none after the last, when the sum is open."""
        try:
            if self._server.phase is not Phase.UNMASK:
                return self._server.advance()
            self._opened = self._server.finish()
        except Aborted as why:
            self._count()
            why.refused = ()
            raise
        self._count()
        return {}

    def total(self) -> Total:
        """The sum over the survivors."""
        assert self._opened is not None
        return opened_total(self._opened, self._server.terms, self._weights)

    def _count(self) -> None:
        count(self._asked, self._server.terms, self._server.tally)


class HalvesRound:
    """Both servers in one process: a simulation of two that do not collude."""

    phase: ClassVar[str] = Phase.NUMBERS.word

    def __init__(self, terms: Terms, asked: Asked) -> None:
        one, other = Identity.new(), Identity.new()
        self._terms, self._asked, self._tally = terms, asked, Tally(HALVES, len(terms.cohort))
        self._keys = {Half.NUMBERS: one.public, Half.SEEDS: other.public}
        self._here = HalfServer(terms, Half.NUMBERS, one, other.public)
        self._there = HalfServer(terms, Half.SEEDS, other, one.public)
        self._opened: Opened | None = None
        self._weights: dict[int, int] = {}

    def take(self, client: int, data: bytes) -> None:
        """Both halves of a client; Refused where one is not right."""
        if len(data) < LENGTH.size:
            raise Refused(f"client {client}: a message of {len(data)} bytes has no halves")
        end = LENGTH.size + LENGTH.unpack(data[: LENGTH.size])[0]
        numbers, seed, records = data[LENGTH.size : end], data[end:], 1
        seat = self._terms.seat(client)
        self._tally.up[:, seat] += (len(numbers), len(seed))
        if self._asked.weighted:
            numbers, records = weighed(numbers, self._asked, client)
        if not self._there.take(client, seed):
            raise Refused(self._there.refused[-1])
        self._here.meet(self._there.has(client))
        if not self._here.take(client, numbers):
            raise Refused(self._here.refused[-1])
        self._weights[client] = records

    def advance(self) -> dict[int, bytes]:
        """One phase: the sum is opened."""
        heard, said = self._here.present(), self._there.present()
        try:
            sums = {Half.NUMBERS: self._here.add(said), Half.SEEDS: self._there.add(heard)}
        finally:
            count(self._asked, self._terms, self._tally)
        self._opened = join(self._terms, self._keys, sums)
        return {}

    def total(self) -> Total:
        """The sum over who sent both halves."""
        assert self._opened is not None
        return opened_total(self._opened, self._terms, self._weights)


def weighed(data: bytes, asked: Asked, client: int) -> tuple[bytes, int]:
    """The message, and the number of records behind it: at least one, and no more than the client registered."""
    if len(data) < RECORDS.size:
        raise Refused("a message names no number of records: refused")
    (records,) = RECORDS.unpack(data[-RECORDS.size :])
    most = records if asked.registered is None else int(asked.registered[client])
    if not 1 <= records <= most:
        raise Refused(f"it says that it has {records} records, and registered {most}: refused")
    return data[: -RECORDS.size], records


def opened_total(opened: Opened, terms: Terms, weights: dict[int, int]) -> Total:
    """What a server has of a sum that was opened."""
    body = centred(torch.from_numpy(opened.residues.astype(np.int64)), terms.bits)
    weight = math.fsum(weights[client] for client in opened.survivors)
    return Total(body, len(opened.survivors), weight, survivors=opened.survivors)


def count(asked: Asked, terms: Terms, tally: Tally) -> None:
    """Note the bytes of a sum."""
    asked.note(asked.cohort, tally, bits.length(terms.size, terms.bits))
