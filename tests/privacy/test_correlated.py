"""What one client moves, by trying all it could do; what noise is left, by whole matrices."""

import itertools
import math
from collections.abc import Iterable

import numpy as np
import pytest
from scipy.linalg import toeplitz

from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon, gaussian_epsilon
from hush.privacy.calibration import noise_for
from hush.privacy.correlated import Correlation
from hush.privacy.toeplitz import Floats, square_root

CASES = [(1, 1), (4, 1), (6, 1), (6, 2), (8, 2), (9, 3), (6, 3), (4, 4)]  # rounds, passes


def matrix(column: Floats, rounds: int) -> Floats:
    return toeplitz(np.pad(column, (0, rounds - len(column))), np.zeros(rounds))


def furthest(c: Floats, patterns: Iterable[tuple[int, ...]]) -> float:
    """The largest |C g| over g that are -1, 0 or 1 in the rounds of a pattern and 0 elsewhere.

    |C g| is convex in g, so that numbers in between go no further; nor do vectors, where columns do not meet.
    """
    found = 0.0
    for pattern in patterns:
        for values in itertools.product((-1.0, 0.0, 1.0), repeat=len(pattern)):
            found = max(found, float(np.linalg.norm(c[:, list(pattern)] @ np.array(values))))
    return found


def turns(correlation: Correlation) -> list[tuple[int, ...]]:
    """The rounds of a client, counted from 0, by its turn."""
    return [tuple(range(p, correlation.rounds, correlation.cohorts)) for p in range(correlation.cohorts)]


@pytest.mark.parametrize(("rounds", "passes"), CASES)
def test_the_worst_client(rounds: int, passes: int) -> None:
    found = Correlation(rounds, passes)
    c = matrix(found.column, rounds)
    assert found.sensitivity == pytest.approx(furthest(c, turns(found)), rel=1e-12)
    assert furthest(c, turns(found)[:1]) == pytest.approx(found.sensitivity, rel=1e-12)  # that of the first turn
    assert all(furthest(c, [turn]) <= found.sensitivity * (1 + 1e-12) for turn in turns(found))


@pytest.mark.parametrize(("rounds", "passes"), CASES)
def test_a_client_that_stops_early_moved_less(rounds: int, passes: int) -> None:
    """After j passes it has paid for j releases: sqrt(j) |c|."""
    found = Correlation(rounds, passes)
    c = matrix(found.column, rounds)
    for j in range(1, passes + 1):
        moved = furthest(c, [turn[:j] for turn in turns(found)])
        assert moved == pytest.approx(math.sqrt(j) * found.length, rel=1e-12)


def test_columns_of_a_turn_never_meet() -> None:
    """So that signs and directions do not matter."""
    found = Correlation(12, 3)
    c = matrix(found.column, 12)
    for turn in turns(found):
        gram = c[:, turn].T @ c[:, turn]
        assert not (gram - np.diag(np.diag(gram))).any()


def test_passes_in_another_order_would_move_more() -> None:
    """Why the schedule must be the same in each pass: a last turn followed by a first one."""
    found = Correlation(8, 2)
    mixed = [(p, 4 + q) for p in range(4) for q in range(4)]
    assert furthest(matrix(found.column, 8), mixed) > 1.2 * found.sensitivity


def test_without_a_band_passes_would_move_more() -> None:
    found = Correlation(8, 2)
    assert furthest(matrix(square_root(8), 8), turns(found)) > 1.2 * found.sensitivity


@pytest.mark.parametrize(("rounds", "passes"), CASES)
def test_what_stays_in_the_running_sums(rounds: int, passes: int) -> None:
    found = Correlation(rounds, passes)
    c = matrix(found.column, rounds)
    undone = np.linalg.inv(c)
    np.testing.assert_allclose(matrix(found.weights, rounds), undone, atol=1e-13)
    expected = found.length * np.linalg.norm(np.tri(rounds) @ undone, axis=1)
    np.testing.assert_allclose(found.deviations, expected, rtol=1e-12)
    if passes == 1:  # A C^-1 is C itself
        np.testing.assert_allclose(found.deviations, found.length * np.linalg.norm(c, axis=1), rtol=1e-12)
        assert found.deviations[-1] == pytest.approx(found.length**2)


@pytest.mark.parametrize(
    ("rounds", "passes", "last", "part"),
    [(8, 1, 1.718, 0.559), (24, 1, 2.075, 0.296), (24, 3, 2.432, 0.313), (120, 1, 2.590, 0.0975)],
)
def test_less_than_independent_noise_at_the_same_epsilon(rounds: int, passes: int, last: float, part: float) -> None:
    """The deviation at the end, in units of sigma S, and the variance over all rounds beside that of new noise."""
    found = Correlation(rounds, passes)
    independent = np.arange(1, rounds + 1)
    assert found.deviations[-1] == pytest.approx(last, rel=5e-4)
    assert (found.deviations**2).mean() / independent.mean() == pytest.approx(part, rel=5e-3)


@pytest.mark.parametrize("cohorts", [8, 24, 120, 2000])
def test_the_length_by_its_formula(cohorts: int) -> None:
    assert Correlation(cohorts).length ** 2 == pytest.approx(1.07 + math.log(cohorts) / math.pi, rel=0.01)


def test_one_round_is_plain_noise() -> None:
    found = Correlation(1)
    assert (found.length, found.sensitivity, found.weights.tolist(), found.deviations.tolist()) == (1, 1, [1], [1])
    every = Correlation(5, 5)  # everybody in every round: nothing to take back
    assert every.weights.tolist() == [1, 0, 0, 0, 0]
    np.testing.assert_allclose(every.deviations, np.sqrt(np.arange(1, 6)))


def test_what_an_epsilon_asks_for() -> None:
    """One release where a client takes part once, k where it does k times, however many rounds there are."""
    assert noise_for(1.0, 1e-5, 1.0, 1) == 3.731
    assert epsilon([Release(3.731, 1.0)], 1e-5) <= 1 < epsilon([Release(3.73, 1.0)], 1e-5)
    found, sigma = Correlation(24, 3), 6.462
    assert noise_for(1.0, 1e-5, 1.0, 3) == sigma
    whole = gaussian_epsilon(found.sensitivity / (sigma * found.length), 1e-5)  # of C x under noise of deviation s
    assert whole == pytest.approx(epsilon([Release(sigma, 1.0, 3)], 1e-5), rel=1e-9)


@pytest.mark.parametrize(("rounds", "passes"), [(0, 1), (5, 2), (3, 0), (-2, 1), (2, 4)])
def test_refused(rounds: int, passes: int) -> None:
    with pytest.raises(Mistake, match=f"rounds={rounds} must be a multiple of passes={passes}"):
        Correlation(rounds, passes)
