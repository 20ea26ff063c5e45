"""The lower bound: never above the truth but for its stated probability, and close to it with many trials."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hush.audit import lower_bound
from hush.audit.bounds import gaussian_bound
from hush.errors import Mistake
from hush.privacy.accountants import gaussian_epsilon


def normals(rng, mu, trials):
    return rng.normal(mu, 1.0, trials), rng.normal(0.0, 1.0, trials)


@pytest.mark.parametrize(("mu", "delta"), [(0.5, 1e-2), (0.77, 1e-5), (1.5, 1e-3)])
def test_below_the_epsilon_of_two_normal_distributions_and_above_half_of_it(mu, delta):
    truth = gaussian_epsilon(mu, delta)
    found = lower_bound(*normals(np.random.default_rng(1), mu, 10**6), delta).epsilon
    assert 0.6 * truth < found < truth


@pytest.mark.parametrize(("trials", "delta"), [(60, 1e-2), (400, 1e-1)])
def test_false_alarms_are_as_rare_as_stated(trials, delta):
    rng, truth = np.random.default_rng(2), gaussian_epsilon(0.1, delta)
    found = [lower_bound(*normals(rng, 0.1, trials), delta).epsilon for _ in range(200)]
    assert sum(epsilon > truth for epsilon in found) <= 0.05 * 200


def test_randomised_response_at_its_limit():
    """Where one event has all of epsilon, no threshold can miss it: the bound is as tight as its intervals."""
    rng, truth = np.random.default_rng(3), 1.0
    probability = math.exp(truth) / (1 + math.exp(truth))

    def draw(trials):
        truths = rng.random((2, trials)) < probability
        return lower_bound(truths[0].astype(float), 1.0 - truths[1], 0.0).epsilon

    found = np.array([draw(2000) for _ in range(200)])
    assert (found > truth).mean() <= 0.05
    assert found.mean() > 0.8
    assert 0.985 < draw(10**6) < 1.0


def test_equal_distributions_prove_nothing():
    rng = np.random.default_rng(4)
    found = [lower_bound(*normals(rng, 0.0, 1000), 1e-5).epsilon for _ in range(100)]
    assert found.count(0.0) >= 95
    same = np.zeros(1000)
    assert lower_bound(same, same, 0.0).epsilon == 0.0


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("likelier", [True, False])
def test_every_direction_counts(above, likelier):
    """One world has something rare that the other never has, on one side."""
    still, moved = np.zeros(20000), np.where(np.arange(20000) % 10 == 0, 1.0 if above else -1.0, 0.0)
    found = lower_bound(moved, still, 1e-5) if likelier else lower_bound(still, moved, 1e-5)
    assert (found.above, found.often, found.seldom) == (above, 1000, 0)
    assert 4.5 < found.epsilon < math.log(0.1 * 10000)


def test_what_delta_allows_is_not_counted():
    still, moved = np.zeros(20000), np.where(np.arange(20000) % 100 == 0, 1.0, 0.0)
    assert lower_bound(moved, still, 0.0).epsilon > 2
    assert lower_bound(moved, still, 0.01).epsilon == 0.0


def test_the_intervals_are_those_of_clopper_and_pearson():
    found = lower_bound(*normals(np.random.default_rng(5), 1.0, 4000), 1e-3, confidence=0.9)
    level = 1 - 2 * 0.1 / 8  # both sides of it are left out, and there are eight
    p = binomtest(found.often, 2000).proportion_ci(level, "exact").low
    q = binomtest(found.seldom, 2000).proportion_ci(level, "exact").high
    assert found.epsilon == pytest.approx(math.log((p - 1e-3) / q), rel=1e-9)


def test_the_event_is_not_counted_where_it_was_chosen():
    """A difference that only the first halves have is chosen and then not found."""
    present, absent = np.zeros(2000), np.zeros(2000)
    present[:1000] = 1.0
    assert lower_bound(present, absent, 1e-5).epsilon == 0.0
    assert lower_bound(present[::-1], absent, 1e-5).epsilon == 0.0


def test_unequal_numbers_of_trials():
    rng = np.random.default_rng(6)
    found = lower_bound(rng.normal(1.0, 1.0, 10**5), rng.normal(0.0, 1.0, 10**4), 1e-3).epsilon
    assert 1.0 < found < gaussian_epsilon(1.0, 1e-3)


@pytest.mark.parametrize(
    ("present", "delta", "confidence", "word"),
    [
        (np.zeros(1), 0.1, 0.95, "present"),
        (np.zeros((2, 2)), 0.1, 0.95, "present"),
        (np.array([0.0, np.nan]), 0.1, 0.95, "no numbers"),
        (np.zeros(2), 1.0, 0.95, "delta=1"),
        (np.zeros(2), -0.1, 0.95, "delta=-0.1"),
        (np.zeros(2), 0.1, 1.0, "confidence=1"),
    ],
)
def test_mistakes(present, delta, confidence, word):
    with pytest.raises(Mistake, match=word):
        lower_bound(present, np.zeros(2), delta, confidence)


def test_the_normal_fit_of_scores_that_do_not_differ_shows_something_as_seldom_as_it_says():
    rng = np.random.default_rng(7)
    wrong = sum(gaussian_bound(*rng.normal(size=(2, 75)), 1e-5, 0.95) > 0 for _ in range(4000))
    assert wrong < 4000 * 0.05 + 4 * math.sqrt(4000 * 0.05 * 0.95)
    assert gaussian_bound(*rng.normal(size=(2, 75)), 0.0, 1 - 1e-9) == 0.0


def test_the_normal_fit_looks_one_way():
    """Scores of the client's world that lie below the others' are a test that learned nothing."""
    still, moved = normals(np.random.default_rng(8), 2.0, 4000)
    low, high = sorted((still, moved), key=np.mean)
    assert gaussian_bound(low, high, 1e-5) == 0.0 < gaussian_bound(high, low, 1e-5)
