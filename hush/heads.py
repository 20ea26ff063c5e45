"""Coins from the key stream of a cipher: biased ones that a client sends, fair ones for those who are absent.

A biased coin shows heads if a word of 32 bits is below 2^31 + trunc(2^32 a), |a| <= edge < 1/2: its chance is
1/2 + a with a rounded towards zero, exactly. Of the word its highest byte is drawn first; it decides unless it equals
that of the threshold, and only then the other three are drawn.

A row's stream is AES-256 in counter mode; the counter is the row's number (8 bytes) and a count (8 bytes), so that
rows never meet. It is read in chunks of `width` numbers. A chunk of w numbers and m coins takes m rows of w bytes, a
coin of each number after the other, w rounded up to a block of the cipher; then, from the count on that m `width` bytes
would have led to, a word of 32 bits for each undecided coin in this order, of which 24 are used. The bits depend on key
and row alone, whatever the block and the thread.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from torch import Tensor

# Parts of the stream: other values are other coins. Large enough to hide the cost of the calls, small as the cache.
WIDEST, FIRST = 2**15, 2**18
FAIR, LAYERS = 2**13, 31  # of fair coins, numbers and bytes of each at a time: 31 bytes have 248 bits, which fit a byte
_ZEROS = memoryview(bytes(4 * FIRST))

_PAIRS, _FOURS, _EIGHTS = (np.uint64(0x0101010101010101 * low) for low in (0x55, 0x33, 0x0F))


def toss(x: Tensor, scale: float, edge: float, coins: int, key: bytes, rows: Sequence[int]) -> Tensor:
    """Replace every number of x, in place, by heads minus tails of `coins` coins of chance 1/2 + scale * number.

    The product is cut at +-edge, and 0 where it is not a number. At most 255 coins. Row i is tossed by the stream of
    rows[i].
    """
    stream = Cipher(AES256(key), CTR(bytes(16))).encryptor()
    width = _width(coins)
    # Made once and used for each chunk, while it is in the cache.
    room = np.empty(coins * width, np.uint8), np.empty((2, coins * width), np.bool_)
    for line, row in zip(x.numpy(), rows, strict=True):
        for start in range(0, line.size, width):
            part = line[start : start + width]
            limit = _thresholds(part, scale, edge)
            count = (row % 2**64 << 64) + start * coins * 5 // 16  # a byte and a word for each coin
            heads = _heads(stream, count, limit, coins, *room)
            np.multiply(heads, 2, out=part, dtype=part.dtype)
            part -= coins
    return x


def fair(size: int, coins: int, key: bytes) -> Tensor:
    """For each of `size` sums, heads minus tails of `coins` fair coins: counted bits, one for each coin."""
    stream = Cipher(AES256(key), CTR(bytes(16))).encryptor()
    layers, spare = math.ceil(coins / 8), -coins % 8
    heads = np.zeros(size, np.int64)
    for start in range(0, size, FAIR):
        part = heads[start : start + FAIR]
        wide = math.ceil(part.size / 16) * 16
        for first in range(0, layers, LAYERS):
            words = np.empty((min(LAYERS, layers - first), wide), np.uint8)
            _fill(stream, (first << 64) + start * LAYERS // 16, words.ravel())
            if first + LAYERS >= layers:
                words[-1] >>= np.uint8(spare)
            _count_bits(words.view(np.uint64))
            part += words.sum(axis=0, dtype=np.uint8)[: part.size]
    return torch.from_numpy(2 * heads - coins).double()


def _width(coins: int) -> int:
    """How many numbers a chunk has: whole blocks of the cipher."""
    return min(WIDEST, FIRST // coins // 16 * 16)


def _fill(stream: Any, count: int, words: npt.NDArray[np.uint8]) -> None:
    """The key stream from this counter on."""
    stream.reset_nonce(count.to_bytes(16, "big"))
    stream.update_into(_ZEROS[: words.size], words)


def _thresholds(x: npt.NDArray[Any], scale: float, edge: float) -> npt.NDArray[np.uint32]:
    """2^32 times the chance of heads."""
    bias = np.multiply(x, scale * 2.0**32, dtype=np.float64)
    np.clip(bias, -edge * 2.0**32, edge * 2.0**32, out=bias)
    bias[np.isnan(bias)] = 0.0  # as an integer it could be anything
    limit: npt.NDArray[np.uint32] = bias.astype(np.int32).view(np.uint32)
    limit ^= np.uint32(2**31)
    return limit


def _heads(
    stream: Any,
    count: int,
    limit: npt.NDArray[np.uint32],
    coins: int,
    words: npt.NDArray[np.uint8],
    marks: npt.NDArray[np.bool_],
) -> npt.NDArray[np.uint8]:
    """How many of each number's coins are below its threshold."""
    size, wide = limit.size, math.ceil(limit.size / 16) * 16
    _fill(stream, count, words[: coins * wide])
    drawn = words[: coins * wide].reshape(coins, wide)[:, :size]
    below, even = marks[:, : coins * size].reshape(2, coins, size)
    high = (limit >> np.uint32(24)).astype(np.uint8)
    np.less(drawn, high, out=below)
    np.equal(drawn, high, out=even)
    undecided = np.flatnonzero(even)
    if undecided.size:
        rest = np.empty(undecided.size, "<u4")
        _fill(stream, count + _width(coins) * coins // 16, rest.view(np.uint8))
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
