"""Cohorts: their distribution, their names, their limits."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import Mistake
from hush.parts.sampling import Fixed, Once, Poisson
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(1)


def table(sampling: Fixed | Poisson, population: int, rounds: int) -> np.ndarray:
    """One row per round, one column per client: whether it was drawn."""
    drawn = np.zeros((rounds, population), bool)
    for t in range(rounds):
        members = sampling.draw(population, SECRET, t)
        assert np.array_equal(members, np.unique(members))
        assert members.dtype == np.int64
        drawn[t, members] = True
    return drawn


def test_fixed_cohorts() -> None:
    drawn = table(Fixed(5), 20, 2000)
    assert (drawn.sum(1) == 5).all()
    assert drawn.mean(0) == pytest.approx(np.full(20, 0.25), abs=0.04)


def test_poisson_cohorts() -> None:
    """Each client by itself: sizes are binomial, and no two clients go together."""
    drawn = table(Poisson(0.25), 20, 2000)
    assert drawn.mean(0) == pytest.approx(np.full(20, 0.25), abs=0.04)
    sizes = np.bincount(drawn.sum(1), minlength=21) / 2000
    assert sizes == pytest.approx(binom.pmf(np.arange(21), 20, 0.25), abs=0.04)
    together = np.corrcoef(drawn.T.astype(float)) - np.eye(20)
    assert np.abs(together).max() < 0.08


def test_poisson_may_draw_nobody() -> None:
    sizes = table(Poisson(0.05), 10, 200).sum(1)
    assert sizes.min() == 0


def test_everyone() -> None:
    assert Poisson(1.0).draw(7, SECRET, 1).tolist() == list(range(7))
    assert Fixed(7).draw(7, SECRET, 1).tolist() == list(range(7))


@pytest.mark.parametrize("sampling", [Fixed(5), Poisson(0.25)])
def test_rounds_and_seeds_draw_anew(sampling: Fixed | Poisson) -> None:
    def draws(seed: int) -> list[list[int]]:
        return [sampling.draw(1000, SecretSeed.simulated(seed), t).tolist() for t in range(3)]

    assert draws(1) == draws(1)
    everything = draws(1) + draws(2)
    assert all(a != b for i, a in enumerate(everything) for b in everything[:i])


def test_rates() -> None:
    assert (Fixed(5).rate(20), Fixed(5).cohort(20), Fixed(5).slack(20)) == (0.25, 5.0, 0.0)
    assert (Poisson(0.25).rate(20), Poisson(0.25).cohort(20), Poisson(0.25).slack(20)) == (0.25, 5.0, 0.0)


@pytest.mark.parametrize("floor", [1, 3, 8])
def test_slack_bounds_the_tell(floor: int) -> None:
    """How far the probability of an abort moves when one client comes or goes, either way."""
    sampling = Poisson(0.3, floor=floor)

    def abort(population: int) -> float:
        return float(binom.cdf(floor - 1, population, 0.3))

    tell = max(abs(abort(20) - abort(19)), abs(abort(20) - abort(21)))
    assert sampling.slack(20) >= tell - 1e-12
    assert sampling.slack(20) <= 1.5 * tell


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Poisson(0.0), r"sampling rate 0.0 must be in \(0, 1\]"),
        (lambda: Poisson(1.5), "sampling rate 1.5"),
        (lambda: Poisson(float("nan")), "sampling rate nan"),
        (lambda: Fixed(0), "cohort=0 must be at least 1"),
        (lambda: Fixed(5, floor=-1), "floor=-1 must not be negative"),
        (lambda: Fixed(5, tolerance=1.0), "tolerance=1.0"),
        (lambda: Poisson(0.5, tolerance=-0.1), "tolerance=-0.1"),
        (lambda: Once(0), "cohorts=0 and passes=1 must be at least 1"),
        (lambda: Once(3, 0), "cohorts=3 and passes=0 must be at least 1"),
        (lambda: Once(3, floor=-1), "floor=-1 must not be negative"),
        (lambda: Once(3).draw(2, SECRET, 1), "cohorts=3 are more than the 2 clients: take fewer rounds"),
        (lambda: Once(3).cohort(2), "cohorts=3 are more than the 2 clients"),
        (lambda: Once(3, 2).draw(9, SECRET, 7), "round 7 is not one of the 6 in which clients have their turn"),
        (lambda: Once(3, 2).draw(9, SECRET, 0), "round 0 is not one of the 6"),
        (lambda: Fixed(5).draw(4, SECRET, 1), "cohort=5 is larger than the population of 4: lower it"),
    ],
)
def test_refused(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()


@pytest.mark.parametrize("sampling", [Fixed(100), Poisson(1e-7)])
def test_a_cohort_of_a_billion_costs_no_more_than_its_own_size(sampling):
    """A list of all clients would take 8 GB."""
    tracemalloc.start()
    members = sampling.draw(10**9, SecretSeed.simulated(1), 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 50 < len(set(members.tolist())) == len(members) < 200
    assert members.max() > 5 * 10**8
    assert peak < 100_000


@pytest.mark.parametrize(("population", "cohorts"), [(20, 4), (23, 4), (5, 5), (7, 1)])
def test_once_in_each_pass(population: int, cohorts: int) -> None:
    """Disjoint cohorts that hold everybody, of sizes that differ by one at most; the same ones in each pass."""
    sampling = Once(cohorts, passes=3, seed=2)
    rounds = [sampling.draw(population, SECRET, t) for t in range(1, sampling.rounds + 1)]
    assert len(rounds) == 3 * cohorts
    assert np.array_equal(np.sort(np.concatenate(rounds[:cohorts])), np.arange(population))
    sizes = [len(members) for members in rounds]
    assert max(sizes) - min(sizes) <= 1
    for t, members in enumerate(rounds):
        assert members.dtype == np.int64
        assert np.array_equal(members, np.unique(members))
        assert np.array_equal(members, rounds[t % cohorts])


def test_turns_are_public_and_shuffled() -> None:
    """No secret matters, and a seed decides who goes together."""

    def draws(seed: int, secret: SecretSeed) -> list[list[int]]:
        return [Once(4, seed=seed).draw(1000, secret, t).tolist() for t in range(1, 5)]

    assert draws(0, SECRET) == draws(0, SecretSeed.system())
    everything = draws(0, SECRET) + draws(1, SECRET)
    assert all(a != b for i, a in enumerate(everything) for b in everything[:i])
    firsts = np.array([len(set(Once(4, seed=s).draw(100, SECRET, 1).tolist()) & set(range(25))) for s in range(200)])
    assert firsts.mean() == pytest.approx(6.25, abs=0.5)


def test_what_turns_are_worth() -> None:
    """Nothing is amplified; the divisor is the mean cohort."""
    assert (Once(4).rate(22), Once(4).cohort(22), Once(4).slack(22)) == (1.0, 5.5, 0.0)


def test_a_cohort_is_the_callers_to_change() -> None:
    first = Once(3).draw(9, SECRET, 1)
    before = first.copy()
    first[:] = 0
    assert np.array_equal(Once(3).draw(9, SECRET, 1), before)
