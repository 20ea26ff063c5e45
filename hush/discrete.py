"""Whole numbers from the key stream of a cipher: Skellam and discrete normal noise, and rounding by chance.

Noise is drawn by inverting its distribution, with no rejection. For k = 0, 1, 2, ... let t_k = floor(2^128 P(X > k)),
from integer arithmetic of more than 200 bits. A uniform u of 128 bits makes X < -k if u < t_k, and X > k if
2^128 - 1 - u < t_k: the two signs are alike to the last bit. Guarantee: of K numbers t_k above zero, the total
variation distance of one draw from its distribution is at most (K + 2) / 2^128, where K is 13.4 deviations (and 60, for
Skellam numbers of small variance): below 1e-34 up to a deviation of 200, below 1e-31 at the largest.

Of u its first 16 bits decide, by a table, unless a t_k begins with them; only then the other 112 are drawn.

A row's stream is AES-256 in counter mode; the counter is the row's number (8 bytes) and a count (8 bytes), so that
rows never meet. Noise is read in chunks of WIDTH numbers: 2 bytes for each, then, from the count on that WIDTH numbers
would have led to, 16 for each undecided one in order. Rounding takes 4 bytes for each number, and the tries of a row
are 2^48 blocks apart. The bits depend on key and row alone, whatever the block and the thread.
"""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from torch import Tensor

from hush.errors import Mistake

Words = npt.NDArray[np.uint64]
Whole = npt.NDArray[np.int32]

# A part of the stream: another value is other noise. Large enough to hide the cost of the calls, small as the cache.
WIDTH = 2**15
_ZEROS = memoryview(bytes(16 * WIDTH))
_BEYOND = 160  # numbers of a chance below 2^-160 are left out
_UNDECIDED = np.int32(-(2**31))
# What tables are made for: the largest take a few seconds and some 40 MB.
SKELLAM, NORMAL = (1e-3, 2.0**28), (0.5, 2.0**17)


class Table(NamedTuple):
    """How a word becomes a number: by its first 16 bits, or by the t_k, ascending, in two halves of 64 bits."""

    first: Whole
    high: Words
    low: Words


@lru_cache(maxsize=16)
def skellam(variance: float) -> Table:
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
def discrete_normal(deviation: float) -> Table:
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


def add_noise(x: Tensor, table: Table, key: bytes, rows: Sequence[int]) -> Tensor:
    """Add independent numbers to the int32 rows of x, in place, modulo 2^32; those of row i are of stream rows[i]."""
    stream = _stream(key)
    words, drawn = np.empty(WIDTH, "<u2"), np.empty(WIDTH, np.int32)
    for line, row in zip(x.numpy(), rows, strict=True):
        for start in range(0, line.size, WIDTH):
            part = line[start : start + WIDTH]
            count = (row % 2**64 << 64) + start * 18 // 16
            part += _draw(stream, count, table, words[: part.size], drawn[: part.size])
    return x


def round_within(x: Tensor, step: float, limit: float, tries: int, key: bytes, rows: Sequence[int]) -> Tensor:
    """x / step as whole numbers whose squares add up to at most `limit` < 2^52 in each row, as int32 in x's own memory.

    floor(x / step + u) with u uniform: the mean is right to 2^-26. A row beyond the limit is rounded again, at most
    `tries` times in all, and then towards zero. A row beyond it even so, or not finite, becomes zero.
    """
    stream = _stream(key)
    found = x.float().view(torch.int32)
    rounded = np.empty(x.shape[1], np.int32)
    for line, out, row in zip(x.numpy(), found.numpy(), rows, strict=True):
        for attempt in range(tries):
            square = _round(line, step, rounded, stream, (row % 2**64 << 64) + (attempt << 48))
            if square <= limit or not math.isfinite(square):
                break
        else:
            square = _round(line, step, rounded, None, 0)
        out[:] = rounded if square <= limit else 0
    return found


def _check(name: str, value: float, limits: tuple[float, float]) -> None:
    if not limits[0] <= value <= limits[1]:
        raise Mistake(
            f"{name}={value:g} of whole noise must be from {limits[0]:g} to {limits[1]:g}: take a"
            f" {'finer' if value < limits[0] else 'coarser'} grid"
        )


def _table(tails: list[int], middle: int) -> Table:
    """From the weights of all numbers above k = 0, 1, 2, ..., and of 0."""
    total = middle + 2 * tails[0]
    limits = [limit for tail in reversed(tails) if (limit := (tail << 128) // total)]
    halves = np.frombuffer(b"".join(limit.to_bytes(16, "big") for limit in limits), ">u8").astype(np.uint64)
    high, low = np.ascontiguousarray(halves.reshape(-1, 2).T)
    begin = np.bincount((high >> np.uint64(48)).astype(np.int64), minlength=2**15)
    size = len(limits) - np.cumsum(begin)
    positive = np.where(begin == 0, size, _UNDECIDED).astype(np.int32)
    negative = np.where(begin == 0, -size, _UNDECIDED).astype(np.int32)
    return Table(np.concatenate([negative, positive[::-1]]), high, low)


def _stream(key: bytes) -> Any:
    return Cipher(AES256(key), CTR(bytes(16))).encryptor()


def _fill(stream: Any, count: int, words: npt.NDArray[Any]) -> None:
    """The key stream from this counter on."""
    stream.reset_nonce(count.to_bytes(16, "big"))
    stream.update_into(_ZEROS[: words.nbytes], words.view(np.uint8))


def _draw(stream: Any, count: int, table: Table, words: npt.NDArray[np.uint16], drawn: Whole) -> Whole:
    """The numbers of a chunk, in `drawn`."""
    _fill(stream, count, words)
    np.take(table.first, words, out=drawn, mode="clip")  # no index is out of range, and "raise" is slower
    undecided = np.flatnonzero(drawn == _UNDECIDED)
    if undecided.size:
        more = np.empty(2 * undecided.size, "<u8")
        _fill(stream, count + WIDTH * 2 // 16, more)
        drawn[undecided] = _find(table, words[undecided].astype(np.uint64), more[::2], more[1::2])
    return drawn


def _find(table: Table, first: Words, second: Words, third: Words) -> Whole:
    """The numbers of words of 128 bits: 16, 64, and the upper 48 of another 64."""
    high = first << np.uint64(48) | second >> np.uint64(16)
    low = second << np.uint64(48) | third >> np.uint64(16)
    positive = high >> np.uint64(63) != 0
    high[positive] ^= np.uint64(2**64 - 1)
    low[positive] ^= np.uint64(2**64 - 1)
    reached = np.searchsorted(table.high, high, "right")
    for i in np.flatnonzero(table.high[reached - 1] == high):  # the lower half decides, once in 2^64 / K
        start = np.searchsorted(table.high, high[i], "left")
        reached[i] = start + np.searchsorted(table.low[start : reached[i]], low[i], "right")
    size = (table.high.size - reached).astype(np.int32)
    return np.where(positive, size, -size)


def _round(line: npt.NDArray[Any], step: float, out: Whole, stream: Any, count: int) -> float:
    """Round a row, by chance or without a stream towards zero; the sum of the squares, exact below 2^53."""
    square = 0.0
    for start in range(0, line.size, WIDTH):
        ratio = np.divide(line[start : start + WIDTH], step, dtype=np.float64)
        if stream is None:
            np.trunc(ratio, out=ratio)
        else:
            words = np.empty(ratio.size, "<u4")
            _fill(stream, count + start * 4 // 16, words)
            ratio += words * 2.0**-32
            np.floor(ratio, out=ratio)
        square += float(np.einsum("i,i->", ratio, ratio))
        with np.errstate(invalid="ignore"):  # a number that no int32 holds is beyond the limit
            out[start : start + WIDTH] = ratio
    return square
