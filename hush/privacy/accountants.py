"""Epsilon of composed Gaussian releases, by three accountants: moments, rdp, pld."""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from hush.errors import Mistake
from hush.privacy import losses
from hush.privacy.roots import brent

ACCOUNTANTS = ("moments", "rdp", "pld")
_MOST_MOMENTS = 1 << 16
_WIDEST = 2000.0  # a loss that large: too little noise for sampling to matter, counted without it (a bound)


@dataclass(frozen=True)
class Release:
    """`count` rounds of `steps` Gaussian releases of multiplier `noise`, each with Poisson sampling at `rate`.

    mirrored: compose the pair that dominates both directions of "replace one client" at once (pld only).
    joined: the probability that a round happens at all, which the observer may notice: loss 0 with probability 1 -
    joined. noticed: False assumes that it looks like a round without the record; rdp and moments then keep to the
    bound.
    """

    noise: float
    rate: float
    count: int = 1
    mirrored: bool = False
    steps: int = 1
    joined: float = 1.0
    noticed: bool = True

    def __post_init__(self) -> None:
        if not (self.noise == 0 or 1e-6 <= self.noise <= 1e9):
            raise Mistake(f"noise={self.noise:g} must be zero or in [1e-6, 1e9]: give a noise multiplier")
        if not 1e-9 <= self.rate <= 1:
            raise Mistake(f"rate={self.rate:g} must be in [1e-9, 1]: give the probability of being drawn")
        if not 1 <= self.count <= 10**7:
            raise Mistake(f"rounds={self.count} must be from 1 to 10,000,000: give the number of releases")
        if not (self.steps >= 1 and self.count * self.steps <= 10**7):
            raise Mistake(f"steps={self.steps} must be at least 1, and with the rounds 10,000,000 at most: lower it")
        if not 1e-9 <= self.joined <= 1:
            raise Mistake(f"rate={self.joined:g} must be in [1e-9, 1]: give the probability of being drawn")


def check(delta: float, accountant: str) -> None:
    """Refuse a delta outside (0, 1) and an unknown accountant."""
    if not isinstance(delta, Real) or not 0 < delta < 1:
        given = f"{delta:g}" if isinstance(delta, Real) else delta
        raise Mistake(f"delta={given} must lie between 0 and 1: take less than one over the population")
    if accountant not in ACCOUNTANTS:
        raise Mistake(f"accountant={accountant} is not known: take one of {', '.join(ACCOUNTANTS)}")


def epsilon(releases: Sequence[Release], delta: float, accountant: str = "pld", slack: float = 0.0) -> float:
    """The epsilon of all releases together at `delta`; 0 for none of them, infinite without noise.

    slack: the summed probability that visible aborts distinguish a client. P(E) <= exp(e) Q(E) + d + exp(e) slack,
    so epsilon is the least e that is enough at d = delta - exp(e) slack; infinite where there is none.
    Guarantee: for rdp and pld an upper bound of the true epsilon under "add or remove one client",
    whatever the rounds depend on (adaptive composition). moments is the papers' own, looser formula.
    """
    value = _composed(releases, delta, accountant)
    for _ in range(200):
        if slack == 0 or value == math.inf:
            return value
        left = delta - math.exp(min(value, 700)) * slack
        needed = _composed(releases, left, accountant) if left > 0 else math.inf
        if needed <= value:
            return value
        value = needed * (1 + 1e-6)  # a little past the fixed point, so that the steps end
    return math.inf


def _composed(releases: Sequence[Release], delta: float, accountant: str) -> float:
    check(delta, accountant)
    if any(r.noise == 0 for r in releases):
        return math.inf
    plain, sampled = _grouped(releases)
    if not sampled:
        return gaussian_epsilon(math.sqrt(plain), delta, accountant)
    if plain:
        # Gaussians without sampling compose to one Gaussian: mu^2 = sum 1/s^2.
        sampled = (*sampled, Release(1 / math.sqrt(plain), 1.0))
    if accountant == "moments":
        return _moments_epsilon(sampled, delta)
    if accountant == "rdp":
        return _rdp_epsilon(sampled, delta)
    if max(losses.width(r.noise, r.rate) for r in sampled) > _WIDEST:
        return gaussian_epsilon(math.sqrt(math.fsum(r.count * r.steps / r.noise**2 for r in sampled)), delta)
    groups = (losses.Group(r.noise, r.rate, r.count, r.mirrored, r.steps, r.joined, r.noticed) for r in sampled)
    return losses.epsilon(tuple(groups), delta)


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu: float, delta: float, accountant: str = "pld") -> float:
    """The epsilon of plain Gaussian releases s_i that compose to mu = sqrt(sum 1/s_i^2).

    pld: the exact delta(e) = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) (Balle and Wang 2018), solved.
    rdp: a mu^2/2 at order a, converted. moments: min over integer l of (l(l+1) mu^2/2 - log delta)/l.
    """
    check(delta, accountant)
    if not mu >= 0:
        raise Mistake(f"mu={mu:g} must be zero or positive: give the root of the sum of 1/noise^2")
    if mu == 0:
        return 0.0
    if mu == math.inf:
        return math.inf
    best = math.sqrt(2 * math.log(1 / delta)) / mu  # the order that the simple conversion likes best
    if accountant == "moments":
        orders = {max(1, math.floor(best)), max(1, math.ceil(best))}
        return min((order + 1) * mu**2 / 2 - math.log(delta) / order for order in orders)
    if accountant == "rdp":
        from dp_accounting.rdp import compute_epsilon  # slow to import

        grid = 1 + np.geomspace(best / 100, best * 4, 400)
        return float(compute_epsilon(grid, grid * mu**2 / 2, delta)[0])
    log_delta = math.log(delta)
    if gaussian_log_delta(mu, 0.0) <= log_delta:
        return 0.0
    high = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    root = brent(lambda e: gaussian_log_delta(mu, e) - log_delta, 0.0, high, 1e-12)
    return root * (1 + 1e-9)  # past the solver's error, towards the safe side


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log delta(epsilon) of the Gaussian pair at distance mu; stable for mu from 1e-3 to 200."""
    near, far = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    first = float(special.log_ndtr(near))
    # exp(epsilon) Phi(-far) = phi(near) Mills(far): no large numbers meet.
    second = -(near**2) / 2 + math.log(special.erfcx(far / math.sqrt(2)) / 2)
    gap = second - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


@lru_cache(maxsize=4096)
def log_moment(order: int, noise: float, rate: float) -> float:
    """alpha(order) = log max(E_1, E_2) of the papers' moments accountant, for an integer order.

    E_2 = sum_k C(order+1, k) (1-q)^(order+1-k) q^k exp(k(k-1)/(2 sigma^2)); E_1 never exceeds it
    (Mironov, Talwar, Zhang 2019), so the closed form is the maximum.
    """
    if rate == 1:
        return order * (order + 1) / (2 * noise**2)
    n = order + 1
    k = np.arange(n + 1)
    binomial = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    terms = binomial + (n - k) * math.log1p(-rate) + k * math.log(rate) + k * (k - 1) / (2 * noise**2)
    return max(0.0, float(special.logsumexp(terms)))


def _grouped(releases: Sequence[Release]) -> tuple[float, tuple[Release, ...]]:
    """sum 1/s^2 of the releases without sampling, and the others with equal ones counted together."""
    plain = math.fsum(r.count * r.steps / r.noise**2 for r in releases if r.rate == r.joined == 1)
    counts: dict[tuple[float, float, bool, int, float, bool], int] = {}
    for r in releases:
        if not r.rate == r.joined == 1:
            steps, count = (1, r.count * r.steps) if r.joined == 1 else (r.steps, r.count)
            key = (r.noise, r.rate, r.mirrored, steps, r.joined, r.noticed)
            counts[key] = counts.get(key, 0) + count
    return plain, tuple(Release(s, q, n, m, t, c, seen) for (s, q, m, t, c, seen), n in sorted(counts.items()))


def _moments_epsilon(releases: tuple[Release, ...], delta: float) -> float:
    """min over integer l of (sum alpha(l) - log delta)/l: alpha is convex, so bisection finds the best l."""

    @cache
    def at(order: int) -> float:
        total = math.fsum(
            r.count * float(_joined(r.steps * log_moment(order, r.noise, r.rate), r.joined)) for r in releases
        )
        return (total - math.log(delta)) / order

    low, high = 1, _MOST_MOMENTS
    while low < high:
        middle = (low + high) // 2
        if at(middle + 1) >= at(middle):
            high = middle
        else:
            low = middle + 1
    return at(low)


def _rdp_epsilon(releases: tuple[Release, ...], delta: float) -> float:
    from dp_accounting.rdp import RdpAccountant, compute_epsilon

    with _quiet():
        orders = RdpAccountant().orders
        curve = np.zeros_like(orders, dtype=np.float64)
        for r in releases:
            curve += r.count * _joined((orders - 1) * r.steps * _rdp(r.noise, r.rate), r.joined) / (orders - 1)
        return float(compute_epsilon(orders, curve, delta)[0])


def _joined(log_moment: Any, probability: float) -> Any:
    """log E exp(order loss) of a loss that is 0 with probability 1 - probability: log(1 - c + c exp(moment))."""
    return (
        log_moment if probability == 1 else np.logaddexp(math.log1p(-probability), math.log(probability) + log_moment)
    )


@lru_cache(maxsize=64)
def _rdp(noise: float, rate: float) -> npt.NDArray[np.float64]:
    """The Renyi divergences of one release at the accountant's orders."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    event: Any = dp_event.GaussianDpEvent(noise)
    if rate < 1:
        event = dp_event.PoissonSampledDpEvent(rate, event)
    accountant = RdpAccountant()
    accountant.compose(event)
    return np.asarray(accountant.rdp)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without absl's warnings of orders that it leaves out: the bound holds without them."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
