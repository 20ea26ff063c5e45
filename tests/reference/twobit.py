"""The slow twin of two-bit aggregation: Algorithms 1 and 2 of paper A, one number after the other.

Two readings, as everywhere in hush: magnitudes are cut at 2^(p-1) - 1 (the printed 2^(p-1) has p bits), and the
location moves by one with each parameter. Magnitudes and averages are Python's integers: of any length, exact.
"""

from collections.abc import Sequence
from fractions import Fraction

Pair = tuple[int, int]


def mapping(g: Sequence[float], m: float, p: int, location: int) -> list[Pair]:
    """Algorithm 1 at one node: (sign, bit) of each parameter, from the location that the server asked for."""
    U = []
    for j, value in enumerate(g):
        value = 0.0 if value != value else value
        scaled = abs(value) * (2.0 ** (p - 1) / m)
        magnitude = 2 ** (p - 1) - 1 if scaled >= 2.0 ** (p - 1) else int(scaled)
        place = (location + j) % (p - 1)
        U.append((1 if value >= 0 else 0, magnitude // 2**place % 2))
    return U


def majority(bits: Sequence[int]) -> int:
    """1 where there are more of them; ties and nobody: 0."""
    return 1 if bits.count(1) > bits.count(0) else 0


def aggregation(updates: Sequence[tuple[int, Sequence[Pair]]], m: float, p: int) -> list[float]:
    """Algorithm 2: the sum over the nodes that the mean stands for, from each node's location and update."""
    w = []
    for j in range(len(updates[0][1])):
        clusters: dict[int, list[Pair]] = {place: [] for place in range(p - 1)}
        for location, U in updates:
            clusters[(location + j) % (p - 1)].append(U[j])
        positive = negative = 0
        for place, cluster in clusters.items():
            positive += majority([bit for sign, bit in cluster if sign == 1]) * 2**place
            negative += majority([bit for sign, bit in cluster if sign == 0]) * 2**place
        plus = sum(U[j][0] for _, U in updates)
        minus = len(updates) - plus
        w.append(float(Fraction(plus * positive - minus * negative, 2 ** (p - 1))) * m)
    return w


def two_bit(g: Sequence[Sequence[float]], seats: Sequence[int], m: float, p: int) -> list[float]:
    """One round: the nodes' numbers g, and the seats that they were given."""
    sent = [(seat, mapping(row, m, p, seat)) for seat, row in zip(seats, g, strict=True)]
    return aggregation(sent, m, p)
