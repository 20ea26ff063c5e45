import math
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import integrate, optimize, stats

from hush.errors import Mistake
from hush.privacy.accountants import (
    ACCOUNTANTS,
    Release,
    epsilon,
    gaussian_epsilon,
    gaussian_log_delta,
    log_moment,
)

DELTA = 1e-5


@pytest.mark.parametrize(
    ("noise", "rate", "rounds", "published"),
    [
        (1.54, 1 / 60, 60, 0.76),
        (1.54, 1 / 60, 152, 0.92),
        (1.54, 1 / 60, 157, 0.93),
        (1.54, 1 / 60, 184, 0.97),
        (1.54, 1 / 60, 200, 1.00),
        (1.49, 100 / 5010, 22, 0.79),
        (1.49, 100 / 5010, 85, 0.97),
        (1.49, 100 / 5010, 100, 1.00),
    ],
)
def test_moments_gives_every_pair_of_the_papers(noise, rate, rounds, published):
    assert round(epsilon([Release(noise, rate, rounds)], DELTA, "moments"), 2) == published


@pytest.mark.parametrize(
    ("noise", "rate", "rounds", "tight"),
    [(1.54, 1 / 60, 200, 0.68), (1.49, 100 / 5010, 100, 0.63), (1.54 / 2, 1 / 60, 200, 3.10)],
)
def test_pld_is_tight(noise, rate, rounds, tight):
    assert round(epsilon([Release(noise, rate, rounds)], DELTA), 2) == tight


@pytest.mark.parametrize(("participations", "expected"), [(1, 2.67), (3, 5.02), (10, 10.33)])
def test_known_participations_have_no_amplification(participations, expected):
    assert round(gaussian_epsilon(math.sqrt(participations) / 1.54, DELTA), 2) == expected
    assert epsilon([Release(1.54, 1.0, participations)], DELTA) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("order", "noise", "rate"), [(1, 1.54, 1 / 60), (7, 1.1, 0.1), (20, 2.0, 0.3)])
def test_log_moment_equals_the_slow_integrals(order, noise, rate):
    def null(z):
        return stats.norm.pdf(z, 0, noise)

    def mixed(z):
        return (1 - rate) * null(z) + rate * stats.norm.pdf(z, 1, noise)

    span = (-12 * noise, 12 * noise + order)
    first = integrate.quad(lambda z: null(z) * (null(z) / mixed(z)) ** order, *span, limit=400)[0]
    second = integrate.quad(lambda z: mixed(z) * (mixed(z) / null(z)) ** order, *span, limit=400)[0]
    assert log_moment(order, noise, rate) == pytest.approx(math.log(max(first, second)), rel=1e-6, abs=1e-9)


def test_moments_finds_the_best_order_of_all():
    every = [(200 * log_moment(o, 1.54, 1 / 60) - math.log(DELTA)) / o for o in range(1, 200)]
    assert epsilon([Release(1.54, 1 / 60, 200)], DELTA, "moments") == pytest.approx(min(every), rel=1e-12)


def test_pld_of_two_rounds_against_brute_force():
    """delta(e) of two sampled releases, by a plain double sum over both outputs."""
    noise, rate, delta = 1.2, 0.2, 1e-3
    z = np.linspace(-9 * noise, 9 * noise + 1, 1500)
    null = stats.norm.pdf(z, 0, noise)
    mixed = (1 - rate) * null + rate * stats.norm.pdf(z, 1, noise)
    cell = (z[1] - z[0]) ** 2

    def excess(e: float) -> float:
        removed = np.maximum(np.outer(mixed, mixed) - math.exp(e) * np.outer(null, null), 0).sum() * cell
        added = np.maximum(np.outer(null, null) - math.exp(e) * np.outer(mixed, mixed), 0).sum() * cell
        return float(max(removed, added)) - delta

    truth = optimize.brentq(excess, 0.01, 5, xtol=1e-5)
    found = epsilon([Release(noise, rate, 2)], delta)
    assert found == pytest.approx(truth, abs=1e-3)
    assert found >= truth - 1e-4


def test_pld_counts_every_release():
    one = privacy_loss_distribution.from_gaussian_mechanism(1.3, sampling_prob=0.05, value_discretization_interval=1e-3)
    whole = one
    for _ in range(11):
        whole = whole.compose(one)
    expected = whole.get_epsilon_for_delta(DELTA)
    assert epsilon([Release(1.3, 0.05, 12)], DELTA) == pytest.approx(expected, abs=2e-3)
    assert epsilon([Release(1.3, 0.05, 5), Release(1.3, 0.05, 7)], DELTA) == epsilon([Release(1.3, 0.05, 12)], DELTA)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_unlike_releases_compose(accountant):
    vote, updates = Release(4.0, 1.0), Release(1.54, 1 / 60, 50)
    both = epsilon([vote, updates], DELTA, accountant)
    alone = [epsilon([r], DELTA, accountant) for r in (vote, updates)]
    assert max(alone) < both < sum(alone)


def test_two_sampled_groups_of_very_different_width():
    wide, narrow = Release(0.8, 0.02, 20), Release(8.0, 0.02, 20)
    both = epsilon([wide, narrow], DELTA)
    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(
            r.noise, sampling_prob=r.rate, value_discretization_interval=5e-4
        ).self_compose(r.count)
        for r in (wide, narrow)
    ]
    assert both == pytest.approx(parts[0].compose(parts[1]).get_epsilon_for_delta(DELTA), abs=2e-3)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_epsilon_grows_with_rounds_and_shrinks_with_noise(accountant):
    by_rounds = [epsilon([Release(1.54, 1 / 60, t)], DELTA, accountant) for t in (60, 61, 62, 120, 200)]
    by_noise = [epsilon([Release(s, 1 / 60, 60)], DELTA, accountant) for s in (1.0, 1.01, 1.5, 3.0)]
    by_rate = [epsilon([Release(1.54, q, 60)], DELTA, accountant) for q in (0.01, 0.011, 0.1, 0.99, 1.0)]
    assert all(a < b for a, b in pairwise(by_rounds))
    assert all(a > b for a, b in pairwise(by_noise))
    assert all(a < b for a, b in pairwise(by_rate))


@pytest.mark.parametrize("noise", [0.02, 0.3, 1.0, 20.0])
def test_the_accountants_are_ordered(noise):
    moments, rdp, pld = (epsilon([Release(noise, 0.05, 30)], DELTA, a) for a in ACCOUNTANTS)
    assert pld <= rdp * (1 + 1e-3) <= moments * (1 + 1e-2)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_no_noise_is_infinite_and_no_release_costs_nothing(accountant):
    assert epsilon([Release(1.0, 0.5), Release(0.0, 0.5)], DELTA, accountant) == math.inf
    assert epsilon([], DELTA, accountant) == 0.0
    assert gaussian_epsilon(math.inf, DELTA, accountant) == math.inf


@pytest.mark.parametrize("mu", [1e-3, 0.03, 0.65, 3.0, 30.0, 200.0])
def test_gaussian_epsilon_inverts_delta(mu):
    found = gaussian_epsilon(mu, DELTA)
    assert gaussian_log_delta(mu, found) <= math.log(DELTA)
    assert gaussian_log_delta(mu, found * (1 - 1e-6)) > math.log(DELTA)


@pytest.mark.parametrize(("mu", "e"), [(0.5, 0.1), (1.0, 2.0), (2.0, 5.0)])
def test_gaussian_delta_is_the_hockey_stick(mu, e):
    tail = integrate.quad(
        lambda z: max(0.0, stats.norm.pdf(z, mu, 1) - math.exp(e) * stats.norm.pdf(z, 0, 1)),
        -12,
        14,
        limit=400,
    )[0]
    assert math.exp(gaussian_log_delta(mu, e)) == pytest.approx(tail, rel=1e-5)


def test_a_gaussian_that_delta_covers_costs_nothing():
    assert gaussian_epsilon(1e-6, DELTA) == 0.0
    assert gaussian_epsilon(0.0, DELTA) == 0.0


@pytest.mark.parametrize("mu", [1e-3, 0.65, 30.0])
def test_rdp_of_a_gaussian_lies_between_exact_and_moments(mu):
    exact, rdp, moments = (gaussian_epsilon(mu, DELTA, a) for a in ("pld", "rdp", "moments"))
    assert exact < rdp < moments


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Release(-1, 0.5), "noise=-1 must"),
        (lambda: Release(math.nan, 0.5), "noise=nan must"),
        (lambda: Release(1, 0.0), "rate=0 must"),
        (lambda: Release(1, 1.5), "rate=1.5 must"),
        (lambda: Release(1, 0.5, 0), "rounds=0 must"),
        (lambda: epsilon([], 1.0), "delta=1 must"),
        (lambda: epsilon([], 0.0), "delta=0 must"),
        (lambda: epsilon([], DELTA, "guess"), "accountant=guess is not known"),
        (lambda: gaussian_epsilon(-1.0, DELTA), "mu=-1 must"),
    ],
)
def test_mistakes_name_the_value_and_the_rule(call, sentence):
    with pytest.raises(Mistake, match=sentence):
        call()
