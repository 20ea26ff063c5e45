"""Real bytes: the two messages of a round. A message that is not exactly right is refused.

plan    header (56 bytes), the client's seat (4 bytes, only where the scheme has seats), live coordinates (4 bytes
        each, only where clients cannot derive them), weights (in the form of the scheme's downlink; none in round 1,
        where every client has them from the public seed). For a secure sum the cohort stands before it: the version
        of this list (1 byte), how many (4 bytes), and of each client how far its number is from the one before (a
        byte, or more where it is 64 or farther), ascending; their keys are on the roster that all have
upload  header (28 bytes), the number of the client's records (4 bytes, only where the mean is weighted by it), the
        numbers in the form that the scheme's last stage states (hush/core/packing.py)

Numbers of the model are payload, all else is protocol. Little-endian; a CRC-32 over all that precedes it ends the
header; it covers the payload too. An upload names the plan that it answers, and its client, by 8 bytes of a BLAKE2b
digest, so that an upload of another round, to another model or of another client is refused.
"""

import hashlib
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hush.core.packing import FLOATS, Form
from hush.core.protocols import Coordinates, sent_down
from hush.core.spec import Plan
from hush.errors import Mistake, Refused

PLAN = struct.Struct("<4sBBHIIIddd8s")
UPLOAD = struct.Struct("<4sBBHII8s")
CRC = SEAT = RECORDS = struct.Struct("<I")
COHORT, LISTED = struct.Struct("<BI"), 2  # version of the list, and how many are on it
MAGIC, VERSION = b"hush", 2
NOBODY = bytes(8)  # the charter of a simulation
PLAN_HEADER, UPLOAD_HEADER = PLAN.size + CRC.size, UPLOAD.size + CRC.size


@dataclass(frozen=True)
class Message:
    """Packed bytes, and how many of them are header."""

    data: bytes
    protocol: int

    @property
    def payload(self) -> int:
        """Bytes that carry numbers of the model."""
        return len(self.data) - self.protocol

    @cached_property
    def digest(self) -> bytes:
        """Of all its bytes."""
        return digest(self.data)


def digest(data: bytes) -> bytes:
    """Of all bytes of a message."""
    return hashlib.blake2b(data, digest_size=32).digest()


def reference(plan: bytes, client: int) -> bytes:
    """What the answer of a client names, to the plan of this digest."""
    return hashlib.blake2b(plan, digest_size=8, key=client.to_bytes(8, "little")).digest()


def round_of(data: bytes) -> int:
    """The round that a plan says it is of."""
    if len(data) < PLAN_HEADER:
        raise Refused(f"plan of {len(data)} bytes is shorter than its header of {PLAN_HEADER}: refused")
    return int(PLAN.unpack(data[: PLAN.size])[4])


def pack_plan(plan: Plan, coordinates: Coordinates, form: Form = FLOATS, charter: bytes = NOBODY) -> Message:
    """What travels down to a client; with seats the plan is one client's. `charter` is what its digest begins with."""
    indices = plan.live if plan.live is not None and not coordinates.derivable else None
    values = plan.weights[sent_down(coordinates, plan.live, plan.pool)] if plan.round > 1 else plan.weights[:0]
    count = 0 if indices is None else indices.numel()
    clip = math.nan if plan.clip is None else plan.clip
    seat = b"" if plan.seats is None else SEAT.pack(*plan.seats)
    kind = 3 if seat else 1
    head = PLAN.pack(
        MAGIC, VERSION, kind, form.bits, plan.round, count, values.numel(), plan.cohort, plan.floor, clip, charter
    )
    body = [] if indices is None else [indices.numpy().astype("<u4").data]
    if values.numel():
        body.append(form.pack(values))
    return _seal(head, seat, *body)


def unpack_plan(
    data: bytes,
    start: Tensor,
    live: Tensor | None,
    coordinates: Coordinates,
    seated: bool = False,
    form: Form = FLOATS,
    charter: bytes = NOBODY,
    pool: Tensor | None = None,
) -> Plan:
    """At the client: the plan, from the initial weights and, where they can be derived, the live set and its pool."""
    fields, body = _open(data, PLAN, kind=3 if seated else 1, name="plan", bits=form.bits)
    round, count, size, cohort, floor, clip, named = fields
    if named != charter:
        raise Refused(f"plan of round {round} is of another charter than the one agreed to: refused")
    if not (math.isfinite(cohort) and math.isfinite(floor) and cohort >= 0 and floor >= 0):
        raise Refused(f"plan of round {round} has a cohort of {cohort} and a floor of {floor}: refused")
    seats = None
    if seated:
        if len(body) < SEAT.size:
            raise Refused(f"plan of round {round} names no seat: refused")
        seats, body = np.array(SEAT.unpack(body[: SEAT.size]), np.int64), body[SEAT.size :]
    if len(body) != 4 * count + form.length(size):
        raise Refused(
            f"plan of round {round} announces {count} coordinates and {size} weights, and has {len(body)} bytes of them"
        )
    if bool(count) == coordinates.derivable:
        raise Refused(f"plan of round {round} names {count} coordinates, which these clients do not expect: refused")
    if not math.isnan(clip) and not 0 < clip < math.inf:
        raise Refused(f"plan of round {round} has a bound of {clip}, which must be positive: refused")
    if count:
        live = torch.from_numpy(np.frombuffer(body[: 4 * count], "<u4").astype(np.int64))
        if bool((live[1:] <= live[:-1]).any()):
            raise Refused(f"plan of round {round} names its coordinates twice or out of order: refused")
    if live is not None and int(live.max()) >= start.numel():
        raise Refused(f"plan of round {round} names a coordinate past the {start.numel()} of the model: refused")
    target = sent_down(coordinates, live, pool)
    if size != (0 if round <= 1 else start[target].numel()):
        raise Refused(f"plan of round {round} carries {size} weights, not one for each that travels: refused")
    weights = start.clone()
    if size:
        try:
            weights[target] = form.unpack(body[4 * count :], size)
        except Mistake as mistake:
            raise Refused(f"plan of round {round}: {mistake}: refused") from None
    bound = None if math.isnan(clip) else clip
    return Plan(round, weights, live, cohort, floor, bound, seats, pool=pool, joint=coordinates.joint)


def pack_upload(row: Tensor, round: int, answers: bytes, form: Form = FLOATS, records: int | None = None) -> Message:
    """What travels up from one client: `answers` is the digest of the plan. `records`: how many it has, if weighted."""
    head = UPLOAD.pack(MAGIC, VERSION, 2 if records is None else 4, form.bits, round, row.numel(), answers)
    return _seal(head, b"" if records is None else RECORDS.pack(records), form.pack(row))


def unpack_upload(
    data: bytes, size: int, round: int, answers: bytes, form: Form = FLOATS, weighted: bool = False
) -> tuple[Tensor, int]:
    """At the server: the numbers, if they are exactly what this round asked for, and how many records they are of.

    That is 1 where the scheme does not weigh by it.
    """
    kind = 4 if weighted else 2
    (found, count, digest), body = _open(data, UPLOAD, kind=kind, name="upload", bits=form.bits)
    records = 1
    if weighted:
        if len(body) < RECORDS.size:
            raise Refused(f"upload of round {found} names no number of records: refused")
        (records,), body = RECORDS.unpack(body[: RECORDS.size]), body[RECORDS.size :]
        if records < 1:
            raise Refused(f"upload of round {found} is of no records: refused")
    if found != round:
        raise Refused(f"upload of round {found} came in round {round}: refused")
    if digest != answers:
        raise Refused(f"upload of round {round} answers another plan: refused")
    if count != size or len(body) != form.length(size):
        raise Refused(
            f"upload of round {round} carries {count} numbers in {len(body)} bytes where {size} in"
            f" {form.length(size)} were expected: refused"
        )
    try:
        return form.unpack(body, size), records
    except Mistake as mistake:
        raise Refused(f"upload of round {round}: {mistake}: refused") from None


def with_cohort(plan: Message, cohort: Iterable[int]) -> Message:
    """A plan behind the numbers of the clients that it goes to, which a secure sum needs: these are protocol."""
    listed = _pack_cohort(cohort)
    return Message(listed + plan.data, plan.protocol + len(listed))


def counted(plan: Message, cohort: Iterable[int]) -> "Size":
    """What `with_cohort` takes, where nobody reads it."""
    return Size(plan.payload, plan.protocol + len(_pack_cohort(cohort)))


class Size(NamedTuple):
    """The bytes of a message."""

    payload: int
    protocol: int


def split_cohort(data: bytes, most: int) -> tuple[bytes, tuple[int, ...]]:
    """The plan, and the numbers of the clients that it goes to, ascending, at most so many; spelled in one way only."""
    version, count = COHORT.unpack(data[: COHORT.size]) if len(data) >= COHORT.size else (0, 0)
    if version != LISTED:
        raise Refused(f"plan of {len(data)} bytes does not begin with a cohort of version {LISTED}: refused")
    if not 0 < count <= most:
        raise Refused(f"plan of {len(data)} bytes names a cohort of {count}, and there are {most} clients: refused")
    found, at, last = [], COHORT.size, 0
    for _ in range(count):
        step = shift = 0
        while shift < 70:
            if at >= len(data):
                raise Refused(f"plan of {len(data)} bytes ends in its list of {count} clients: refused")
            step |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                break
        last += step >> 1 if step % 2 == 0 else -(step >> 1) - 1
        found.append(last)
    if any(one >= other for one, other in pairwise((-1, *found))):
        raise Refused(f"plan of {len(data)} bytes names its {count} clients out of order, or one twice: refused")
    if _pack_cohort(found) != data[:at]:  # steps with zeros at their end, or without an end
        raise Refused(f"plan of {len(data)} bytes spells its list of {count} clients in a second way: refused")
    return data[at:], tuple(found)


def _pack_cohort(cohort: Iterable[int]) -> bytes:
    """Steps from number to number, seven bits to a byte: the lowest of a step is its sign."""
    packed, count, last = bytearray(), 0, 0
    for number in cohort:
        step = 2 * (number - last) if number >= last else 2 * (last - number) - 1
        while step >= 0x80:
            packed.append(step & 0x7F | 0x80)
            step >>= 7
        packed.append(step)
        count, last = count + 1, number
    return COHORT.pack(LISTED, count) + bytes(packed)


def _seal(head: bytes, seat: bytes, *body: memoryview) -> Message:
    check = zlib.crc32(seat, zlib.crc32(head))
    for part in body:
        check = zlib.crc32(part, check)
    return Message(b"".join((head, CRC.pack(check), seat, *body)), len(head) + CRC.size + len(seat))


def _open(
    data: bytes, layout: struct.Struct, kind: int, name: str, bits: int = 32
) -> tuple[tuple[Any, ...], memoryview]:
    end = layout.size + CRC.size
    if len(data) < end:
        raise Refused(f"{name} of {len(data)} bytes is shorter than its header of {end}: refused")
    head, body = data[: layout.size], memoryview(data)[end:]
    magic, version, found, width, *fields = layout.unpack(head)
    if magic != MAGIC or version != VERSION or found != kind or width != bits:
        raise Refused(
            f"{name} does not begin as a hush message of version {VERSION} with {bits} bits a number: refused"
        )
    if CRC.unpack(data[layout.size : end])[0] != zlib.crc32(body, zlib.crc32(head)):
        raise Refused(f"{name} is corrupt, its check sum does not match: refused")
    return tuple(fields), body
