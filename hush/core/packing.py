"""Forms: how the numbers of an upload become bytes, without loss.

A stage states the form of what it makes in its Spec. Rows are ordinary numbers, which add up; the form packs a row
to the bits that travel, and back to the very same row.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core.codes import Bytes, pack_codes, unpack_codes
from hush.errors import Mistake

Numbers = npt.NDArray[np.float32]


class Form(Protocol):
    """How a row of numbers is packed. `bits` names the form in a message; no two kinds of form have the same.

    coded    only some values can be written, so that a row which is scaled or gets noise has no longer this form
    modulus  numbers are integers modulo 2^modulus; None: they are not
    """

    @property
    def bits(self) -> int: ...
    @property
    def coded(self) -> bool: ...
    @property
    def modulus(self) -> int | None: ...

    def added(self, clients: int) -> int | None:
        """The bits in which the rows of so many clients add up exactly as integers; None: they do not."""
        ...

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

    coded: ClassVar[bool] = False
    modulus: ClassVar[None] = None

    bits: ClassVar[int] = 32

    def added(self, clients: int) -> None:
        """They are no integers."""

    def length(self, size: int) -> int:
        """Four bytes each."""
        return 4 * size

    def pack(self, row: Tensor) -> memoryview:
        """Without a copy where they already lie so."""
        return np.ascontiguousarray(row.numpy(), dtype="<f4").data

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """Numbers that are not finite are refused: in a sum they would leave nothing of the others."""
        measure(self, body, size)
        found = _floats(body)
        if not np.isfinite(found).all():
            raise Mistake("there are numbers that are not finite")
        return torch.from_numpy(found)


FLOATS = Floats()


@dataclass(frozen=True)
class Codes:
    """One of 2^bits evenly spaced numbers around zero, at a distance of two: -1, 1 for one bit; -3, -1, 1, 3 for two.

    The lowest number is code 0. The first code is in the highest bits of a byte; what is left of the last is 0.
    """

    coded: ClassVar[bool] = True
    modulus: ClassVar[None] = None

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (1, 2, 4, 8):
            raise Mistake(f"bits={self.bits} must be 1, 2, 4 or 8: what one number takes on the wire")

    @property
    def top(self) -> int:
        """The largest number."""
        return (1 << self.bits) - 1

    def added(self, clients: int) -> int:
        """As many as the largest sum has, and its sign."""
        return max(2, (self.top * clients).bit_length() + 1)

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
        return pack_codes(codes, self.bits).data

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """The codes' numbers; bits after the last code must be 0."""
        measure(self, body, size)
        return torch.from_numpy(self._numbers(unpack_codes(body, self.bits, size)))

    def _numbers(self, codes: Bytes) -> Numbers:
        return codes.astype(np.float32) * 2 - self.top


@dataclass(frozen=True)
class Buckets:
    """scale * (level / s), with one scale for each `bucket` numbers and levels -s..s, s = 2^(width-1) - 1.

    A bucket's scale is its largest magnitude, so that a row contains its scales: levels s and -s are the scale itself.
    The scales come first, 4 bytes each, then level + s of every number, `width` bits each, packed as Codes are.
    """

    coded: ClassVar[bool] = True
    modulus: ClassVar[None] = None

    width: int
    bucket: int

    def __post_init__(self) -> None:
        if self.width not in (2, 4, 8):
            raise Mistake(f"bits={self.width} must be 2, 4 or 8: what one number takes on the wire")
        if self.bucket < 1:
            raise Mistake(f"bucket={self.bucket} must be at least 1: how many numbers have one scale")

    @property
    def bits(self) -> int:
        """Distinct from those of Codes, whose numbers are others."""
        return 256 + self.width

    @property
    def top(self) -> int:
        """s, the highest level."""
        return (1 << (self.width - 1)) - 1

    def added(self, clients: int) -> None:
        """They are no integers."""

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
                return np.concatenate([scales.astype("<f4").view(np.uint8), pack_codes(codes, self.width)]).data
        raise Mistake(
            f"an upload in buckets of {self.bucket} holds numbers that are none of their {2 * self.top + 1} levels:"
            " put the stage that makes them last"
        )

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """Only of levels in their range, and of scales that are the largest magnitudes."""
        measure(self, body, size)
        end = 4 * self._count(size)
        scales, codes = _floats(body[:end]), unpack_codes(body[end:], self.width, size)
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

    coded: ClassVar[bool] = False
    modulus: ClassVar[None] = None

    count: int
    bits: ClassVar[int] = 64

    def __post_init__(self) -> None:
        if self.count < 1:
            raise Mistake(f"count={self.count} must be at least 1: how many numbers travel")

    def added(self, clients: int) -> None:
        """They are no integers."""

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
        measure(self, body, size)
        places = np.frombuffer(body[: 4 * self.count], "<u4").astype(np.int64)
        found = _floats(body[4 * self.count :])
        if (np.diff(places) <= 0).any() or places[-1] >= size:
            raise Mistake(f"its positions are not ascending, or past the {size} numbers")
        if not np.isfinite(found).all():
            raise Mistake("it holds a number that is not finite")
        row = torch.zeros(size)
        row.numpy()[places] = found
        return row


def measure(form: Form, body: memoryview, size: int) -> None:
    """Refuse a body that is not as long as the form says."""
    if body.nbytes != form.length(size):
        raise Mistake(f"{size} numbers take {form.length(size)} bytes and not {body.nbytes}")


def _floats(body: memoryview) -> Numbers:
    """A copy, which may be written to."""
    return np.array(np.frombuffer(body, "<f4"), np.float32)
