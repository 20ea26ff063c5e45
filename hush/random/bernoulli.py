"""Coins from the key stream of a cipher: biased ones that a client sends, fair ones for those who are absent.

A biased coin shows heads if a word of 32 bits is below 2^31 + trunc(2^32 a), |a| <= edge < 1/2: its probability is
1/2 + a with a rounded towards zero, exactly. Of the word its highest byte is drawn first; it decides unless it equals
that of the threshold, and only then the other three are drawn.

A row's stream (see keystream.py) is read in chunks of `width` numbers. A chunk of w numbers and m coins takes m rows of
w bytes, a coin of each number after the other, w rounded up to a block of the cipher; then, from the block on that m
`width` bytes would have led to, a word of 32 bits for each undecided coin in this order, of which 24 are used.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.random.keystream import BLOCK, KeyStream

# Parts of the stream: other values are other coins. Large enough to hide the cost of the calls, small as the cache.
WIDEST, FIRST = 2**15, 2**18
FAIR, LAYERS = 2**13, 31  # of fair coins, numbers and bytes of each at a time: 31 bytes have 248 bits, which fit a byte

_PAIRS, _FOURS, _EIGHTS = (np.uint64(0x0101010101010101 * low) for low in (0x55, 0x33, 0x0F))


def toss(x: Tensor, scale: float, edge: float, coins: int, key: bytes, rows: Sequence[int]) -> Tensor:
    """Replace every number of x, in place, by heads minus tails of `coins` coins of probability 1/2 + scale * number.

    The product is cut at +-edge, and 0 where it is not a number. At most 255 coins. Row i is tossed by the stream of
    rows[i].
    """
    stream = KeyStream(key)
    width = _width(coins)
    # Made once and used for each chunk, while it is in the cache.
    room = np.empty(coins * width, np.uint8), np.empty((2, coins * width), np.bool_)
    for line, row in zip(x.numpy(), rows, strict=True):
        for start in range(0, line.size, width):
            part = line[start : start + width]
            limit = _thresholds(part, scale, edge)
            block = start * coins * 5 // BLOCK  # a byte and a word for each coin
            heads = _heads(stream, row, block, limit, coins, *room)
            np.multiply(heads, 2, out=part, dtype=part.dtype)
            part -= coins
    return x


def fair(size: int, coins: int, key: bytes) -> Tensor:
    """For each of `size` sums, heads minus tails of `coins` fair coins: counted bits, one for each coin."""
    stream = KeyStream(key)
    layers, spare = math.ceil(coins / 8), -coins % 8
    heads = np.zeros(size, np.int64)
    for start in range(0, size, FAIR):
        part = heads[start : start + FAIR]
        wide = math.ceil(part.size / BLOCK) * BLOCK
        for first in range(0, layers, LAYERS):
            words = np.empty((min(LAYERS, layers - first), wide), np.uint8)
            stream.fill(words.ravel(), first, start * LAYERS // BLOCK)
            if first + LAYERS >= layers:
                words[-1] >>= np.uint8(spare)
            _count_bits(words.view(np.uint64))
            part += words.sum(axis=0, dtype=np.uint8)[: part.size]
    return torch.from_numpy(2 * heads - coins).double()


def _width(coins: int) -> int:
    """How many numbers a chunk has: whole blocks of the cipher."""
    return min(WIDEST, FIRST // coins // BLOCK * BLOCK)


def _thresholds(x: npt.NDArray[Any], scale: float, edge: float) -> npt.NDArray[np.uint32]:
    """2^32 times the probability of heads."""
    bias = np.multiply(x, scale * 2.0**32, dtype=np.float64)
    np.clip(bias, -edge * 2.0**32, edge * 2.0**32, out=bias)
    bias[np.isnan(bias)] = 0.0  # as an integer it could be anything
    limit: npt.NDArray[np.uint32] = bias.astype(np.int32).view(np.uint32)
    limit ^= np.uint32(2**31)
    return limit


def _heads(
    stream: KeyStream,
    row: int,
    block: int,
    limit: npt.NDArray[np.uint32],
    coins: int,
    words: npt.NDArray[np.uint8],
    marks: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint8]:
    """How many of each number's coins are below its threshold."""
    size, wide = limit.size, math.ceil(limit.size / BLOCK) * BLOCK
    stream.fill(words[: coins * wide], row, block)
    drawn = words[: coins * wide].reshape(coins, wide)[:, :size]
    below, even = marks[:, : coins * size].reshape(2, coins, size)
    high = (limit >> np.uint32(24)).astype(np.uint8)
    np.less(drawn, high, out=below)
    np.equal(drawn, high, out=even)
    undecided = np.flatnonzero(even)
    if undecided.size:
        rest = np.empty(undecided.size, "<u4")
        stream.fill(rest, row, block + _width(coins) * coins // BLOCK)
        below.reshape(-1)[undecided] = (rest >> 8) < (limit[undecided % size] & np.uint32(2**24 - 1))
    heads: npt.NDArray[np.uint8] = below.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return heads


def _count_bits(words: npt.NDArray[np.uint64]) -> None:
    """Each byte becomes the number of its bits, in place: sums of neighbours, of pairs, of fours."""
    half = (words >> np.uint64(1)) & _PAIRS
    words -= half
    np.right_shift(words, np.uint64(2), out=half)
    half &= _FOURS
    words &= _FOURS
    words += half
    np.right_shift(words, np.uint64(4), out=half)
    words += half
    words &= _EIGHTS
