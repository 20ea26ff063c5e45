"""Integers modulo 2^b: how they are packed, and what their sum is."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core.packing import measure
from hush.errors import Mistake
from hush.secure import bits

Whole = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Integers:
    """Integers from -2^(width-1) to 2^(width-1) - 1, as int32 rows: modulo 2^width, as in hush.secure.bits."""

    coded: ClassVar[bool] = True

    width: int

    def __post_init__(self) -> None:
        if not 2 <= self.width <= 32:
            raise Mistake(f"bits={self.width} must be from 2 to 32: what one integer takes on the wire")

    @property
    def bits(self) -> int:
        """Distinct from those of the other forms."""
        return 512 + self.width

    @property
    def modulus(self) -> int:
        """Of every number, and of every sum."""
        return self.width

    def added(self, clients: int) -> int:
        """Sums wrap: as many as each number has."""
        return self.width

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
                f"an upload of {self.width}-bit integers holds some that are none: put the stage that makes them last"
            )
        return memoryview(bits.pack(whole.astype(bits.word(self.width)), self.width))

    def unpack(self, body: memoryview, size: int) -> Tensor:
        """The numbers; bits after the last one must be 0."""
        measure(self, body, size)
        return torch.from_numpy(self.centre(bits.unpack(body, size, self.width)))


def centred(body: Tensor, bits: int) -> Tensor:
    """A sum modulo 2^bits, in [-2^(bits-1), 2^(bits-1)): as float64, in which it is exact."""
    spare = 64 - bits
    return body.to(torch.int64, copy=True).bitwise_left_shift_(spare).bitwise_right_shift_(spare).double()
