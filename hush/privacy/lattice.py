"""What integer noise hides: never less than Gaussian noise, of a deviation that `skellam` and `gaussians` tell.

Noise K on the integers is added to an integer x. Guarantee: a reader of x + K cannot tell x from x', D = |x - x'|, any
better than N(r D, 1) from N(0, 1), where r is what these functions return. Of a vector with independent noise in each
coordinate the same holds with D the Euclidean distance. Both kinds of noise are close to the normal law of their own
variance v: r sqrt(v) is 1 + 1/(6 v) for Skellam noise, for v from 10 on.

Proof. Let U(c) be the chance of K >= c, and z(c) = -quantile(U(c)) the normal quantile of its complement.

1. The probabilities of K are log-concave: those of a Poisson number and of a discrete Gaussian are, and so are sums and
   differences of independent such numbers. So the ratio of the laws of K + D and K grows, and the best tests are
   thresholds >= c. They err with chances U(c) and 1 - U(c - D).
2. The trade-off curve is linear between these points, and the convex curve of N(0, 1) and N(m, 1) lies below it if it
   does at the points: if m >= z(c) - z(c - D) for every c. That is a sum of D steps z(i) - z(i - 1), of which each is
   at most r, their largest. So m = r D will do. K is symmetric: a shift to the other side is the same.
3. By Blackwell's theorem a channel turns the normal pair into the pair on the integers, and channels for the
   coordinates turn a pair of normal vectors at distance r |x - x'| into the noisy vectors. What is known of Gaussian
   noise holds: sampling, composition, and that what is done afterwards, as reducing modulo 2^b, tells no more.

Thresholds with chances below 1e-290 are left out: without them the Gaussian's delta holds up to 1e-289 a coordinate.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ive, ndtri

from hush.errors import Mistake

Floats = npt.NDArray[np.float64]

LEAST = 1e-290
MOST = 1e7  # variance: beyond it the tables would take too long
MARGIN = 1 + 1e-6  # more than rounding takes off


@lru_cache(maxsize=64)
def skellam(variance: float) -> float:
    """r of the difference of two Poisson numbers of mean variance / 2 each.

    Sums of Skellam numbers are Skellam numbers, so that of shares only the summed variance matters.
    """
    _check(variance, 0.01)
    # e^-v I_k(v) is the chance of k, and falls below 1e-305 before 38 deviations and 400 steps.
    chances = ive(np.arange(math.ceil(38 * math.sqrt(variance)) + 400), variance)
    return _steepest(chances[chances > 1e-305]) * MARGIN


@lru_cache(maxsize=64)
def gaussians(deviation: float, shares: int) -> float:
    """r of the sum of `shares` discrete Gaussians, each with chances proportional to exp(-k^2 / (2 deviation^2))."""
    if shares < 1:
        raise Mistake(f"shares={shares} must be at least 1: how many clients add noise")
    _check(deviation**2 * shares, 0.1)
    reach = math.ceil(38 * deviation) + 2
    one = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    total = _power(one / one.sum(), shares)
    half = total[len(total) // 2 :]
    return _steepest(half[half > 1e-305]) * MARGIN


def _check(variance: float, least: float) -> None:
    if not least <= variance <= MOST:
        raise Mistake(f"variance={variance:g} of the summed noise must be from {least:g} to {MOST:g}: change the grid")


def _steepest(chances: Floats) -> float:
    """The largest step of z, from the chances of 0, 1, 2, ... of a symmetric number."""
    tails = np.cumsum(chances[::-1])[::-1]  # from the smallest on: nothing cancels
    above = tails[1:][tails[1:] > LEAST]  # of 1, 2, ...
    z = np.concatenate([[ndtri(above[0])], -ndtri(above)])  # of 0, which mirrors 1, and on
    return float(np.diff(z).max())


def _power(chances: Floats, count: int) -> Floats:
    """The chances of a sum of `count` such numbers, by repeated squaring; positive terms alone, so relatively exact."""
    found, base = np.ones(1), chances
    while count:
        if count & 1:
            found = _trimmed(np.convolve(found, base))
        count >>= 1
        if count:
            base = _trimmed(np.convolve(base, base))
    return found


def _trimmed(chances: Floats) -> Floats:
    """Without the ends that are too unlikely to matter, the same on both sides."""
    kept = int(np.argmax(chances > 1e-305))
    return chances[kept : len(chances) - kept]
