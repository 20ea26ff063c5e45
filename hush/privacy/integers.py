"""Noise on the integers under secure aggregation: what it hides, what rounding costs, and how fine a grid to take.

A client's vector of norm c is divided by the grid g, rounded at random, rounded anew until its norm is within a bound,
noised by integers and reduced modulo 2^b. Lengths here are in units of the grid, except `clip` and `grid` themselves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from hush.errors import Mistake
from hush.privacy.events import Sampling
from hush.privacy.subsampled import Floats, Noise, Orders, Term
from hush.privacy.subsampled import epsilon as spent

Kind = Literal["skellam", "gaussian"]
KINDS: tuple[Kind, ...] = ("skellam", "gaussian")

BETA = math.exp(-0.5)  # the chance that a rounding is taken anew is at most this
ROOM = 4  # deviations of the sum that fit in half the modulus: a wrap costs accuracy, never privacy
LEAST_SHARE = 1.5  # deviation of a discrete Gaussian share from which on sums of them are as good as normal
_STEP = 1000  # noise is searched in thousandths
_MOST = 10_000 * _STEP
_MOST_BITS = 32


@dataclass(frozen=True)
class IntegerNoise:
    """Shares of integer noise on a sum of integer vectors.

    kind       of the shares: "skellam" or "gaussian" (discrete, chances proportional to exp(-k^2 / (2 s^2)))
    size       d, the coordinates
    l2, l1     bounds of one client's integer vector: see `rounded`
    deviation  s of one client's share; a Skellam share has variance s^2
    clients    n, the fewest shares that the sum has for sure. More of them only add to the noise

    Skellam, m = n s^2, Agarwal, Kairouz and Liu (2021), integer a:
        D(a) <= a L2^2 / (2m) + min(((2a - 1) L2^2 + 6 L1) / (4 m^2), 3 L1 / (2m)).
    Discrete Gaussian, Kairouz, Liu and Steinke (2021, Proposition 14), w = L2 / (sqrt(n) s), s >= 1/2:
        D(a) <= min(a w^2 / 2 + t d, (a / 2)(w + sqrt(d) t)^2),  t = 10 sum_{k=1}^{n-1} exp(-2 pi^2 s^2 k / (k+1)).

    Guarantee: D(a) bounds the Renyi divergence, in both directions, of the sum with a client's vector and the sum with
    zeros in its place. That is "add or remove one client" where the summed noise does not tell how many shares it
    has: that of Skellam shares does not, that of discrete Gaussians does, if only just. With reach 2 it is "replace one
    client".
    """

    kind: Kind
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

    @property
    def alone(self) -> "IntegerNoise":
        """What protects a single upload: its own share."""
        return replace(self, clients=1)

    @property
    def multiplier(self) -> float:
        """The deviation of the sum over L2: a little less than over the norm before rounding."""
        return math.sqrt(self.clients) * self.deviation / self.l2


def _tau(deviation: float, clients: int) -> float:
    k = np.arange(1, clients)
    return 10 * float(np.exp(-2 * (math.pi * deviation) ** 2 * k / (k + 1)).sum())


@dataclass(frozen=True)
class Continuous:
    """Gaussian noise of multiplier `noise`, D(a) = a / (2 noise^2): what integer noise comes close to."""

    noise: float

    def __post_init__(self) -> None:
        _positive("noise", self.noise, "a noise multiplier")

    def rdp(self, orders: Orders, reach: int = 1) -> Floats:
        """D(a), for a sum that moves by `reach` times the bound."""
        return np.asarray(orders * (reach / self.noise) ** 2 / 2)


def rounded(clip: float, grid: float, size: int, beta: float = BETA) -> tuple[float, float]:
    """L2 and L1 bounds, in units of the grid, of a vector of norm `clip` after rounding at random.

    With c' = clip / grid, L2 = min(c' + sqrt(d), sqrt(c'^2 + d/4 + sqrt(2 log(1/beta)) (c' + sqrt(d)/2))), and
    L1 = min(sqrt(d) L2, L2^2), since the vector is one of integers. A rounding is within L2 with chance 1 - beta at
    least (Kairouz, Liu, Steinke 2021); one that is not has to be taken anew.
    """
    _positive("clip", clip, "the bound of an update's norm")
    _positive("grid", grid, "the distance of two neighbouring values")
    if size < 1:
        raise Mistake(f"size={size} must be at least 1: give the number of coordinates")
    if not 0 < beta < 1:
        raise Mistake(f"beta={beta:g} must lie between 0 and 1: the chance that a rounding is taken anew")
    norm, root = clip / grid, math.sqrt(size)
    likely = math.sqrt(norm**2 + size / 4 + math.sqrt(2 * math.log(1 / beta)) * (norm + root / 2))
    l2 = min(norm + root, likely)
    return l2, min(root * l2, l2**2)


def on_grid(
    kind: Kind, noise: float, clip: float, grid: float, size: int, clients: int, beta: float = BETA
) -> IntegerNoise:
    """The shares whose sum over `clients` has deviation noise * clip, in units of updates, on this grid."""
    l2, l1 = rounded(clip, grid, size, beta)
    _positive("noise", noise, "a noise multiplier")
    if clients < 1:
        raise Mistake(f"clients={clients} must be at least 1: give the fewest shares of a sum")
    return IntegerNoise(kind, size, l2, l1, noise * clip / (grid * math.sqrt(clients)), clients)


def views(
    noise: IntegerNoise, rate: float, sampling: Sampling, rounds: int, joined: int, delta: float
) -> dict[str, float]:
    """Epsilon by adversary of equal rounds, of which a client joined `joined`; see hush.privacy.views."""
    return {
        "model": spent([Term(noise, rate, sampling, rounds)], delta),
        "server": spent([Term(noise, 1.0, sampling, joined)], delta),
        "upload": spent([Term(noise.alone, 1.0, sampling, joined)], delta),
    }


class Settled(NamedTuple):
    """A grid, the bits of a coordinate, and the noise that go together: its deviation is noise * clip in the sum."""

    grid: float
    bits: int
    noise: float


def finest(bits: int, noise: float, clip: float, size: int, clients: int, floor: int) -> float:
    """The finest grid on which the sum fits: 2^b >= 2 k sqrt(c^2 n^2/d + (g^2/4 + s^2 g^2) n) / g, k = 4, solved for g.

    s^2 g^2 = (noise clip)^2 / floor is the variance of a share. Infinite where no grid will do.
    """
    room = 4.0**bits - ROOM**2 * clients
    spread = clients**2 / size + noise**2 * clients / floor
    return 2 * ROOM * clip * math.sqrt(spread / room) if room > 0 else math.inf


def settle(
    epsilon: float,
    delta: float,
    rate: float,
    rounds: int,
    clients: int,
    size: int,
    clip: float,
    loss: float = 0.05,
    *,
    kind: Kind = "skellam",
    sampling: Sampling = "poisson",
    floor: int | None = None,
    beta: float = BETA,
) -> Settled:
    """The fewest bits at which `epsilon` takes at most `loss` more noise than a Gaussian; their grid and noise.

    clients   in a cohort: their sum has to fit in the modulus
    floor     the fewest of them that stay; the shares are sized for it (all of them)
    The Gaussian is accounted by the same bounds. Noise is the least that will do, in thousandths.
    Guarantee: what is returned was accounted as it is, so its epsilon never exceeds the target.
    """
    floor = clients if floor is None else floor
    if not 1 <= floor <= clients:
        raise Mistake(f"floor={floor} must be from 1 to clients={clients}: the fewest that stay")
    _positive("epsilon", epsilon, "a privacy budget")
    if not 0 < loss <= 10:
        raise Mistake(f"loss={loss:g} must be positive and 10 at most: the share of noise that the grid may cost")
    rounded(clip, 1.0, size, beta)  # refuses what it would refuse later

    def enough(noise: Noise) -> bool:
        return spent([Term(noise, rate, sampling, rounds)], delta) <= epsilon

    def holds(bits: int, thousandths: int) -> bool:
        noise = thousandths / _STEP
        grid = finest(bits, noise, clip, size, clients, floor)
        if grid == math.inf or (kind == "gaussian" and noise * clip < LEAST_SHARE * grid * math.sqrt(floor)):
            return False
        return enough(on_grid(kind, noise, clip, grid, size, floor, beta))

    high = _STEP
    while not enough(Continuous(high / _STEP)):
        high *= 2
        if high > _MOST:
            raise Mistake(f"epsilon={epsilon:g} is out of reach within {rounds} rounds: raise it")
    smooth = _least(lambda t: enough(Continuous(t / _STEP)), 0, high)
    most = math.floor(smooth * (1 + loss))
    bits = next((bits for bits in range(2, _MOST_BITS + 1) if holds(bits, most)), None)
    if bits is None:
        raise Mistake(
            f"loss={loss:g} takes more than {_MOST_BITS} bits with {clients} clients: raise it, or take fewer"
        )
    noise = _least(lambda t: holds(bits, t), smooth - 1, most) / _STEP
    return Settled(finest(bits, noise, clip, size, clients, floor), bits, noise)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number in (low, high] for which it holds: it does for high, and from the least one on."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _positive(name: str, value: float, meaning: str) -> None:
    if not 0 < value < math.inf:
        raise Mistake(f"{name}={value:g} must be positive and finite: give {meaning}")
