"""Votes on the bits of two-bit uploads."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hush.core.protocols import Aggregator
from hush.core.spec import Asked, Total, Uploads
from hush.errors import Aborted, Mistake
from hush.parts.stages.twobit import check_precision

Bytes = npt.NDArray[np.uint8]
Lanes = npt.NDArray[np.uint64]  # eight bytes at a time
Words = npt.NDArray[np.unsignedinteger]
Floats = npt.NDArray[np.float64]

# What is made of so many bytes at a time stays in the cache.
PIECE = 2**18
_EACH = 0x0101010101010101  # times a byte: the same in each of eight


@dataclass(frozen=True)
class BitVote(Aggregator):
    """One number for each parameter from a sign and a bit of each client (paper A, Algorithm 2; p = `precision`).

    Clients whose seats are the same modulo p-1 sent the same bit: they are a group. In each group the clients with
    a plus vote on the bit, and so do those with a minus. A tie is 0, and so is a group without voters. The bits
    make a number `pos` and a number `neg`, and the mean is (n+ pos - n- neg) / n, over 2^(p-1), for n+ clients with
    a plus and n- with a minus. The total's body is n times that, exact up to one rounding; TwoBit's other half
    multiplies by the bound.

    Four uploads are kept in a byte for each parameter, one of each of four groups; what comes second of its group
    is in the second such row of bytes. Votes are taken on whole rows, on the bits of eight groups at once.
    """

    precision: int = 32

    def __post_init__(self) -> None:
        check_precision(self.precision)

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client, with their seats."""
        size, groups, weight = asked.size, self.precision - 1, 0.0
        voters = [0] * groups
        ranks: list[Bytes] = []
        for rows, sizes, seats, _ in uploads:
            if seats is None:
                raise Mistake("BitVote needs the clients' seats: use a transport that gives them")
            for row, seat in zip(rows.numpy(), seats.tolist(), strict=True):
                group = seat % groups
                if not ranks:
                    _check(row)
                if voters[group] == len(ranks):
                    # Not np.zeros: its pages come one by one, those of np.full may be huge ones.
                    ranks.append(np.full((2 * -(-groups // 8), -(-size // 8) * 8), 0, np.uint8))
                _keep(row, ranks[voters[group]][group // 4], group % 4)
                voters[group] += 1
            weight += float(sizes.sum())
            del rows  # before the next ones are made
        count = sum(voters)
        if count < groups:
            raise Aborted(f"round: {count} uploads cannot fill the {groups} places of p={self.precision}")
        body = np.empty(size)
        absent = np.array([_absent(voters, rank) for rank in range(len(ranks))], np.uint64)
        length = max(1, PIECE // (8 * groups * absent.size)) * 8 * groups  # whole periods of the places
        turns = (np.arange(length) % groups).astype(f"<u{_width(absent.shape[1])}")
        for start in range(0, size, length):
            part = body[start : start + length]
            four = np.stack([rank[:, start : start + length].view(np.uint64) for rank in ranks])
            part[:] = _decide(four, absent, count, turns, groups)[: len(part)]
        return Total(torch.from_numpy(body), count, weight)


def _check(row: npt.NDArray[np.float32]) -> None:
    """The first upload of a round: what stages make does not change from client to client."""
    for start in range(0, row.size, PIECE):
        magnitudes = np.abs(row[start : start + PIECE])
        if not ((magnitudes == 1) | (magnitudes == 3)).all():
            raise Mistake("BitVote got numbers that are no two-bit codes: put TwoBit with the same p as the last stage")


def _keep(row: npt.NDArray[np.float32], four: Bytes, place: int) -> None:
    """Bit `place` of the bytes gets the bit of the upload, bit 4 + `place` marks a minus.

    In two's complement of -3, -1, 1, 3 bit 1 is the one that was sent, and all bits from 2 on mark a minus.
    """
    codes = np.zeros(PIECE, np.int8)
    wide, mask = codes.view(np.uint64), np.uint64(0x22 * _EACH)
    for start in range(0, row.size, PIECE):
        part = row[start : start + PIECE]
        np.copyto(codes[: part.size], part, casting="unsafe")
        wide &= mask
        if place:
            wide <<= np.uint64(place - 1)
        else:
            wide >>= np.uint64(1)
        kept = four[start : start + PIECE].view(np.uint64)
        kept |= wide[: kept.size]


def _absent(voters: list[int], rank: int) -> list[int]:
    """Which groups have nobody at this rank, as bits, eight groups to a byte; each byte eight times."""
    bits = [sum(1 << i for i, n in enumerate(voters[k : k + 8]) if n <= rank) for k in range(0, len(voters), 8)]
    return [byte * _EACH for byte in bits]


def _decide(four: Lanes, absent: Lanes, count: int, turns: Words, groups: int) -> Floats:
    """(n+ pos - n- neg) / 2^(p-1) for some parameters; the places of parameter j are turned by turns[j]."""
    low, high = np.uint64(0x0F * _EACH), np.uint64(0xF0 * _EACH)
    even, odd = four[:, ::2], four[:, 1::2]
    bits, minus = even & low | (odd & low) << np.uint64(4), (even & high) >> np.uint64(4) | odd & high
    ones: Lanes = np.stack([bits & ~minus, bits & minus], axis=1)
    won = ones[0]
    if len(ones) > 1:
        won = _majority(ones, np.stack([minus | absent[:, :, None], ~minus], axis=1, dtype=np.uint64))
    unit = 2.0**-groups
    negative = _ones(minus.view(np.uint8).reshape(-1, 8 * minus.shape[2])) * unit
    positive = count * unit - negative
    pos, neg = _turned(_words(won.view(np.uint8)), turns[: len(negative)], groups)
    if pos.itemsize < 8:
        return np.asarray(positive * pos - negative * neg)
    # In halves: each sum is exact in float64, and they meet in one rounding.
    upper = positive * (pos >> 32) - negative * (neg >> 32)
    return np.asarray(2.0**32 * upper + (positive * (pos & 0xFFFFFFFF) - negative * (neg & 0xFFFFFFFF)))


def _majority(ones: Lanes, others: Lanes) -> Lanes:
    """Where more clients voted 1 than 0: `ones` are those who did, `others` those who did not vote.

    The number twice the ones and the others is more than that of all clients just there.
    """
    more: Lanes = np.zeros_like(ones[0])
    for place, bit in enumerate(_count(others, ones)):
        more = more & bit if len(ones) >> place & 1 else more | bit
    return more


def _count(rows: Lanes, twos: Lanes) -> list[Lanes]:
    """In how many rows each bit is set, counting twos twice: that number's bits, the lowest first.

    By carry-save adders: three rows are their sum modulo two, and a row of carries that counts twice.
    """
    number, carried = [], [twos]
    while len(rows):
        while len(rows) > 2:
            third = len(rows) // 3
            a, b, c = rows[:third], rows[third : 2 * third], rows[2 * third : 3 * third]
            either = a ^ b
            carried.append(a & b | either & c)
            rows = np.concatenate([either ^ c, rows[3 * third :]])
        if len(rows) == 2:
            carried.append(rows[:1] & rows[1:])
            rows = rows[:1] ^ rows[1:]
        number.append(rows[0])
        rows, carried = np.concatenate(carried), [rows[:0]]
    return number


def _ones(rows: Bytes) -> Floats:
    """How many bits are set, over the bytes of all rows."""
    found = np.zeros(rows.shape[1])
    for start in range(0, len(rows), 31):  # at most 248 bits: a byte holds their number
        found += np.bitwise_count(rows[start : start + 31]).sum(axis=0, dtype=np.uint8)
    return found


def _words(rows: Bytes) -> Words:
    """Numbers from rows of their bytes, the lowest first; the last axis is that of the numbers."""
    width = _width(rows.shape[-2])
    found = np.zeros((*rows.shape[:-2], rows.shape[-1], width), np.uint8)
    for place in range(rows.shape[-2]):
        found[..., place] = rows[..., place, :]
    return found.view(f"<u{width}")[..., 0]


def _width(count: int) -> int:
    """The bytes of a word that holds so many."""
    return 1 << (count - 1).bit_length()


def _turned(numbers: Words, up: Words, places: int) -> Words:
    """The `precision` bits of each number moved up; those that leave at the top come in at the bottom."""
    return (numbers << up | numbers >> (places - up)) & numbers.dtype.type(2**places - 1)
