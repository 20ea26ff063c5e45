"""The fast tally against the plain one that looks at everybody."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hush.privacy.tally import Costs

AMOUNTS = st.sampled_from([0.0, 0.1, 0.1, 0.3, 1 / 3, 2.0, 1e-30, math.inf])


@st.composite
def histories(draw):
    clients = draw(st.integers(1, 9))
    cohort = st.lists(st.integers(0, clients - 1), unique=True)
    return clients, draw(st.lists(st.tuples(cohort, AMOUNTS), max_size=40))


def assert_equal(tally, sums):
    np.testing.assert_array_equal(tally.values, sums)
    assert tally.largest == sums.max()
    assert tally.median == np.sort(sums)[len(sums) // 2]


@given(histories())
def test_largest_and_median_are_those_of_a_look_at_everybody(history):
    clients, rounds = history
    tally, sums = Costs(np.zeros(clients)), np.zeros(clients)
    for members, amount in rounds:
        tally.add(np.array(members, np.int64), amount)
        np.add.at(sums, np.array(members, np.int64), amount)
        assert_equal(tally, sums)
        assert_equal(Costs(sums.copy()), sums)  # as read from a checkpoint


def test_the_median_is_numpys_higher_one():
    for clients in range(1, 12):
        values = np.random.default_rng(clients).random(clients)
        assert Costs(values).median == np.quantile(values, 0.5, method="higher")


def test_many_rounds_of_unlike_amounts():
    """Each sum differs from all others, and the heap must not keep those that are gone."""
    rng = np.random.default_rng(0)
    tally, sums = Costs(np.zeros(50)), np.zeros(50)
    for _ in range(3000):
        members, amount = np.flatnonzero(rng.random(50) < 0.3), float(rng.random())
        tally.add(members, amount)
        sums[members] += amount
    assert_equal(tally, sums)
    assert len(tally._heap) < 1200
