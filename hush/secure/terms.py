"""What all of a cohort must agree on before a secure sum, and its digest.

The digest is in the salt or the message of every derived key and every signature. A client that was given another
plan, model, cohort or threshold makes other masks and signs other words: it is refused, or its masks do not cancel.
"""

import hashlib
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from hush.errors import Mistake
from hush.secure.graph import MOST, degree, near, order, quorum
from hush.secure.keys import WEAK

LARGEST = 2**16  # clients of a cohort: what a client must read before it can say no
VERSION = b"hush secure sum 2"
MASKED, BOTH = "masked their numbers", "sent both halves"  # in sentences of an abort
_NUMBERS = struct.Struct("<QIIIIQ")
_MEMBER = struct.Struct("<Q32s")


def binding(*parts: bytes) -> bytes:
    """SHA-256 of several byte strings with their lengths: plan, broadcast and whatever else all must agree on."""
    found = hashlib.sha256(b"hush secure binding 1")
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


@dataclass(frozen=True)
class Terms:
    """The public terms of one secure sum: `size` numbers of `bits` bits each, modulo 2^bits.

    `cohort` has each client's number and long-term Ed25519 public key; its order is public, and a place in it is a
    seat. `threshold` is the fewest clients whose sum may be opened. `degree` is how many neighbours each client has
    (cohort - 1: all), `shares` how many of them open one secret, `consents` how many of the `committee` must sign the
    set of survivors.

    Guarantee: two sets of survivors cannot both be opened while at most `corrupt` clients help the server, or, in a
    ring, while fewer than shares - degree / 2 of any degree / 2 in a row do: then at most 2 shares - degree - 2 of the
    committee. An honest client signs one set, and 2 consents > committee + its colluders. Where all must survive there
    is one set, and nothing to sign.
    """

    run: str
    round: int
    cohort: tuple[tuple[int, bytes], ...]
    threshold: int
    degree: int
    shares: int
    bits: int
    size: int
    binding: bytes

    def __post_init__(self) -> None:
        self._check_types()
        n = len(self.cohort)
        if not 0 <= self.round < 2**64:
            raise Mistake(f"round={self.round} must be a number from 0 on: rounds of a run are counted upwards")
        if not 2 <= self.bits <= 32:
            raise Mistake(f"bits={self.bits} must be from 2 to 32: what one number of the sum takes")
        if not 1 <= self.size < 2**32:
            raise Mistake(f"size={self.size} must be from 1 to 2^32 - 1: how many numbers are summed")
        if len(self.binding) != 32:
            raise Mistake(f"binding of {len(self.binding)} bytes must have 32: make it with binding()")
        if any(not 0 <= number < 2**64 or len(key) != 32 for number, key in self.cohort):
            raise Mistake("cohort must have a number from 0 on and a public key of 32 bytes for each client")
        if any(key in WEAK for _, key in self.cohort):
            raise Mistake(
                "cohort has a public key of small order, or one not below 2^255 - 19: anybody could sign for it"
            )
        if len(self._seats) != n or len({key for _, key in self.cohort}) != n:
            raise Mistake("cohort has a client's number or key twice: one client must not count as two")
        if not (3 <= self.threshold <= n < 2 * self.threshold):
            raise Mistake(
                f"threshold={self.threshold} must be more than half of the {n} clients, and at least 3: with less, a"
                " server could open two sums that differ by one client"
            )
        if self.degree != n - 1 and (self.degree % 2 or not 2 <= self.degree < n - 1):
            raise Mistake(
                f"degree={self.degree} must be {n - 1} (everyone), or even and smaller: take it from degree()"
            )
        if self.degree > MOST:
            raise Mistake(f"degree={self.degree} must be at most {MOST}, in a ring: take it from degree()")
        if not (2 <= self.shares <= self.degree < 2 * self.shares):
            raise Mistake(
                f"shares={self.shares} must be at least 2 and more than half of degree={self.degree}: take both from"
                " degree()"
            )
        if self.degree == n - 1 and self.shares < self.threshold - 1:
            raise Mistake(
                f"shares={self.shares} must be at least {self.threshold - 1}, one less than the threshold, where all"
                " are neighbours: with less, a server could open the secrets of one client behind the others' backs"
            )

    @classmethod
    def choose(
        cls,
        run: str,
        round: int,
        cohort: tuple[tuple[int, bytes], ...],
        bits: int,
        size: int,
        binding: bytes,
        *,
        dropout: float,
        corrupt: float,
        failure: float = 2.0**-80,
        stall: float = 2.0**-20,
    ) -> "Terms":
        """The public rule: threshold and graph for these parts of the cohort lost, and colluding with the server."""
        n = len(cohort)
        k, shares = degree(n, dropout, corrupt, failure, stall)
        return cls(run, round, cohort, quorum(n, dropout, corrupt), k, shares, bits, size, binding)

    def _check_types(self) -> None:
        """Refuse what is of another type before it is compared with anything."""
        for name in ("round", "threshold", "degree", "shares", "bits", "size"):
            if type(value := getattr(self, name)) is not int:
                raise Mistake(f"{name}={value!r} must be an integer, and not of type {type(value).__name__}")
        if type(self.run) is not str or not _encodable(self.run):
            raise Mistake(f"run={self.run!r} must be text: the name of a run")
        if type(self.binding) is not bytes:
            raise Mistake(
                f"binding must be bytes, and not of type {type(self.binding).__name__}: make it with binding()"
            )
        if type(self.cohort) is not tuple or len(self.cohort) > LARGEST:
            raise Mistake(f"cohort must be a tuple of at most {LARGEST} clients: draw fewer for one sum")
        if any(
            type(one) is not tuple or len(one) != 2 or type(one[0]) is not int or type(one[1]) is not bytes
            for one in self.cohort
        ):
            raise Mistake("cohort must have a tuple of an integer and bytes for each client: its number and public key")

    def check_rule(self, dropout: float, corrupt: float, failure: float = 2.0**-80, stall: float = 2.0**-20) -> None:
        """Refuse terms that are not what `choose` gives: for a client, which need not believe the server."""
        n = len(self.cohort)
        found = (self.threshold, self.degree, self.shares)
        rule = (quorum(n, dropout, corrupt), *degree(n, dropout, corrupt, failure, stall))
        if found != rule:
            names = ", ".join(
                f"{name}={is_} must be {want}"
                for name, is_, want in zip(("threshold", "degree", "shares"), found, rule, strict=True)
                if is_ != want
            )
            raise Mistake(f"{names} for {n} clients, dropout={dropout} and corrupt={corrupt}: do not take part")

    @property
    def corrupt(self) -> int:
        """How many clients, whoever they are, may help the server without opening two sets of survivors.

        2 threshold - n - 1, and at most 2 consents - committee - 1 where a part of the cohort signs for all.
        """
        most = 2 * self.threshold - len(self.cohort) - 1
        return min(most, 2 * self.consents - len(self.committee) - 1) if self.committee else most

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything above."""
        run = self.run.encode()
        found = hashlib.sha256(VERSION + len(run).to_bytes(8, "little") + run + self.binding)
        found.update(_NUMBERS.pack(self.round, self.threshold, self.degree, self.shares, self.bits, self.size))
        for number, key in self.cohort:
            found.update(_MEMBER.pack(number, key))
        return found.digest()

    @cached_property
    def _seats(self) -> dict[int, int]:
        return {number: seat for seat, (number, _) in enumerate(self.cohort)}

    def seat(self, client: int) -> int:
        """A client's place in the cohort."""
        if client not in self._seats:
            raise Mistake(f"client {client} is not in the cohort")
        return self._seats[client]

    @cached_property
    def _ring(self) -> tuple[list[int], list[int]]:
        """The seats in the order of the ring, and the place of each seat in it."""
        seats = order(self.digest, len(self.cohort))
        return seats, sorted(range(len(seats)), key=seats.__getitem__)

    @cached_property
    def committee(self) -> tuple[int, ...]:
        """The seats that sign for all who survived: everybody's, or in a ring the first `degree` of its order."""
        if self.threshold == len(self.cohort):
            return ()
        everybody = self.degree == len(self.cohort) - 1
        return tuple(range(len(self.cohort)) if everybody else sorted(self._ring[0][: self.degree]))

    @property
    def consents(self) -> int:
        """How many of the committee must have signed the same set."""
        if not self.committee:
            return 0
        return self.threshold if len(self.committee) == len(self.cohort) else self.shares

    def near(self, seat: int) -> tuple[int, ...]:
        """The seats that a seat shares masks and secrets with, ascending: all that a client works out."""
        if self.degree == len(self.cohort) - 1:
            return near(range(len(self.cohort)), seat, self.degree)
        seats, places = self._ring
        return near(seats, places[seat], self.degree)

    @property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Those of every seat."""
        return tuple(map(self.near, range(len(self.cohort))))

    def stuck(self, present: Collection[int], servers: int = 1) -> str | None:
        """Why a sum over just these clients would be aborted, where all of the cohort shared their secrets before.

        None where it would be opened. Server and HalfServer abort for the same reason in the same words.
        """
        seats = {self.seat(client) for client in present}
        # Between two servers there are no neighbours; with one, who is missing may be near anybody.
        enough = servers == 2 or self.degree - (len(self.cohort) - len(seats)) >= self.shares
        looked = range(0 if enough else len(self.cohort))
        what = MASKED if servers == 1 else BOTH
        why = self.lack(seats, ((seat, self.near(seat)) for seat in looked), what)
        if why is None and servers == 1:
            why = self.unsigned(seats, what)
        return why and self.aborted(why)

    def lack(self, seats: Collection[int], near: Iterable[tuple[int, Collection[int]]], what: str) -> str | None:
        """Whether these seats are below the threshold, or too few of them are near a seat to open its secret."""
        if len(seats) < self.threshold:
            return f"{len(seats)} clients {what}, and {self.threshold} are needed"
        for seat, others in near:
            if sum(other in seats for other in others) < self.shares:
                return f"too few neighbours of client {self.cohort[seat][0]} {what}"
        return None

    def unsigned(self, seats: Collection[int], what: str) -> str | None:
        """Whether too few of these seats are of the committee."""
        count = sum(seat in seats for seat in self.committee)
        if count < self.consents:
            return f"{count} clients of the committee {what}, and {self.consents} are needed"
        return None

    def aborted(self, why: str) -> str:
        """The sentence of an abort."""
        return f"round {self.round}: {why}: nothing is opened"


def _encodable(text: str) -> bool:
    """Whether it has bytes at all: lone surrogates have none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
