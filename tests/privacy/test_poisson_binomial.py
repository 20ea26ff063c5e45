"""The spread of coins: against exact arithmetic, against exact divergences, and no larger than it must be."""

import math
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from hush.errors import Mistake
from hush.privacy.accountants import gaussian_log_delta
from hush.privacy.poisson_binomial import MOST, spread

NORMAL = NormalDist()


def heads(probabilities: list[Fraction]) -> list[Fraction]:
    """The exact probabilities of 0, 1, ... heads, coin by coin."""
    found = [Fraction(1)]
    for probability in probabilities:
        found = [a * (1 - probability) + b * probability for a, b in zip([*found, 0], [0, *found], strict=True)]
    return found


def quantile(p: Fraction) -> float:
    """By halving: the z with Phi(z) = p, from the smaller tail."""
    tail, low, high = float(min(p, 1 - p)), 0.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) / 2 > tail else (low, middle)
    return -low if p < Fraction(1, 2) else low


def slow_spread(coins: int, edge: Fraction, steps: int = 8) -> float:
    """The largest d_c(a) / a over all thresholds, all corners, and biases on a grid up to the edge."""
    half, worst = Fraction(1, 2), 0.0
    for high in range(coins):
        f = heads([half + edge] * high + [half - edge] * (coins - 1 - high))
        for c in range(1, coins + 1):
            none = sum(f[: c - 1]) + f[c - 1] / 2
            for step in range(1, steps + 1):
                a = edge * step / steps
                worst = max(worst, (quantile(none) - quantile(none - a * f[c - 1])) / float(a))
    return worst


@pytest.mark.parametrize("edge", [Fraction(1, 16), Fraction(1, 8), Fraction(1, 4), Fraction(1, 100)])
@pytest.mark.parametrize("coins", [1, 2, 3, 5, 8])
def test_equals_exact_arithmetic(coins: int, edge: Fraction) -> None:
    """Above it by the margin for rounding alone: the worst threshold never is one where the bound is a bound."""
    slow = slow_spread(coins, edge)
    assert slow < spread(coins, float(edge)) < slow * (1 + 1.1e-6)


def test_twelve_coins() -> None:
    slow = slow_spread(12, Fraction(1, 16), steps=2)
    assert slow < spread(12, 1 / 16) < slow * (1 + 1.1e-6)


def test_known_values() -> None:
    """Times sqrt(n) / 2, which is 1 for many unbiased coins."""
    found = [spread(n, 1 / 16) * math.sqrt(n) / 2 for n in (1, 2, 10, 31, 100, 165)]
    assert found == pytest.approx([1.2585, 1.2185, 1.1004, 1.0755, 1.0674, 1.0660], abs=1e-4)
    # The quantile of 1/2 + a has the slope sqrt(2 pi) at first.
    assert spread(1, 1 / 1024) == pytest.approx(math.sqrt(2 * math.pi), rel=1e-5)


@pytest.mark.parametrize("edge", [1 / 64, 1 / 16, 1 / 4])
def test_more_coins_hide_more(edge: float) -> None:
    found = [spread(n, edge) for n in (*range(1, 20), 30, 50, 80, 120)]
    assert all(more < fewer for fewer, more in pairwise(found))


def test_as_many_as_are_credited() -> None:
    """Beyond MOST no more time is spent, and no coin is claimed."""
    assert spread(10 * MOST, 1 / 16) == spread(MOST, 1 / 16)
    assert spread(MOST, 1 / 16) * math.sqrt(MOST) / 2 == pytest.approx(1.06397, abs=1e-5)


def distribution(probabilities: np.ndarray) -> np.ndarray:
    found = np.ones(1)
    for probability in probabilities:
        found = np.convolve(found, [1 - probability, probability])
    return found


def excess(p: np.ndarray, q: np.ndarray, mu: float) -> float:
    """By how much a hockey-stick divergence of the pair is above the Gaussian's, over many orders, both directions."""
    worst = -math.inf
    with np.errstate(divide="ignore"):
        losses = np.log(p) - np.log(q)
    top = max(abs(losses[np.isfinite(losses)]))
    for e in np.linspace(-1.2 * top, 1.2 * top, 61):
        gauss = math.exp(gaussian_log_delta(mu, e))
        for one, other in ((p, q), (q, p)):
            worst = max(worst, float(np.maximum(one - math.exp(e) * other, 0).sum()) - gauss)
    return worst


@pytest.mark.parametrize("edge", [1 / 16, 1 / 4])
@pytest.mark.parametrize("coins", [1, 2, 3, 7, 20])
def test_no_divergence_exceeds_the_gaussian(coins: int, edge: float) -> None:
    """Whatever the other coins and one's own bias, of either sign: at corners, within, and mixed."""
    rng, rho = np.random.default_rng(coins), spread(coins, edge)
    for trial in range(60):
        a = edge * (1 if trial % 3 == 0 else rng.uniform(0.01, 1)) * rng.choice([-1, 1])
        others = rng.uniform(-edge, edge, coins - 1) if trial % 2 else rng.choice([-edge, edge], coins - 1)
        if trial < 2:
            others = np.full(coins - 1, -math.copysign(edge, a))
        p, q = distribution(0.5 + np.append(others, a)), distribution(0.5 + np.append(others, 0.0))
        assert excess(p, q, rho * abs(a)) < 1e-14


@pytest.mark.parametrize("coins", [1, 2, 5, 20])
def test_no_smaller_spread_would_do(coins: int) -> None:
    edge = 1 / 16
    others = np.full(coins - 1, -edge)
    p, q = distribution(0.5 + np.append(others, edge)), distribution(0.5 + np.append(others, 0.0))
    assert excess(p, q, 0.97 * spread(coins, edge) * edge) > 1e-9


def test_vectors_sampling_and_replacement_go_through_the_channel() -> None:
    """Two numbers of two coins each: composed, sampled at 0.3, and one client replaced by its opposite."""
    edge, rho = 1 / 16, spread(3, 1 / 16)
    others = np.full(2, -edge)

    def product(a: float, b: float) -> np.ndarray:
        once = [distribution(0.5 + np.append(others, x)) for x in (a, a, b, b)]
        whole = once[0]
        for other in once[1:]:
            whole = np.outer(whole, other).ravel()
        return whole

    x = edge, edge / 2
    p, q, r = product(*x), product(0, 0), product(-x[0], -x[1])
    mu = math.sqrt(2) * rho * math.hypot(*x)
    assert excess(p, q, mu) < 1e-14
    assert excess(p, r, 2 * mu) < 1e-14
    for e in np.linspace(-0.3, 0.3, 31):  # H of (1-s) N(0,1) + s N(mu,1) against N(0,1), at its one crossing
        if math.exp(e) > 0.7:
            cross = math.log((math.exp(e) - 0.7) / 0.3) / mu + mu / 2
            tails = [1 - NORMAL.cdf(cross - shift) for shift in (0, mu)]
            gauss = 0.7 * tails[0] + 0.3 * tails[1] - math.exp(e) * tails[0]
            assert np.maximum(0.7 * q + 0.3 * p - math.exp(e) * q, 0).sum() < gauss + 1e-14


@pytest.mark.parametrize(("coins", "edge"), [(0, 0.1), (-3, 0.1), (5, 0.0), (5, 0.3), (5, 1e-4), (5, math.nan)])
def test_refused(coins: int, edge: float) -> None:
    with pytest.raises(Mistake, match=r"coins=|edge="):
        spread(coins, edge)
