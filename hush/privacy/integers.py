"""The published accounting of integer noise, stated beside that of `lattice`, by which the ledger counts.

Bounds of the Renyi divergence of a sum of integer vectors under shares of noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from hush.errors import Mistake
from hush.privacy.events import BatchSampling
from hush.privacy.grids import BETA, KINDS, NoiseKind, rounded_norm
from hush.privacy.subsampled import Floats, Orders, Term, epsilon


@dataclass(frozen=True)
class Shares:
    """Shares of integer noise on a sum of integer vectors.

    kind       of the shares: "skellam" or "gaussian" (discrete, probabilities proportional to exp(-k^2 / (2 s^2)))
    size       d, the coordinates
    l2, l1     bounds of one client's integer vector, in steps of the grid
    deviation  s of one client's share; a Skellam share has variance s^2
    clients    n, the fewest shares that the sum has for sure. More of them only add to the noise

    Skellam, m = n s^2, Agarwal, Kairouz and Liu (2021), integer a:
        D(a) <= a L2^2 / (2m) + min(((2a - 1) L2^2 + 6 L1) / (4 m^2), 3 L1 / (2m)).
    Discrete Gaussian, Kairouz, Liu and Steinke (2021, Proposition 14), w = L2 / (sqrt(n) s), s >= 1/2:
        D(a) <= min(a w^2 / 2 + t d, (a / 2)(w + sqrt(d) t)^2),  t = 10 sum_{k=1}^{n-1} exp(-2 pi^2 s^2 k / (k+1)).

    Guarantee: D(a) bounds the Renyi divergence, in both directions, of the sum with a client's vector and the sum with
    zeros in its place. That is "add or remove one client" where the summed noise does not say how many shares it
    has: that of Skellam shares does not, that of discrete Gaussians does, if only just. With reach 2 it is "replace one
    client".
    """

    kind: NoiseKind
    size: int
    l2: float
    l1: float
    deviation: float
    clients: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise Mistake(f"kind={self.kind} is not known: take one of {', '.join(KINDS)}")
        if self.size < 1:
            raise Mistake(f"size={self.size} must be at least 1: give the number of coordinates")
        if not 0 < self.l2 < 1e15:
            raise Mistake(f"l2={self.l2:g} must be positive and below 1e15 steps of the grid: take a coarser grid")
        if not 0 < self.l1 <= 1e30:
            raise Mistake(f"l1={self.l1:g} must be positive and at most 1e30: the square of l2 always bounds it")
        least = 0.5 if self.kind == "gaussian" else 1e-9
        if not least <= self.deviation < 1e15:
            raise Mistake(
                f"deviation={self.deviation:g} of a {self.kind} share must be from {least:g} to 1e15 steps of the grid:"
                " change the grid"
            )
        if self.clients < 1:
            raise Mistake(f"clients={self.clients} must be at least 1: give the fewest shares of a sum")

    def rdp(self, orders: Orders, reach: int = 1) -> Floats:
        """D(a) at integer orders a >= 2, for a sum that moves by `reach` times the bounds."""
        a = np.asarray(orders, dtype=np.float64)
        if np.any((a != np.floor(a)) | (a < 2)):
            raise Mistake(f"orders={orders} must be integers from 2 on: the bound holds for these")
        l2, l1, variance = reach * self.l2, reach * self.l1, self.clients * self.deviation**2
        if self.kind == "skellam":
            more = np.minimum(((2 * a - 1) * l2**2 + 6 * l1) / (4 * variance**2), 1.5 * l1 / variance)
            return a * l2**2 / (2 * variance) + more
        w, tau = l2 / math.sqrt(variance), _tau(self.deviation, self.clients)
        return np.minimum(a * w**2 / 2 + tau * self.size, a / 2 * (w + math.sqrt(self.size) * tau) ** 2)


def _tau(deviation: float, clients: int) -> float:
    k = np.arange(1, clients)
    return 10 * float(np.exp(-2 * (math.pi * deviation) ** 2 * k / (k + 1)).sum())


def shares(kind: NoiseKind, noise: float, steps: float, size: int, floor: float, beta: float = BETA) -> Shares:
    """The shares of a sum whose noise is `noise` times L = rounded_norm(steps), sized for `floor` of them.

    L1 = min(sqrt(d) L, L^2), since the vector is one of integers.
    """
    for name, value, meaning in (("noise", noise, "a noise multiplier"), ("floor", floor, "the fewest that stay")):
        if not 0 < value < math.inf:
            raise Mistake(f"{name}={value:g} must be positive and finite: give {meaning}")
    l2 = rounded_norm(steps, size, beta)
    return Shares(kind, size, l2, min(math.sqrt(size) * l2, l2**2), noise * l2 / math.sqrt(floor), math.ceil(floor))


def published(noise: Shares, delta: float, rate: float, rounds: int, sampling: BatchSampling = "poisson") -> float:
    """The model view's epsilon of `rounds` equal rounds by the bounds above, sampled and composed by `subsampled`."""
    return epsilon([Term(noise, rate, sampling, rounds)], delta)
