"""Normal numbers from the key stream of a cipher, for simulated and deployed noise alike.

A row's stream (see keystream.py) is read in chunks of CHUNK numbers. A chunk of w pairs takes w words of 64 bits for
the radii, then w words of 32 bits for the angles, signed and little-endian. The words a and b make

    radius = sqrt(-2 ln(|a| / 2^63)),   angle = pi/2 * b / 2^31
    x = sign(a) radius cos(angle),      y = radius sin(angle)            (Box and Muller 1958)

First come the w numbers x of a chunk, then its y. None is beyond 9.35 deviations, which a normal number is
with probability 1e-20. The bits depend on key and row alone, whatever the block and the thread, as long as
processor and torch stay the same; elsewhere the last bits of float32 may differ.

`precision` is that of the arithmetic. In float32, twice as fast, small radii lie on a grid: |a| near 2^63 is known to
2^-24 of it, so a pair is zero with probability 2^-25. That is enough for a simulation. Noise that protects somebody is
made in float64 and rounded once, so that its numbers show no grid to one who knows what they were added to.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.random.keystream import BLOCK, KeyStream

# A part of the stream: another value is other noise. Large enough to hide the cost of the calls, small as memory.
CHUNK = 2**18

# cos(pi/2 z) and sin(pi/2 z) / z as polynomials in z^2 on [-1, 1], interpolated at Chebyshev's points, the highest
# power by itself. Errors of 2e-10 and 7e-9, below the rounding of float32, at half the time of torch.cos and torch.sin.
_COS = [0.999999999779154, -1.2337005342322365, 0.2536693221726959, -0.02086268670922735, 0.0009177229241995567]
_SIN = [1.5707963200386017, -0.6459637595835394, 0.0796899183290285, -0.0046741438381517775]
_COSINE = [torch.tensor(c, dtype=torch.float64) for c in _COS], -2.3824152439014107e-05
_SINE = [torch.tensor(c, dtype=torch.float64) for c in _SIN], 0.0001516717036640896
_ZERO, _TINY = torch.tensor([0.0, 2.0**-126], dtype=torch.float64)


def add_normals(x: Tensor, scale: float, key: bytes, rows: Sequence[int], precision: torch.dtype) -> Tensor:
    """Add scale * N to x, in place: independent standard normal numbers, those of row i from the stream of rows[i]."""
    size = x.shape[1]
    together = min(len(rows), max(1, CHUNK // max(1, size)))
    stream = KeyStream(key)
    # Made once and used for each chunk, while it is in the cache.
    words = np.empty((together, 12 * _pairs(size)), np.uint8)
    scratch = torch.empty(5, together, _pairs(size), dtype=precision)
    for first in range(0, len(rows), max(1, together)):
        for start in range(0, size, CHUNK):
            block = slice(first, first + together), slice(start, start + CHUNK)
            _fill(words, stream, rows[block[0]], start, _pairs(size - start))
            _add(x[block], scale, words, scratch)
    return x


def _pairs(size: int) -> int:
    """In a chunk that is to hold `size` numbers, or CHUNK: in whole blocks of the cipher."""
    return (min(CHUNK, size) + 7) // 8 * 4


def _fill(words: npt.NDArray[np.uint8], stream: KeyStream, rows: Sequence[int], start: int, pairs: int) -> None:
    """The key stream of these rows for the chunk that begins with the number `start`: 6 bytes a number."""
    for line, row in zip(words, rows, strict=False):
        stream.fill(line[: 12 * pairs], row, start * 6 // BLOCK)


def _add(x: Tensor, scale: float, words: npt.NDArray[np.uint8], scratch: Tensor) -> None:
    """One chunk of some rows, of which the key stream is in `words`."""
    count, pairs = len(x), _pairs(x.shape[1])
    a, b, radius, square, factor = scratch[:, :count, :pairs]
    a.copy_(torch.from_numpy(words[:count, : 8 * pairs].view("<i8")))
    b.copy_(torch.from_numpy(words[:count, 8 * pairs : 12 * pairs].view("<i4")))
    # 2^-126 keeps the logarithm finite where a is 0, and is lost in rounding for all but the smallest a.
    torch.addcmul(_TINY, a, a, value=2.0**-126, out=radius).log_().neg_().sqrt_()
    torch.addcmul(_ZERO, b, b, value=2.0**-62, out=square)
    _polynomial(*_COSINE, square, factor).copysign_(a)
    _add_product(x[:, :pairs], scale, radius, factor)
    _polynomial(*_SINE, square, factor).mul_(b)  # 2^31 times the sine
    _add_product(x[:, pairs:], scale * 2.0**-31, radius, factor)


def _add_product(x: Tensor, scale: float, radius: Tensor, factor: Tensor) -> None:
    used = slice(x.shape[1])
    torch.addcmul(x, radius[:, used], factor[:, used], value=scale, out=x)


def _polynomial(coefficients: list[Tensor], last: float, x: Tensor, out: Tensor) -> Tensor:
    torch.add(coefficients[-1], x, alpha=last, out=out)
    for coefficient in coefficients[-2::-1]:
        torch.addcmul(coefficient, out, x, out=out)
    return out
