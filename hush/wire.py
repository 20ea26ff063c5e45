"""Real bytes: the two messages of a round. A message that is not exactly right is refused.

plan    header (48 bytes), the client's seat (4 bytes, only where the scheme has seats), live coordinates (4 bytes
        each, only where clients cannot derive them), weights (in the form of the scheme's downlink; none in round 1,
        where every client has them from the public seed)
upload  header (28 bytes), the numbers in the form that the scheme's last stage states (hush/packing.py)

The header and the seat are protocol, the rest is payload. Little-endian; a CRC-32 over all that precedes it ends the
header; it covers the payload too. An upload names the plan that it answers by the first 8 bytes of the
plan's BLAKE2b digest, so that an upload of another round or to another model is refused.
"""

import hashlib
import math
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hush.coordinates import Coordinates, sent_down
from hush.errors import Mistake
from hush.packing import FLOATS, Form
from hush.spec import Plan

PLAN = struct.Struct("<4sBBHIIIddd")
UPLOAD = struct.Struct("<4sBBHII8s")
CRC = SEAT = struct.Struct("<I")
MAGIC, VERSION = b"hush", 1
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
        """What an answer to this message names."""
        return hashlib.blake2b(self.data, digest_size=8).digest()


def pack_plan(plan: Plan, coordinates: Coordinates, form: Form = FLOATS) -> Message:
    """What travels down to a client; with seats the plan is one client's."""
    indices = plan.live if plan.live is not None and not coordinates.derivable else None
    values = plan.weights[sent_down(coordinates, plan.live)] if plan.round > 1 else plan.weights[:0]
    count = 0 if indices is None else indices.numel()
    clip = math.nan if plan.clip is None else plan.clip
    seat = b"" if plan.seats is None else SEAT.pack(*plan.seats)
    kind = 3 if seat else 1
    head = PLAN.pack(MAGIC, VERSION, kind, form.bits, plan.round, count, values.numel(), plan.cohort, plan.floor, clip)
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
) -> Plan:
    """At the client: the plan, from the initial weights and, where it can be derived, the live set."""
    fields, body = _open(data, PLAN, kind=3 if seated else 1, name="plan", bits=form.bits)
    round, count, size, cohort, floor, clip = fields
    seats = None
    if seated:
        if len(body) < SEAT.size:
            raise Mistake(f"plan of round {round} names no seat: refused")
        seats, body = np.array(SEAT.unpack(body[: SEAT.size]), np.int64), body[SEAT.size :]
    if len(body) != 4 * count + form.length(size):
        raise Mistake(
            f"plan of round {round} announces {count} coordinates and {size} weights, and has {len(body)} bytes of them"
        )
    if bool(count) == coordinates.derivable:
        raise Mistake(f"plan of round {round} names {count} coordinates, which these clients do not expect: refused")
    if count:
        live = torch.from_numpy(np.frombuffer(body[: 4 * count], "<u4").astype(np.int64))
    if live is not None and int(live.max()) >= start.numel():
        raise Mistake(f"plan of round {round} names a coordinate past the {start.numel()} of the model: refused")
    target = sent_down(coordinates, live)
    if size != (0 if round <= 1 else start[target].numel()):
        raise Mistake(f"plan of round {round} carries {size} weights, not one for each that travels: refused")
    weights = start.clone()
    if size:
        try:
            weights[target] = form.unpack(body[4 * count :], size)
        except Mistake as mistake:
            raise Mistake(f"plan of round {round}: {mistake}: refused") from None
    return Plan(round, weights, live, cohort, floor, None if math.isnan(clip) else clip, seats)


def pack_upload(row: Tensor, round: int, answers: bytes, form: Form = FLOATS) -> Message:
    """What travels up from one client: `answers` is the digest of the plan."""
    head = UPLOAD.pack(MAGIC, VERSION, 2, form.bits, round, row.numel(), answers)
    return _seal(head, b"", form.pack(row))


def unpack_upload(data: bytes, size: int, round: int, answers: bytes, form: Form = FLOATS) -> Tensor:
    """At the server: the numbers, if they are exactly what this round asked for."""
    (found, count, digest), body = _open(data, UPLOAD, kind=2, name="upload", bits=form.bits)
    if found != round:
        raise Mistake(f"upload of round {found} came in round {round}: refused")
    if digest != answers:
        raise Mistake(f"upload of round {round} answers another plan: refused")
    if count != size or len(body) != form.length(size):
        raise Mistake(
            f"upload of round {round} carries {count} numbers in {len(body)} bytes where {size} in"
            f" {form.length(size)} were expected: refused"
        )
    try:
        return form.unpack(body, size)
    except Mistake as mistake:
        raise Mistake(f"upload of round {round}: {mistake}: refused") from None


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
        raise Mistake(f"{name} of {len(data)} bytes is shorter than its header of {end}: refused")
    head, body = data[: layout.size], memoryview(data)[end:]
    magic, version, found, width, *fields = layout.unpack(head)
    if magic != MAGIC or version != VERSION or found != kind or width != bits:
        raise Mistake(
            f"{name} does not begin as a hush message of version {VERSION} with {bits} bits a number: refused"
        )
    if CRC.unpack(data[layout.size : end])[0] != zlib.crc32(body, zlib.crc32(head)):
        raise Mistake(f"{name} is corrupt, its check sum does not match: refused")
    return tuple(fields), body
