"""The messages of a secure sum: a header, a body, and of clients a signature. What is not exactly right is refused.

    phase       to the client                           from the client
    advertise   -                                       a fresh public key
    share       which neighbours did, keys, signatures  commitment to the seed, public values of two sharings, a box
    mask        which neighbours did                    the masked numbers, packed
    consent     who survived                            nothing but its signature
    unmask      who of the committee signed, signatures one share for each neighbour, a check for each that is gone

A header has magic, version, phase, the client's seat and the first 8 bytes of the digest of the terms, so that a
stray message gets a clear refusal. The signature covers the whole digest, phase, seat, the body of the message that is
answered, and the body: a client that was asked something else than the server asked is refused. Sets are bits, the
lowest first: of the cohort's seats, of the client's neighbours, or of the committee, ascending. Little-endian.
"""

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from hush.errors import Mistake
from hush.secure.keys import PAIR, Identity, verify
from hush.secure.shares import LENGTH, numbers
from hush.secure.terms import Terms

HEAD = struct.Struct("<3sBBI8s")
ADVERT = struct.Struct("<32s64s")  # key, signature
KEY, SIGNATURE, COMMITMENT, TAG, SEED = 32, 64, 32, 16, 32
UP, DOWN, VERSION = b"hsu", b"hsd", 2


class Phase(IntEnum):
    """The phases, in order; CLOSED comes after the last, and after an abort. The last two are twoserver's halves."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    CONSENT = 3
    UNMASK = 4
    CLOSED = 5
    NUMBERS = 6
    SEEDS = 7

    @property
    def word(self) -> str:
        """For sentences and tables."""
        return self.name.lower()


PHASES = tuple(Phase)[: Phase.CLOSED]


def to_client(terms: Terms, phase: Phase, seat: int, body: bytes) -> bytes:
    """What asks a client for its message of this phase."""
    return _head(DOWN, terms, phase, seat) + body


def from_client(identity: Identity, terms: Terms, phase: Phase, seat: int, asked: bytes, body: bytes) -> bytes:
    """A client's message of this phase, signed, in answer to the body `asked`."""
    return _head(UP, terms, phase, seat) + body + identity.sign(_words(terms, phase, seat, asked, body))


def open_at_client(terms: Terms, phase: Phase, seat: int, data: bytes) -> bytes:
    """The body of what came from the server."""
    return _body(DOWN, terms, phase, seat, data)


def open_at_server(terms: Terms, phase: Phase, seat: int, asked: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Body and signature of what came from a client, once the signature is found right."""
    rest = _body(UP, terms, phase, seat, data)
    body, signature = rest[:-SIGNATURE], rest[-SIGNATURE:]
    if len(rest) < SIGNATURE or not signed(terms, phase, seat, asked, body, signature):
        raise Mistake(f"its {phase.word} message does not have its signature, or answers something else")
    return body, signature


def signed(terms: Terms, phase: Phase, seat: int, asked: bytes, body: bytes, signature: bytes) -> bool:
    """Whether the client in this seat signed this body, in answer to that one, in this phase under these terms."""
    return verify(terms.cohort[seat][1], signature, _words(terms, phase, seat, asked, body))


def pack_set(seats: Iterable[int], count: int) -> bytes:
    """One bit for each of `count` seats."""
    marks = np.zeros(count, np.uint8)
    marks[list(seats)] = 1
    return np.packbits(marks, bitorder="little").tobytes()


def unpack_set(body: bytes, count: int) -> list[int]:
    """The seats, ascending; of another length, or with bits past the last seat, they are refused."""
    marks = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
    if len(body) != (count + 7) // 8 or marks[count:].any():
        raise Mistake(f"a set of {count} seats takes {(count + 7) // 8} bytes and no bits after the last")
    found: list[int] = np.flatnonzero(marks).tolist()
    return found


def pack_some(some: Iterable[int], seats: Sequence[int]) -> bytes:
    """Which of these seats, ascending, some are."""
    return pack_set((bisect_left(seats, seat) for seat in some), len(seats))


def unpack_some(body: bytes, seats: Sequence[int]) -> list[int]:
    """The seats again."""
    return [seats[i] for i in unpack_set(body, len(seats))]


def listed(body: bytes, seats: Sequence[int], size: int) -> dict[int, bytes]:
    """Which of these seats are meant, then `size` bytes for each of them."""
    end = (len(seats) + 7) // 8
    found = unpack_some(body[:end], seats)
    if len(body) != end + size * len(found):
        raise Mistake(f"a list of {len(found)} times {size} bytes cannot have {len(body) - end}")
    return {seat: body[end + size * i : end + size * (i + 1)] for i, seat in enumerate(found)}


@dataclass(frozen=True)
class Dealt:
    """What a client publishes in the share phase: sealed in the box is the secret of each neighbour's mask."""

    commitment: bytes
    of_seed: bytes
    of_lock: bytes
    box: bytes

    @classmethod
    def length(cls, holders: int, threshold: int) -> int:
        """Bytes of it among so many neighbours, of whom `threshold` open either secret."""
        return COMMITMENT + 2 * LENGTH * (holders - threshold) + PAIR * holders + TAG

    @classmethod
    def read(cls, body: bytes, holders: int, threshold: int) -> "Dealt":
        """From the message; another length, or what is no number of the field, is refused."""
        if len(body) != cls.length(holders, threshold):
            raise Mistake(f"it must share its secrets among {holders} neighbours, so that {threshold} open them")
        first = COMMITMENT + LENGTH * (holders - threshold)
        second = first + LENGTH * (holders - threshold)
        found = cls(body[:COMMITMENT], body[COMMITMENT:first], body[first:second], body[second:])
        numbers(found.of_seed + found.of_lock)
        return found

    def pack(self) -> bytes:
        """As it is sent."""
        return self.commitment + self.of_seed + self.of_lock + self.box


def _head(way: bytes, terms: Terms, phase: Phase, seat: int) -> bytes:
    return HEAD.pack(way, VERSION, phase, seat, terms.digest[:8])


def _body(way: bytes, terms: Terms, phase: Phase, seat: int, data: bytes) -> bytes:
    if len(data) < HEAD.size:
        raise Mistake(f"a message of {len(data)} bytes is cut short")
    found = HEAD.unpack_from(data)
    if found[:2] != (way, VERSION):
        raise Mistake("a message is not one of this protocol, version and direction")
    if found[2:4] != (phase, seat):
        raise Mistake(f"a message is of phase {found[2]} and seat {found[3]}, not of {phase:d} and {seat}")
    if found[4] != terms.digest[:8]:
        raise Mistake("a message is under other terms: another run, round, plan, model or cohort")
    return data[HEAD.size :]


def _words(terms: Terms, phase: Phase, seat: int, asked: bytes, body: bytes) -> bytes:
    head = b"hush secure sum 2: message" + terms.digest + bytes([phase]) + seat.to_bytes(4, "little")
    return head + hashlib.sha256(asked).digest() + hashlib.sha256(body).digest()
