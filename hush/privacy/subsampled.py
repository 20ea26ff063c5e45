"""Epsilon of noise that is known by its Renyi divergences alone: sampled, composed, converted.

A noise's curve is D(a) at integer orders a: the largest Renyi divergence between the noisy sums of two neighbours.
Everything is kept as moments K(a) = (a - 1) D(a), which add up over rounds and are convex in a.

**Poisson cohorts**, add or remove one client at rate q. Given all else, the sum has the distribution Q without the
client and M = (1 - q) Q + q P with it, P being Q shifted by the client's vector x. Then for integer a, with K(0) = K(1)
= 0,

    E_Q[(M/Q)^a] = sum_i C(a, i) (1 - q)^(a - i) q^i E_Q[(P/Q)^i] <= sum_i C(a, i) (1 - q)^(a - i) q^i exp K(i).

The right side is exp K'(a): the bound of Zhu and Wang (2019), without the factor 3 that theirs has for noise of any
kind from i = 3 on. It is that of D(M|Q). The other direction, D(Q|M), is never larger, because the noise is symmetric.
Proof (the claim is Theorem 5 of Mironov, Talwar and Zhang 2019, there for densities; this holds for any distribution):

1. y -> x - y exchanges P and Q. So with r = P/Q, E_Q f(r) = E_Q r f(1/r), and both are half of E_Q (f(r) + r f(1/r)).
2. Take f(r) = m^a - m^(1 - a), m = 1 - q + q r: E_Q f is the difference of the two directions. With b = r m(1/r) =
   (1 - q) r + q and t = a - 1/2, f(r) + r f(1/r) = 2 sqrt(m) sinh(t log m) + 2 sqrt(r b) sinh(t log(b/r)).
3. The two logarithms have opposite signs, and m b = r + q (1 - q) (1 - r)^2 >= r: the positive one is the larger. At
   t = 1/2 the sum is m - 1 + b - r = 0. From there the term with the larger logarithm gains on the other, since
   sinh(t u) / sinh(u/2) grows with u > 0 for t >= 1/2. So f(r) + r f(1/r) >= 0 for every r and a >= 1.

**Fixed-size cohorts**, replace one client, D of twice the sensitivity: Theorem 9 of Wang, Balle and Kasiviswanathan
(2019) for noise of unbounded loss,

    exp K'(a) = 1 + q^2 C(a, 2) min(4 (exp D(2) - 1), 2 exp D(2)) + sum_{j >= 3} 2 q^j C(a, j) exp K(j).

Either way K itself is a bound (divergences are quasi-convex), and the smaller of the two is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from hush.errors import Mistake
from hush.privacy.accountants import check
from hush.privacy.events import BatchSampling, check_sampling, replaced

Floats = npt.NDArray[np.float64]
Orders = npt.NDArray[np.int64]

MOST = 512  # the highest order: one of 500 is the best for an epsilon of 0.02
_ALL = np.arange(2, MOST + 1)
ORDERS = np.concatenate([np.arange(2, 65), np.arange(68, 129, 4), np.arange(144, MOST + 1, 16)])  # K' is found at these
# Where epsilon is looked for: between two orders the chord bounds K', a convex function.
_FINE = np.unique(np.concatenate([ORDERS, np.arange(20, 160) / 10, np.arange(129, 513, 8)]))


class NoiseCurve(Protocol):
    """Symmetric noise on a sum, as a hashable value."""

    def rdp(self, orders: Orders, reach: int = 1) -> Floats:
        """D at integer orders from 2 on, for a sum that moves by `reach` times what one client adds to it."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Term:
    """`count` rounds with the same noise, each with a cohort drawn at `rate`; 1 where the observer knows the cohort."""

    noise: NoiseCurve
    rate: float
    sampling: BatchSampling
    count: int = 1

    def __post_init__(self) -> None:
        check_sampling(self.sampling)
        if not 1e-9 <= self.rate <= 1:
            raise Mistake(f"rate={self.rate:g} must be in [1e-9, 1]: give the probability of being drawn")
        if not 0 <= self.count <= 10**7:
            raise Mistake(f"rounds={self.count} must be from 0 to 10,000,000: give the number of releases")


def epsilon(terms: Sequence[Term], delta: float) -> float:
    """The epsilon of all terms together at delta; 0 for none of them.

    Guarantee: an upper bound of the true epsilon under the terms' neighbour relation, whatever the rounds depend on.
    """
    from dp_accounting.rdp import compute_epsilon  # slow to import

    check(delta, "rdp")
    if len({term.sampling for term in terms}) > 1:
        raise Mistake("poisson and fixed cohorts protect different neighbours: account for each of them alone")
    total = np.zeros(len(ORDERS))
    for term in terms:
        total += term.count * moments(term.noise, term.rate, term.sampling)
    # Below order 2 the chord from K'(1) = 0 leaves D as it is at 2, where the conversion is better.
    divergences = np.interp(_FINE, ORDERS, total) / (_FINE - 1)
    return float(compute_epsilon(_FINE, divergences, delta)[0])


@lru_cache(maxsize=256)
def moments(noise: NoiseCurve, rate: float, sampling: BatchSampling) -> Floats:
    """K' of one round at the orders that are kept."""
    plain: Floats = (_ALL - 1) * noise.rdp(_ALL, replaced(sampling))
    kept: Floats = plain[ORDERS - 2]
    if rate < 1:
        kept = np.minimum(kept, _poisson(plain, rate) if sampling == "poisson" else _fixed(plain, rate))
    kept.setflags(write=False)  # it is remembered
    return kept


def _poisson(plain: Floats, rate: float) -> Floats:
    """log(1 + sum_{i >= 2} C(a, i) (1 - q)^(a - i) q^i (exp K(i) - 1)): the same sum, exact where it is small."""
    out = np.maximum(ORDERS[:, None] - _ALL, 0) * math.log1p(-rate)
    return _log_one_plus(out + _ALL * math.log(rate) + _log_expm1(plain))


def _fixed(plain: Floats, rate: float) -> Floats:
    factors = math.log(2) + plain
    factors[0] = min(factors[0], math.log(4) + _log_expm1(plain[:1])[0])
    return _log_one_plus(_ALL * math.log(rate) + factors)


def _log_one_plus(terms: Floats) -> Floats:
    """log(1 + sum_i C(a, i) exp(term i)) at the orders a that are kept; no exponential leaves the logarithm."""
    found: Floats = np.logaddexp(0.0, logsumexp(_choices() + terms, axis=1))
    return found


def _log_expm1(x: Floats) -> Floats:
    """log(exp(x) - 1), however large or small x is; minus infinity at 0."""
    with np.errstate(divide="ignore"):
        found: Floats = x + np.log(-np.expm1(-x))
    return found


@lru_cache(maxsize=1)
def _choices() -> Floats:
    """log C(a, i) for the orders a that are kept and i from 2 on; minus infinity beyond a."""
    a, i = ORDERS[:, None], _ALL[None, :]
    found = gammaln(a + 1.0) - gammaln(i + 1.0) - gammaln(np.maximum(a - i, 0) + 1.0)
    return np.where(i <= a, found, -np.inf)
