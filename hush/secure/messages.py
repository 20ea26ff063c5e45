"""The messages of a secure sum: a header, a body, and of clients a signature. What is not exactly right is refused.

    phase       to the client                           from the client
    advertise   -                                       sealing key, mask key
    share       each neighbour's seat, keys, signature  commitment to the seed, a box for each of these neighbours
    mask        each neighbour's seat, its box          the masked numbers, packed
    consent     who survived                            the same
    unmask      who signed, their signatures            which shares it has, one for each neighbour

A header has magic, version, phase, the client's seat and the first 8 bytes of the digest of the terms, so that a
stray message gets a clear refusal. The signature covers the whole digest, phase, seat, the body of the message that is
answered, and the body: a client that was asked something else than the server asked is refused. Sets of seats are bits,
the lowest first. Little-endian.
"""

import hashlib
import struct
from collections.abc import Iterable
from enum import IntEnum

import numpy as np

from hush.errors import Mistake
from hush.secure.keys import Identity, verify
from hush.secure.terms import Terms

HEAD = struct.Struct("<3sBBI8s")
ADVERT = struct.Struct("<I32s32s64s")  # seat, sealing key, mask key, signature
BOX = struct.Struct("<I80s")  # seat, two sealed shares
KEYS, SEALED, SIGNATURE, COMMITMENT, SEED = 64, BOX.size - 4, 64, 32, 32
UP, DOWN, VERSION = b"hsu", b"hsd", 1


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


def entries(form: struct.Struct, body: bytes, allowed: Iterable[int]) -> dict[int, tuple[bytes, ...]]:
    """What is listed for each seat; seats must ascend and be among those allowed."""
    if len(body) % form.size:
        raise Mistake(f"a list of {form.size} bytes each cannot have {len(body)}")
    rows = list(form.iter_unpack(body))
    seats = [row[0] for row in rows]
    if sorted(set(seats)) != seats or not set(seats) <= set(allowed):
        raise Mistake("a list names a seat twice, out of order, or one that is not expected")
    return {row[0]: row[1:] for row in rows}


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
    head = b"hush secure sum 1: message" + terms.digest + bytes([phase]) + seat.to_bytes(4, "little")
    return head + hashlib.sha256(asked).digest() + hashlib.sha256(body).digest()
