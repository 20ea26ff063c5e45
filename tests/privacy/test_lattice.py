"""Integer noise hides what Gaussian noise of the stated deviation hides: exact divergences, by sums over integers."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import norm
from scipy.stats import skellam as two_poissons

from hush.errors import Mistake
from hush.privacy.grids import KINDS, NoiseKind
from hush.privacy.lattice import _apart, _steepest, gaussians, matching, skellam, worth
from hush.random.tables import NORMAL, SKELLAM

EPSILONS = (0.0, 0.05, 0.3, 1.0, 3.0, 8.0)


def poissons(variance: float) -> dict[int, float]:
    """The probabilities of a Skellam number, from the sums over pairs of Poisson numbers."""
    mean, reach = variance / 2, int(6 * variance + 60)
    single = [math.exp(-mean + i * math.log(mean) - math.lgamma(i + 1)) for i in range(reach)]
    return {
        k: math.fsum(single[i] * single[i + abs(k)] for i in range(reach - abs(k))) for k in range(1 - reach, reach)
    }


def bells(deviation: float, shares: int) -> dict[int, float]:
    """The probabilities of a sum of discrete Gaussians, one share after the other."""
    reach = int(12 * deviation + 3)
    weights = {k: math.exp(-k * k / (2 * deviation**2)) for k in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    found = {0: 1.0}
    for _ in range(shares):
        more: dict[int, float] = {}
        for (a, p), (b, w) in itertools.product(found.items(), weights.items()):
            more[a + b] = more.get(a + b, 0.0) + p * w / whole
        found = more
    return found


LAWS = {
    "skellam 0.3": (poissons(0.3), skellam(0.3)),
    "skellam 2": (poissons(2.0), skellam(2.0)),
    "skellam 20": (poissons(20.0), skellam(20.0)),
    "one gaussian": (bells(0.7, 1), gaussians(0.7, 1)),
    "three gaussians": (bells(1.1, 3), gaussians(1.1, 3)),
    "shares": (bells(1.5, 4), gaussians(1.5, 3.2)),
}
LOOSE = {"small gaussians": (bells(0.7, 3), gaussians(0.7, 3)), "smaller": (bells(0.6, 4), gaussians(0.6, 4))}


def gap(distribution: dict[int, float], shift: int, epsilon: float) -> float:
    """The hockey-stick divergence of the shifted distribution from the distribution."""
    places = range(min(distribution) + min(0, shift), max(distribution) + max(0, shift) + 1)
    return math.fsum(
        max(0.0, distribution.get(k - shift, 0.0) - math.exp(epsilon) * distribution.get(k, 0.0)) for k in places
    )


def normal_gap(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("name", LAWS | LOOSE)
def test_no_test_tells_a_shift_better_than_that_of_a_normal_number(name: str) -> None:
    distribution, r = (LAWS | LOOSE)[name]
    for shift, epsilon in itertools.product((1, 2, 3, 7, -1, -4), EPSILONS):
        assert gap(distribution, shift, epsilon) <= normal_gap(r * abs(shift), epsilon) + 1e-12


@pytest.mark.parametrize("name", LAWS)
def test_with_a_little_less_it_would(name: str) -> None:
    distribution, r = LAWS[name]
    assert any(
        gap(distribution, 1, epsilon) > normal_gap(0.97 * r, epsilon) for epsilon in (0.0, *np.linspace(0.01, 1, 30))
    )


@pytest.mark.parametrize(("shifts", "probability"), [((1, 1), 1.0), ((2, -1), 1.0), ((1, 3), 0.2), ((2, 0), 0.05)])
def test_vectors_and_samples(shifts: tuple[int, int], probability: float) -> None:
    """Two coordinates are distinguished by their distance, and a client that is drawn at times by the sampled pair."""
    distribution, r = LAWS["skellam 2"]
    kept = {k: p for k, p in distribution.items() if p > 1e-12}
    mu = r * math.hypot(*shifts)
    z = np.linspace(-12, 12 + mu, 40_001)
    for epsilon in EPSILONS[:4]:
        exact = math.fsum(
            max(0.0, (1 - probability) * q + probability * p - math.exp(epsilon) * q)
            for a, b in itertools.product(kept, kept)
            for q in [distribution[a] * distribution[b]]
            for p in [distribution.get(a - shifts[0], 0.0) * distribution.get(b - shifts[1], 0.0)]
        )
        mixed = (1 - probability) * norm.pdf(z) + probability * norm.pdf(z - mu) - math.exp(epsilon) * norm.pdf(z)
        assert exact <= float(np.trapezoid(np.maximum(0, mixed), z)) + 1e-6


def test_the_tables_equal_slow_sums() -> None:
    for variance in (0.5, 3.0, 40.0):
        distribution = poissons(variance)
        found = two_poissons.pmf(list(distribution), variance / 2, variance / 2)
        assert np.allclose(found, list(distribution.values()), rtol=1e-9, atol=1e-14)
        tails = [math.fsum(p for k, p in distribution.items() if k >= c) for c in range(0, int(3 * variance) + 3)]
        z = [-float(ndtri(min(1 - 1e-16, u))) for u in tails]
        slow = max(b - a for a, b in itertools.pairwise(z))
        assert skellam(variance) == pytest.approx(slow, rel=2e-6)


@pytest.mark.parametrize("variance", [10.0, 50.0, 1e3, 1e5])
def test_close_to_the_normal_law(variance: float) -> None:
    assert skellam(variance) * math.sqrt(variance) == pytest.approx(
        1 + 1 / (6 * variance), rel=0.1 / variance**2 + 2e-6
    )
    if variance < 1e4:
        assert 1 < gaussians(math.sqrt(variance / 9), 9) * math.sqrt(variance) < 1.01


def test_more_noise_hides_more() -> None:
    found = [skellam(v) for v in (0.1, 0.5, 1, 2, 5, 10, 100, 1000)]
    assert found == sorted(found, reverse=True)
    assert gaussians(1.5, 10) < gaussians(1.5, 9) < gaussians(1.4, 9)


@pytest.mark.parametrize(("deviation", "shares"), [(0.7, 2), (1.0, 2), (0.7, 3), (1.0, 6), (1.5, 4), (3.0, 5)])
def test_sums_of_discrete_gaussians_are_no_farther_from_one_than_stated(deviation: float, shares: int) -> None:
    """Probability at random, where a sum over integers is exact; and of two no nearer than half of it."""
    distribution, total = bells(deviation, shares), deviation * math.sqrt(shares)
    reach = range(-int(6 * total), int(6 * total) + 1)
    one = {k: math.exp(-k * k / (2 * total**2)) for k in range(-int(40 * total), int(40 * total) + 1)}
    whole = math.fsum(one.values())
    off = max(abs(math.log(distribution[k] * whole / one[k])) for k in reach)
    assert off <= _apart(deviation, shares) + 1e-12
    if shares == 2:
        assert off > 0.49 * _apart(deviation, shares)


def test_steps_of_chances_that_are_known_within_a_factor() -> None:
    """However the probabilities lie within their limits, no step is larger than the one that is found."""
    rng, distribution = np.random.default_rng(4), np.array([math.exp(-k * k / 18) for k in range(40)])
    distribution /= distribution[0] + 2 * distribution[1:].sum()
    found = _steepest(distribution, 0.02)
    assert _steepest(distribution, 0.0) < found < 1.2 * _steepest(distribution, 0.0)
    for _ in range(50):
        other = distribution * np.exp(
            rng.choice([-0.01, 0.01], distribution.size)
        )  # to add up to 1 takes another 0.01 at most
        assert _steepest(other / (other[0] + 2 * other[1:].sum()), 0.0) <= found


def test_as_wide_as_the_samplers() -> None:
    assert 1 < skellam(SKELLAM[1]) * math.sqrt(SKELLAM[1]) < 1 + 2e-6
    assert 1 < gaussians(NORMAL[1] / 10, 99.5) * NORMAL[1] < 1 + 2e-6


def test_next_to_nothing_hides_nothing() -> None:
    """A share of a share of noise: 1 / r is what it is worth, never more than it was with more of it, and then 0."""
    found = [skellam(v) for v in (1e-1, 1e-3, 1e-6, 1e-12, 1e-13, 0.0)]
    assert found == sorted(found)
    assert found[-3] < found[-2] == found[-1] == math.inf
    distribution = poissons(1e-3)
    assert found[1] == pytest.approx(
        -2 * float(ndtri(math.fsum(p for k, p in distribution.items() if k > 0))), rel=2e-6
    )
    assert gaussians(0.01, 1) == gaussians(0.0, 5) == gaussians(0.3, 5) == math.inf
    assert 1 < gaussians(0.3, 1) < math.inf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("noise", "l2"), [(0.7, 3.0), (1.54, 91.0), (20.0, 400.0), (1.225, 2.0)])
def test_what_integer_noise_counts_as(kind: NoiseKind, noise: float, l2: float) -> None:
    """A little less than its own deviation, and a little more of it makes up for that."""
    for floor in (1, 2.5):
        found = worth(kind, noise, l2, floor)
        assert 0.9 * noise < found < noise * math.sqrt(math.ceil(floor) / floor)
        needed = matching(kind, noise, l2, floor)
        assert noise <= worth(kind, needed, l2, floor) < 1.01 * max(noise, found)
    if kind == "skellam":
        assert worth(kind, noise, l2, 1) == worth(kind, noise, l2, 80)
    assert worth(kind, 0.0, l2, 5) == 0


@pytest.mark.parametrize("variance", [-1.0, math.nan, 1e9])
def test_noise_that_no_table_covers(variance: float) -> None:
    with pytest.raises(Mistake, match=r"must be from 0 to .*: take a coarser grid"):
        skellam(variance)
    with pytest.raises(Mistake, match=r"must be from 0 to .*: take a coarser grid"):
        gaussians(variance, 3)


@pytest.mark.parametrize("shares", [0, -1, math.nan, math.inf])
def test_shares_that_are_none(shares: float) -> None:
    with pytest.raises(Mistake, match=f"shares={shares:g} must be positive"):
        gaussians(2.0, shares)
