"""What a sum of coins hides: never less than Gaussian noise of a deviation that `spread` gives.

A number a, |a| <= t, is sent as a coin that shows heads with probability 1/2 + a; the reader sees the number of heads
among n coins. Who is absent, or sends 0, is a fair coin. Guarantee: the reader cannot distinguish a from 0 any better
than N(r a, 1) from N(0, 1), r = spread(n, t), whatever the probabilities of the other n - 1 coins within 1/2 +- t.

Proof. Let Q be the distribution of the heads with a fair coin in the place of a, and P_a with a.

1. Both are linear in the probability of any other coin, and the hockey-stick divergence is jointly convex: it is
largest
   with each of the others at 1/2 + t or at 1/2 - t. Let j be the number of the former, f(k) the probability of k heads.
2. Q(k) = (f(k) + f(k-1)) / 2 and P_a(k) = Q(k) + a (f(k-1) - f(k)). A sum of coins is log-concave, so for a > 0 the
   ratio P_a / Q grows with k and the best tests are thresholds k >= c, c = 1..n. Their errors of the second kind are
   b_c(a) = F(c-2) + (1/2 - a) f(c-1), F the sums of f, and those of the first kind 1 - b_c(0).
3. The trade-off curve is linear between these points. That of the Gaussian pair at distance d is convex, so it lies
   below if it does at the points: if d is at least d_c(a) = z(b_c(0)) - z(b_c(a)), z the normal quantile.
4. d_c(0) = 0, and d_c' = f(c-1) / phi(z(b_c(a))) grows with a where b_c < 1/2 and falls where b_c > 1/2. So d_c(a) / a
   is at most d_c(t) / t if b_c(0) <= 1/2, d_c'(0) if b_c(t) >= 1/2, and else the larger of d_c'(0) and d_c'(t). The
   largest of these over c and j is r.
5. A negative a is the same with heads and tails exchanged, and j by n-1-j. The Gaussian curve is its own inverse, so
   both directions hold.

By Blackwell's theorem a channel makes Q of N(0, 1) and P_a of N(r a, 1). Hence what is known of Gaussian noise holds.
Independent coins compose: m coins for each number of a vector x, with a = s x, are a Gaussian mechanism of
mu = sqrt(m) r s |x|. Poisson sampling goes through the channel, since the absent client is Q. Replacing one client is
at most 2 mu. And one more coin is one more channel: to credit fewer coins than there are is safe.

Thresholds with probabilities below 1e-290 are left out. Without them the Gaussian's delta holds up to 1e-289 a coin.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hush.errors import Mistake

Floats = npt.NDArray[np.float64]

MOST = 2000  # coins that are credited: the time grows with their third power
LEAST = 1e-290
MARGIN = 1 + 1e-6  # more than what rounding may take off the difference of two quantiles, at edges from 1/1024 on


def spread(coins: int, edge: float) -> float:
    """r: the distance, in deviations of the noise, that a coin's bias of 1 has among `coins`; about 2 / sqrt(coins)."""
    if coins < 1:
        raise Mistake(f"coins={coins} must be at least 1: the client's own")
    if not 2.0**-10 <= edge <= 0.25:
        raise Mistake(f"edge={edge:g} must be from 1/1024 to 1/4: how far from 1/2 a coin may be")
    return _spread(min(coins, MOST), edge)


@lru_cache(maxsize=4096)
def _spread(coins: int, edge: float) -> float:
    heads = [np.ones(1)]  # of j coins at 1/2 + edge; those at 1/2 - edge are the same backwards
    for _ in range(coins - 1):
        heads.append(np.convolve(heads[-1], [0.5 - edge, 0.5 + edge]))
    found = 0.0
    for j in range((coins + 1) // 2):
        f = np.convolve(heads[j], heads[coins - 1 - j][::-1])
        found = max(found, _steepest(f, edge), _steepest(f[::-1], edge))  # backwards: coins - 1 - j instead of j
    return found * MARGIN


def _steepest(f: Floats, edge: float) -> float:
    """The largest d_c(a) / a over the thresholds, f the probabilities of the others' heads."""
    below = np.concatenate([[0.0], np.cumsum(f)[:-1]])
    above = np.concatenate([np.cumsum(f[::-1])[-2::-1], [0.0]])
    # Both tails as sums of positive numbers: nothing cancels, however small they are.
    none, full = (below + 0.5 * f, above + 0.5 * f), (below + (0.5 - edge) * f, above + (0.5 + edge) * f)
    kept = (none[1] > LEAST) & (full[0] > LEAST)
    f = f[kept]
    start, end = (_quantile(low[kept], high[kept]) for low, high in (none, full))
    with np.errstate(over="ignore"):  # at 1e-290 a slope that is not asked for may be beyond any number
        first, last = (f * np.sqrt(2 * np.pi) * np.exp(z**2 / 2) for z in (start, end))
    slopes = np.where(start <= 0, (start - end) / edge, np.where(end >= 0, first, np.maximum(first, last)))
    return float(slopes.max())


def _quantile(low: Floats, high: Floats) -> Floats:
    """z of a probability, given with its complement: whichever is smaller is the exact one."""
    found: Floats = np.copysign(ndtri(np.minimum(low, high)), low - high)
    return found
