"""Who shares masks with whom: everybody, or a ring in random order with `degree` / 2 neighbours on each side.

The ring is the Harary graph of SecAgg+ (Bell, Bonawitz, Gascon, Lepoint, Raykova 2020). Its order comes from the
digest of the terms, the same for everybody. With more than half of the neighbours needed to open a secret, no choice
of dropouts splits the sum: at a gap that parts the survivors of a ring, the last one before the gap has at most
degree / 2 of its neighbours left, on one side, and its self mask stays closed. Cohorts of more than MOST + 1 are rings,
and nobody has more than MOST neighbours.
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from hush.errors import Mistake

Probabilities = npt.NDArray[np.float64]
MOST = 2**12  # neighbours of a client, whatever the cohort: its work and that of the server grow with them
_AROUND = 16  # even numbers below a bisection's answer that are tried: whether a ring will do wavers over 3 or so


def order(digest: bytes, count: int) -> list[int]:
    """The seats in an order that everybody with the digest finds: by SHA-256 of digest and seat."""
    return sorted(range(count), key=lambda seat: hashlib.sha256(digest + b"ring" + seat.to_bytes(4, "little")).digest())


def near(seats: Sequence[int], place: int, degree: int) -> tuple[int, ...]:
    """The neighbours of the seat at this place, ascending: those within degree / 2 places in this order, or all."""
    n, half = len(seats), degree // 2
    if degree == n - 1:
        return tuple(seat for seat in range(n) if seat != seats[place])
    return tuple(sorted(seats[(place + step) % n] for step in range(-half, half + 1) if step))


def ring(seats: Sequence[int], degree: int) -> tuple[tuple[int, ...], ...]:
    """For each seat its neighbours."""
    found = {seat: near(seats, place, degree) for place, seat in enumerate(seats)}
    return tuple(found[seat] for seat in range(len(seats)))


def quorum(n: int, dropout: float, corrupt: float) -> int:
    """The threshold: everyone but the lost, as long as no two sets of so many can be signed where everybody signs.

    2 threshold > n + C, with C = corrupt n that sign both. In a ring a committee signs, and counts on `degree` too.
    """
    if not (0 <= dropout < 1 and 0 <= corrupt < 1):
        raise Mistake(f"dropout={dropout} and corrupt={corrupt} must be from 0 to 1, and less than 1")
    found, helpers = n - _part(n, dropout), _part(n, corrupt)
    if 2 * found <= n + helpers or found < 3:
        raise Mistake(
            f"dropout={dropout} and corrupt={corrupt} leave no threshold for {n} clients: more than half must answer,"
            " beside those that collude with the server, and at least 3; ask for less of either or for a larger cohort"
        )
    return found


@lru_cache(maxsize=256)
def degree(
    n: int, dropout: float, corrupt: float, failure: float = 2.0**-80, stall: float = 2.0**-20
) -> tuple[int, int]:
    """The fewest neighbours, and how many of them open a secret: (degree, shares).

    With D = dropout n clients lost and C = corrupt n that collude with the server, in a random order, the probabilities
    of

    - any client with `shares` colluding neighbours (its secrets are open),
    - any half of a neighbourhood with shares - degree / 2 colluders (a gap could part the survivors)

    add up to at most `failure`, and that of any client with fewer than `shares` neighbours left (the sum cannot be
    opened, and nothing is) is at most `stall`: exact hypergeometric tails and a union bound over the clients. Where
    no ring does it with two thirds of the cohort, all are neighbours, and one less than the threshold opens a secret.
    A cohort of more than MOST + 1 clients must have its ring, of at most MOST neighbours.
    """
    threshold = quorum(n, dropout, corrupt)
    if not (0 < failure < 1 and 0 < stall < 1):
        raise Mistake(f"failure={failure} and stall={stall} must be between 0 and 1: probabilities that a ring fails")
    lost, colluding = n - threshold, _part(n, corrupt)

    def shares(half: int) -> int | None:
        """Of a ring with so many on each side: the most that do not stall, the hardest to open."""
        k = 2 * half
        few = int(np.argmax(n * _tail(n, lost, k) <= stall))  # so many lost neighbours are improbable enough
        most = k - few + 1
        if not max(2, half + 1) <= most <= k:
            return None
        opened = n * _tail(n, colluding, k)[most] + 2 * n * _tail(n, colluding, half)[most - half]
        return most if opened <= failure else None

    halves = range(1, min(MOST, 2 * (n - 1) // 3) // 2 + 1)
    first = bisect_left(halves, True, key=lambda half: shares(half) is not None)
    for half in halves[max(0, first - _AROUND) : first + 1]:
        if found := shares(half):
            return 2 * half, found
    if n > MOST + 1:
        raise Mistake(
            f"dropout={dropout} and corrupt={corrupt} leave no ring of at most {MOST} neighbours for {n} clients: ask"
            f" for less of either, or for a cohort of at most {MOST + 1}"
        )
    return n - 1, threshold - 1


def _part(n: int, rate: float) -> int:
    """rate n in whole clients; 0.29 of 100 are 29, whatever the product's last bit."""
    return math.floor(rate * n + 1e-9)


def _tail(n: int, marked: int, drawn: int) -> Probabilities:
    """Entry i: the probability of i or more marked among `drawn` of the n - 1 others; 0 past the last."""
    i = np.arange(max(0, drawn - (n - 1 - marked)), min(marked, drawn) + 1)
    ways = _choose(marked, i) + _choose(n - 1 - marked, drawn - i) - _choose(n - 1, np.array(drawn))
    probabilities = np.zeros(drawn + 2)
    probabilities[i] = np.exp(ways)
    return np.cumsum(probabilities[::-1])[::-1]


def _choose(n: int, k: npt.NDArray[np.integer]) -> Probabilities:
    """The logarithm of n over k."""
    found: Probabilities = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return found
