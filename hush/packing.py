"""Forms: how the numbers of an upload become bytes, without loss.

A stage states the form of what it makes in its Spec. Rows are ordinary numbers, which add up; the form packs a row
to the bits that travel, and back to the very same row.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush import bits
from hush.errors import Mistake

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int32]


class Form(Protocol):
    """How a row of numbers is packed. `bits` tells the form in a message; no two kinds of form have the same."""

    @property
    def bits(self) -> int: ...

    def length(self, size: int) -> int:
        """The bytes of a row of `size` numbers."""
        ...

    def pack(self, row: Tensor) -> memoryview:
        """The row's bytes; a row that the form cannot hold is refused."""
        ...

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """The row of `size` numbers, from as many bytes as `length` says; others are refused."""
        ...


@dataclass(frozen=True)
class Floats:
    """Four bytes each."""

    bits: ClassVar[int] = 32

    def length(self, size: int) -> int:
        """Four bytes each."""
        return 4 * size

    def pack(self, row: Tensor) -> memoryview:
        """Without a copy where they already lie so."""
        return np.ascontiguousarray(row.numpy(), dtype="<f4").data

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """Numbers that are not finite are refused: in a sum they would leave nothing of the others."""
        _measure(self, body, size)
        found = _floats(body)
        if not np.isfinite(found).all():
            raise Mistake("there are numbers that are not finite")
        return torch.from_numpy(found)


FLOATS = Floats()


@dataclass(frozen=True)
class Codes:
    """One of 2^bits evenly spaced numbers around zero, two apart: -1, 1 for one bit; -3, -1, 1, 3 for two.

    The lowest number is code 0. The first code is in the highest bits of a byte; what is left of the last is 0.
    """

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (1, 2, 4, 8):
            raise Mistake(f"bits={self.bits} must be 1, 2, 4 or 8: what one number takes on the wire")

    @property
    def top(self) -> int:
        """The largest number."""
        return (1 << self.bits) - 1

    def length(self, size: int) -> int:
        """`bits` each, in whole bytes."""
        return (size * self.bits + 7) // 8

    def pack(self, row: Tensor) -> memoryview:
        """Codes side by side."""
        numbers = row.numpy()
        with np.errstate(invalid="ignore"):  # what is not a number is refused below
            codes = ((numbers + self.top) * 0.5).clip(0, self.top).astype(np.uint8)
        if not np.array_equal(self._numbers(codes), numbers):
            raise Mistake(
                f"an upload of {self.bits}-bit codes holds numbers that are none of them: put the stage that makes"
                " them last"
            )
        return _together(codes, self.bits).data

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """The codes' numbers; bits after the last code must be 0."""
        _measure(self, body, size)
        return torch.from_numpy(self._numbers(_apart(body, self.bits, size)))

    def _numbers(self, codes: Bytes) -> Numbers:
        return codes.astype(np.float32) * 2 - self.top


@dataclass(frozen=True)
class Buckets:
    """scale * (level / s), with one scale for each `bucket` numbers and levels -s..s, s = 2^(width-1) - 1.

    A bucket's scale is its largest magnitude, so that a row tells its scales: levels s and -s are the scale itself.
    The scales come first, 4 bytes each, then level + s of every number, `width` bits each, packed as Codes are.
    """

    width: int
    bucket: int

    def __post_init__(self) -> None:
        if self.width not in (2, 4, 8):
            raise Mistake(f"bits={self.width} must be 2, 4 or 8: what one number takes on the wire")
        if self.bucket < 1:
            raise Mistake(f"bucket={self.bucket} must be at least 1: how many numbers have one scale")

    @property
    def bits(self) -> int:
        """Apart from those of Codes, whose numbers are others."""
        return 256 + self.width

    @property
    def top(self) -> int:
        """s, the highest level."""
        return (1 << (self.width - 1)) - 1

    def length(self, size: int) -> int:
        """The scales and the levels, in whole bytes."""
        return 4 * self._count(size) + (size * self.width + 7) // 8

    def scales(self, numbers: Numbers) -> Numbers:
        """The largest magnitude of each bucket."""
        found: Numbers = np.maximum.reduceat(np.abs(numbers), np.arange(0, numbers.size, self.bucket))
        return found

    def levels(self, numbers: Numbers, scales: Numbers) -> Numbers:
        """number / scale * s, not yet whole; exactly s and -s for the scale itself."""
        return numbers / self._spread(scales, numbers.size) * np.float32(self.top)

    def values(self, levels: Numbers, scales: Numbers) -> Numbers:
        """level / s * scale in float32: what the stage makes and the server reads. There is no negative zero."""
        return levels / np.float32(self.top) * self._spread(scales, levels.size) + np.float32(0)

    def pack(self, row: Tensor) -> memoryview:
        """Scales, then levels."""
        numbers = np.ascontiguousarray(row.numpy(), dtype=np.float32)
        scales = self.scales(numbers)
        if np.isfinite(scales).all():
            levels = np.rint(self.levels(numbers, scales))
            if np.array_equal(self.values(levels, scales).view(np.uint32), numbers.view(np.uint32)):
                codes = (levels + self.top).astype(np.uint8)
                return np.concatenate([scales.astype("<f4").view(np.uint8), _together(codes, self.width)]).data
        raise Mistake(
            f"an upload in buckets of {self.bucket} holds numbers that are none of their {2 * self.top + 1} levels:"
            " put the stage that makes them last"
        )

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """Only of levels in their range, and of scales that are the largest magnitudes."""
        _measure(self, body, size)
        end = 4 * self._count(size)
        scales, codes = _floats(body[:end]), _apart(body[end:], self.width, size)
        if not np.isfinite(scales).all() or np.signbit(scales).any():
            raise Mistake("a bucket's scale is negative or not finite")
        if codes.max(initial=0) > 2 * self.top:
            raise Mistake(f"a code is past the last of {2 * self.top + 1} levels")
        numbers = self.values(codes.astype(np.float32) - self.top, scales)
        if not np.array_equal(self.scales(numbers), scales):
            raise Mistake("a bucket's scale is not its largest magnitude")
        return torch.from_numpy(numbers)

    def _count(self, size: int) -> int:
        return -(-size // self.bucket)

    def _spread(self, scales: Numbers, size: int) -> Numbers:
        """The scale of every number; 1 for a bucket of zeros, in which every level but 0 is thus wrong."""
        return np.repeat(np.where(scales > 0, scales, np.float32(1)), min(self.bucket, max(1, size)))[:size]


@dataclass(frozen=True)
class Few:
    """At most `count` numbers are not zero: their positions, ascending (4 bytes each), then themselves (4 bytes each).

    With fewer, the first zeros of the row travel too: all uploads have one size.
    """

    count: int
    bits: ClassVar[int] = 64

    def __post_init__(self) -> None:
        if self.count < 1:
            raise Mistake(f"count={self.count} must be at least 1: how many numbers travel")

    def length(self, size: int) -> int:
        """Eight bytes for each that travels."""
        return 8 * self.count

    def pack(self, row: Tensor) -> memoryview:
        """Positions, then numbers."""
        numbers = np.ascontiguousarray(row.numpy(), dtype=np.float32)
        places = np.flatnonzero(numbers.view(np.uint32) != 0)  # by its bits: -0.0 is something
        if not places.size <= self.count <= numbers.size:
            raise Mistake(
                f"an upload of {self.count} numbers holds {places.size} of {numbers.size} that are not zero: put the"
                " stage that picks them last"
            )
        if places.size < self.count:  # among the first `count` there are enough zeros
            zeros = np.flatnonzero(numbers[: self.count].view(np.uint32) == 0)
            places = np.sort(np.concatenate([places, zeros[: self.count - places.size]]))
        found = numbers[places]
        if not np.isfinite(found).all():
            raise Mistake("an upload of few numbers holds one that is not finite: put the stage that picks them last")
        return np.concatenate([places.astype("<u4").view(np.uint8), found.astype("<f4").view(np.uint8)]).data

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """The row, with zeros elsewhere."""
        _measure(self, body, size)
        places = np.frombuffer(body[: 4 * self.count], "<u4").astype(np.int64)
        found = _floats(body[4 * self.count :])
        if (np.diff(places) <= 0).any() or places[-1] >= size:
            raise Mistake(f"its positions are not ascending, or past the {size} numbers")
        if not np.isfinite(found).all():
            raise Mistake("it holds a number that is not finite")
        row = torch.zeros(size)
        row.numpy()[places] = found
        return row


@dataclass(frozen=True)
class Integers:
    """Whole numbers from -2^(width-1) to 2^(width-1) - 1, as int32 rows: each modulo 2^width, packed as in bits.py."""

    width: int

    def __post_init__(self) -> None:
        if not 2 <= self.width <= 32:
            raise Mistake(f"bits={self.width} must be from 2 to 32: what one whole number takes on the wire")

    @property
    def bits(self) -> int:
        """Apart from those of the other forms."""
        return 512 + self.width

    def length(self, size: int) -> int:
        """`width` bits each, in whole bytes."""
        return bits.length(size, self.width)

    def centre(self, numbers: npt.NDArray[Any]) -> Whole:
        """Modulo 2^width, around 0."""
        shift = np.int32(32 - self.width)
        centred: Whole = (numbers.astype(np.int32, copy=False) << shift) >> shift
        return centred

    def pack(self, row: Tensor) -> memoryview:
        """Numbers side by side."""
        numbers = row.numpy()
        with np.errstate(invalid="ignore"):  # what no int32 holds is refused below
            whole = self.centre(numbers)
        if not np.array_equal(whole, numbers):
            raise Mistake(
                f"an upload of {self.width}-bit whole numbers holds some that are none: put the stage that makes them"
                " last"
            )
        return memoryview(bits.pack(whole.astype(bits.word(self.width)), self.width))

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """The numbers; bits after the last one must be 0."""
        _measure(self, body, size)
        return torch.from_numpy(self.centre(bits.unpack(body, size, self.width)))


def _measure(form: Form, body: memoryview, size: int) -> None:
    if body.nbytes != form.length(size):
        raise Mistake(f"{size} numbers take {form.length(size)} bytes and not {body.nbytes}")


def _floats(body: memoryview) -> Numbers:
    """A copy, which may be written to."""
    return np.array(np.frombuffer(body, "<f4"), np.float32)


def _together(codes: Bytes, bits: int) -> Bytes:
    """Codes of so many bits side by side, the first in the highest bits; what is left of the last byte is 0."""
    if bits == 1:
        return np.packbits(codes)
    each = 8 // bits
    packed = np.zeros(-(-codes.size // each), np.uint8)
    for place in range(each):
        found = codes[place::each]
        packed[: found.size] |= found << (8 - (place + 1) * bits)
    return packed


def _apart(body: memoryview, bits: int, size: int) -> Bytes:
    """The codes again; bits after the last one are refused."""
    packed, each = np.frombuffer(body, np.uint8), 8 // bits
    if bits == 1:
        codes = np.unpackbits(packed)
    else:
        codes = np.empty(packed.size * each, np.uint8)
        for place in range(each):
            codes[place::each] = (packed >> (8 - (place + 1) * bits)) & (2**bits - 1)
    if codes[size:].any():
        raise Mistake(f"there are bits after its {size} numbers")
    return codes[:size]
