"""Integers from the key stream of a cipher: Skellam and discrete normal noise, and stochastic rounding.

Noise is drawn by inverting its distribution (see tables.py) at a uniform u of 128 bits. Of u its first 16 bits decide,
by a table, unless a t_k begins with them; only then the other 112 are drawn.

Noise is read from a row's stream (see keystream.py) in chunks of WIDTH numbers: 2 bytes for each, then, from the block
on that WIDTH numbers would have led to, 16 bytes for each undecided one in order. Rounding takes 4 bytes for each
number, and the tries of a row are 2^48 blocks apart.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.random.keystream import BLOCK, KeyStream
from hush.random.tables import UNDECIDED, DrawTable, Whole, Words

# A part of the stream: another value is other noise. Large enough to hide the cost of the calls, small as the cache.
WIDTH = 2**15


def add_noise(x: Tensor, table: DrawTable, key: bytes, rows: Sequence[int]) -> Tensor:
    """Add independent numbers to the int32 rows of x, in place, modulo 2^32; those of row i are of stream rows[i]."""
    stream = KeyStream(key)
    words, drawn = np.empty(WIDTH, "<u2"), np.empty(WIDTH, np.int32)
    for line, row in zip(x.numpy(), rows, strict=True):
        for start in range(0, line.size, WIDTH):
            part = line[start : start + WIDTH]
            block = start * 18 // BLOCK
            part += _draw(stream, row, block, table, words[: part.size], drawn[: part.size])
    return x


def round_within(x: Tensor, step: float, limit: float, tries: int, key: bytes, rows: Sequence[int]) -> Tensor:
    """x / step as integers whose squares add up to at most `limit` < 2^52 in each row, as int32 in x's own memory.

    floor(x / step + u) with u uniform: the mean is right to 2^-26. A row beyond the limit is rounded again, at most
    `tries` times in all, and then towards zero. A row beyond it even so, or not finite, becomes zero.
    """
    stream = KeyStream(key)
    found = x.float().view(torch.int32)
    rounded = np.empty(x.shape[1], np.int32)
    for line, out, row in zip(x.numpy(), found.numpy(), rows, strict=True):
        for attempt in range(tries):
            square = _round(line, step, rounded, stream, row, attempt << 48)
            if square <= limit or not math.isfinite(square):
                break
        else:
            square = _round(line, step, rounded, None, row, 0)
        out[:] = rounded if square <= limit else 0
    return found


def _draw(
    stream: KeyStream, row: int, block: int, table: DrawTable, words: npt.NDArray[np.uint16], drawn: Whole
) -> Whole:
    """The numbers of a chunk, in `drawn`."""
    stream.fill(words, row, block)
    np.take(table.first, words, out=drawn, mode="clip")  # no index is out of range, and "raise" is slower
    undecided = np.flatnonzero(drawn == UNDECIDED)
    if undecided.size:
        more = np.empty(2 * undecided.size, "<u8")
        stream.fill(more, row, block + WIDTH * 2 // BLOCK)
        drawn[undecided] = _find(table, words[undecided].astype(np.uint64), more[::2], more[1::2])
    return drawn


def _find(table: DrawTable, first: Words, second: Words, third: Words) -> Whole:
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


def _round(line: npt.NDArray[Any], step: float, out: Whole, stream: KeyStream | None, row: int, block: int) -> float:
    """Round a row, stochastically or without a stream towards zero; the sum of the squares, exact below 2^53."""
    square = 0.0
    for start in range(0, line.size, WIDTH):
        ratio = np.divide(line[start : start + WIDTH], step, dtype=np.float64)
        if stream is None:
            np.trunc(ratio, out=ratio)
        else:
            words = np.empty(ratio.size, "<u4")
            stream.fill(words, row, block + start * 4 // BLOCK)
            ratio += words * 2.0**-32
            np.floor(ratio, out=ratio)
        square += float(np.einsum("i,i->", ratio, ratio))
        with np.errstate(invalid="ignore"):  # a number that no int32 holds is beyond the limit
            out[start : start + WIDTH] = ratio
    return square
