"""What integer noise hides: never less than Gaussian noise, of a deviation that `skellam` and `gaussians` give.

Noise K on the integers is added to an integer x. Guarantee: a reader of x + K cannot distinguish x from x', D = |x -
x'|, any better than N(r D, 1) from N(0, 1), where r is what these functions return. Of a vector with independent noise
in each coordinate the same holds with D the Euclidean distance. Both kinds of noise are close to the normal
distribution of their own variance v: r sqrt(v) is 1 + 1/(6 v) for Skellam noise, for v from 10 on.

Proof. Let U(c) be the probability of K >= c, and z(c) = -quantile(U(c)) the normal quantile of its complement.

1. The probabilities of K are log-concave: those of a Poisson number and of a discrete Gaussian are, and so are sums and
   differences of independent such numbers. So the ratio of the distributions of K + D and K grows, and the best tests
   are thresholds >= c. They err with probabilities U(c) and 1 - U(c - D).
2. The trade-off curve is linear between these points, and the convex curve of N(0, 1) and N(m, 1) lies below it if it
   does at the points: if m >= z(c) - z(c - D) for every c. That is a sum of D steps z(i) - z(i - 1), of which each is
   at most r, their largest. So m = r D will do. K is symmetric: a shift to the other side is the same.
3. By Blackwell's theorem a channel turns the normal pair into the pair on the integers, and channels for the
   coordinates turn a pair of normal vectors at distance r |x - x'| into the noisy vectors. What is known of Gaussian
   noise holds: sampling, composition, and that what is done afterwards, as reducing modulo 2^b, reveals no more.

4. Of n discrete Gaussians of deviation s, the sum is close to the one of deviation sqrt(n) s. Adding one more to the
   sum of k multiplies the probabilities of that one by a sum of exp(-(j - t)^2 / (2 c^2)) over all integers j, c^2 =
   s^2 k / (k + 1), where t depends on the place. By Poisson's summation formula that is a constant times 1 + e cos(..)
   + .., within 1 - e and 1 + e, e = 2 sum_j exp(-2 pi^2 c^2 j^2). So every probability is off by a factor within
   exp(-a) and exp(a), a = sum_k log((1 + e) / (1 - e)), and so is every U(c), and U(1) is below 1/2: z(i) - z(i - 1) is
   at most what these limits leave it. From s = 1.5 on, a is below 1e-9.

Thresholds with probabilities below 1e-290 are left out: without them the Gaussian's delta holds up to 1e-289 a
coordinate.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ive, ndtri

from hush.errors import Mistake
from hush.privacy.grids import NoiseKind
from hush.random.tables import NORMAL, SKELLAM

Floats = npt.NDArray[np.float64]

LEAST = 1e-290
TINY = 1e-12  # variance of noise that is next to nothing: taken as none at all
DIGITS = 1e-6  # of a discrete Gaussian's worth, rounded down
MARGIN = 1 + 1e-6  # more than rounding takes off


@lru_cache(maxsize=64)
def skellam(variance: float) -> float:
    """r of the difference of two Poisson numbers of mean variance / 2 each; infinite where next to nothing is hidden.

    Sums of Skellam numbers are Skellam numbers, so that of shares only the summed variance matters.
    """
    if not _check(variance, SKELLAM[1]):
        return math.inf
    # e^-v I_k(v) is the probability of k; by Bernstein it is below 1e-305 from 38 deviations and 470 steps on.
    return _steepest(ive(np.arange(math.ceil(38 * math.sqrt(variance)) + 470), variance), 0.0) * MARGIN


@lru_cache(maxsize=64)
def gaussians(deviation: float, shares: float) -> float:
    """r of the sum of at least `shares` discrete Gaussians, of probabilities proportional to exp(-k^2 / (2
    deviation^2)).

    At least 2.5 of them are 3. Infinite where next to nothing is hidden.
    """
    if not 0 < shares < math.inf:
        raise Mistake(f"shares={shares:g} must be positive and finite: how many clients add noise")
    count = math.ceil(shares)
    total = deviation * math.sqrt(count)
    # A sum of more shares than the sampler's largest is made of may be a little wider than that.
    if not _check(total**2 if deviation > 0 else deviation, 4 * NORMAL[1] ** 2):
        return math.inf
    probabilities = np.exp(-0.5 * (np.arange(math.ceil(38 * total) + 2) / total) ** 2)
    return (
        _steepest(probabilities / (probabilities[0] + 2 * probabilities[1:].sum()), _apart(deviation, count)) * MARGIN
    )


def worth(kind: NoiseKind, noise: float, l2: float, floor: float) -> float:
    """The multiplier 1 / (r L) of the Gaussian noise that integer noise of deviation noise * L counts as.

    L = `l2` bounds what one client adds, in steps of the grid; the noise is in `floor` shares at least.
    """
    if kind == "skellam":
        return 1 / (skellam((noise * l2) ** 2) * l2)
    # Whole shares have a little more noise than a floor of 2.5 asks for. It does not count, so that what a round is
    # worth does not reveal its cohort; nor do the last digits, which say how many shares there are.
    least = max(gaussians(noise * l2 / math.sqrt(count), floor) for count in (floor, math.ceil(floor)))
    return math.floor(1 / (least * l2) / DIGITS) * DIGITS


def matching(kind: NoiseKind, noise: float, l2: float, floor: float) -> float:
    """The multiplier of integer noise that is worth Gaussian noise of this one at least: noise^2 / worth, or noise.

    The more noise, the nearer its worth is to it, so that what makes up for the difference here is enough there.
    """
    return noise * max(1.0, noise / worth(kind, noise, l2, floor)) * MARGIN


def _check(variance: float, most: float) -> bool:
    """Whether there is noise to speak of."""
    if not 0 <= variance <= most:
        raise Mistake(f"variance={variance:g} of the summed noise must be from 0 to {most:g}: take a coarser grid")
    return variance >= TINY


def _apart(deviation: float, count: int) -> float:
    """a of the proof: how far the logarithm of a probability may be from that of one discrete Gaussian."""
    k = np.arange(1, count)
    first = np.exp(-2 * (math.pi * deviation) ** 2 * k / (k + 1))
    e = 2 * first / (1 - first)  # the squares of j are at least j
    return float(np.log1p(2 * e / (1 - e)).sum()) if np.all(e < 1) else math.inf


def _steepest(probabilities: Floats, slack: float) -> float:
    """The largest step of z, from probabilities of 0, 1, .. of a symmetric number, each up to a factor exp(slack)."""
    tails = np.cumsum(probabilities[::-1])[::-1]  # from the smallest on: nothing cancels
    above = tails[1:][tails[1:] > LEAST]  # of 1, 2, ...
    if not above.size:
        return math.inf
    far = near = -ndtri(above)
    if slack > 0:
        far, near = -ndtri(above * math.exp(-slack)), -ndtri(np.minimum(above * math.exp(slack), 0.5))
    return float(max(2 * far[0], np.max(far[1:] - near[:-1], initial=0.0)))  # z(0) = -z(1)
