"""Tables of Skellam and discrete normal numbers: how a uniform word becomes an integer.

Noise is drawn by inverting its distribution, with no rejection. For k = 0, 1, 2, ... let t_k = floor(2^128 P(X > k)),
from integer arithmetic of more than 200 bits. A uniform u of 128 bits makes X < -k if u < t_k, and X > k if
2^128 - 1 - u < t_k: the two signs are alike to the last bit. Guarantee: of K numbers t_k above zero, the total
variation distance of one draw from its distribution is at most (K + 2) / 2^128, where K is 13.4 deviations (and 60, for
Skellam numbers of small variance): below 1e-34 up to a deviation of 200, below 1e-31 at the largest.
"""

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake

Words = npt.NDArray[np.uint64]
Whole = npt.NDArray[np.int32]

UNDECIDED = np.int32(-(2**31))  # by the first 16 bits alone
_BEYOND = 160  # numbers of a probability below 2^-160 are left out
# What tables are made for: the largest take a few seconds and some 40 MB.
SKELLAM, NORMAL = (1e-3, 2.0**28), (0.5, 2.0**17)


class DrawTable(NamedTuple):
    """How a word becomes a number: by its first 16 bits, or by the t_k, ascending, in two halves of 64 bits."""

    first: Whole
    high: Words
    low: Words


@lru_cache(maxsize=16)
def skellam(variance: float) -> DrawTable:
    """The difference of two Poisson numbers of mean variance / 2 each; P(k) = exp(-variance) I_k(variance).

    I_(k-1) = I_(k+1) + (2 k / variance) I_k, downwards from where P < 2^-160 (Bernstein). All terms are positive, so
    that errors do not grow (Miller's method).
    """
    _check("variance", variance, SKELLAM)
    above, below = variance.as_integer_ratio()
    most = _BEYOND * math.log(2)
    last = math.ceil(most / 3 + math.sqrt((most / 3) ** 2 + 2 * most * variance))
    after, weight, tail = 0, 1 << 200, 0
    tails = []
    for k in range(last, 0, -1):
        tail += weight
        tails.append(tail)
        after, weight = weight, after + 2 * k * weight * below // above
    return _table(tails[::-1], weight)


@lru_cache(maxsize=16)
def discrete_normal(deviation: float) -> DrawTable:
    """P(k) proportional to exp(-k^2 / (2 deviation^2))."""
    _check("deviation", deviation, NORMAL)
    with localcontext() as exact:
        exact.prec = 90
        ratio = int((-1 / (2 * Decimal(deviation) ** 2)).exp() * 2**256)
    square = ratio * ratio >> 256
    weight, weights = ratio, []
    while weight >> (256 - _BEYOND):
        weights.append(weight)
        ratio = ratio * square >> 256
        weight = weight * ratio >> 256
    tail, tails = 0, []
    for weight in reversed(weights):
        tail += weight
        tails.append(tail)
    return _table(tails[::-1], 1 << 256)


def _check(name: str, value: float, limits: tuple[float, float]) -> None:
    if not limits[0] <= value <= limits[1]:
        raise Mistake(
            f"{name}={value:g} of integer noise must be from {limits[0]:g} to {limits[1]:g}: take a"
            f" {'finer' if value < limits[0] else 'coarser'} grid"
        )


def _table(tails: list[int], middle: int) -> DrawTable:
    """From the weights of all numbers above k = 0, 1, 2, ..., and of 0."""
    total = middle + 2 * tails[0]
    limits = [limit for tail in reversed(tails) if (limit := (tail << 128) // total)]
    halves = np.frombuffer(b"".join(limit.to_bytes(16, "big") for limit in limits), ">u8").astype(np.uint64)
    high, low = np.ascontiguousarray(halves.reshape(-1, 2).T)
    begin = np.bincount((high >> np.uint64(48)).astype(np.int64), minlength=2**15)
    size = len(limits) - np.cumsum(begin)
    positive = np.where(begin == 0, size, UNDECIDED).astype(np.int32)
    negative = np.where(begin == 0, -size, UNDECIDED).astype(np.int32)
    return DrawTable(np.concatenate([negative, positive[::-1]]), high, low)
