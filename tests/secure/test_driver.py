"""Rounds that get one client's numbers after another's."""

import tracemalloc

import numpy as np
import pytest

from hush.errors import Aborted, Mistake
from hush.secure import Halves, Round, run, twoserver
from hush.secure.keys import repeatable
from secure.cohorts import identities, numbers, plain, terms

KINDS = pytest.mark.parametrize("kind", [Round, Halves])


@KINDS
def test_in_any_order(kind: type[Round] | type[Halves]) -> None:
    people = identities(9)
    agreed = terms(people, size=33)
    values, names = numbers(agreed), list(people)
    whole = kind(agreed, people, repeatable(b"1"))
    whole.begin()
    for name in (names[i] for i in (8, 1, 5, 3, 0, 7)):  # three are never heard of again
        assert whole.add(name, values[name])
    outcome = whole.finish()
    assert outcome.survivors == tuple(names[i] for i in (0, 1, 3, 5, 7, 8))
    assert np.array_equal(outcome.residues, plain(agreed, values, outcome.survivors))
    assert outcome.refused == ()
    assert outcome.tally is whole.tally


@KINDS
def test_the_same_as_all_at_once(kind: type[Round] | type[Halves]) -> None:
    agreed = terms(identities(6))
    values = numbers(agreed)
    at_once = (run if kind is Round else twoserver.run)(agreed, identities(6), values, draw=repeatable(b"1"))
    whole = kind(agreed, identities(6), repeatable(b"1"))
    whole.begin()
    for name in reversed(values):
        whole.add(name, values[name])
    outcome = whole.finish()
    assert np.array_equal(outcome.residues, at_once.residues)
    assert np.array_equal(outcome.tally.up, at_once.tally.up)
    assert np.array_equal(outcome.tally.down, at_once.tally.down)


@KINDS
def test_what_is_not_taken(kind: type[Round] | type[Halves]) -> None:
    """Numbers that are not whole, a second time, a client that is not of the cohort: told, and the sum stays exact."""
    people = identities(6)
    agreed = terms(people)
    values = numbers(agreed)
    whole = kind(agreed, people)
    whole.begin()
    assert not whole.add(7, values[7] / 2)
    for name in list(people)[1:]:
        assert whole.add(name, values[name])
    assert not whole.add(10, values[10])
    with pytest.raises(Mistake, match="client 8 is not in the cohort"):
        whole.add(8, values[7])
    outcome = whole.finish()
    assert outcome.survivors == tuple(people)[1:]
    assert np.array_equal(outcome.residues, plain(agreed, values, outcome.survivors))
    first, second = outcome.refused
    assert first.startswith("client 7: numbers must be 20 integers")
    assert second.startswith("client 10: ")


@KINDS
def test_an_abort_tells_what_it_cost_and_what_was_refused(kind: type[Round] | type[Halves]) -> None:
    people = identities(6)
    agreed = terms(people)
    values = numbers(agreed)
    whole = kind(agreed, people)
    whole.begin()
    assert not whole.add(7, values[7][:-1])
    for name in list(people)[1:4]:
        whole.add(name, values[name])
    with pytest.raises(Aborted, match=r"3 clients .*, and 4 are needed: nothing is opened") as why:
        whole.finish()
    assert why.value.refused == whole.refused
    assert len(whole.refused) == 1
    row = whole.tally.phases.index("mask" if kind is Round else "numbers")
    assert (whole.tally.up[row] > 0).tolist() == [False, True, True, True, False, False]


def test_an_abort_before_any_numbers() -> None:
    people = identities(6)
    agreed = terms(people)
    run(agreed, people, numbers(agreed))
    whole = Round(agreed, people)  # the same round again
    with pytest.raises(Aborted, match="0 clients advertised keys") as why:
        whole.begin()
    assert len(why.value.refused) == 6
    assert not whole.tally.up.any()


def test_a_client_that_was_lost_before() -> None:
    people = identities(6)
    agreed = terms(people)
    values = numbers(agreed)
    whole = Round(agreed, people, lost=lambda phase, name: (phase, name) in {("share", 7), ("unmask", 10)})
    whole.begin()
    assert [whole.add(name, values[name]) for name in people] == [False] + [True] * 5
    assert whole.finish().survivors == tuple(people)[1:]


def test_out_of_turn() -> None:
    people = identities(4)
    agreed = terms(people)
    whole = Round(agreed, people)
    for early in (lambda: whole.add(7, np.zeros(20, int)), whole.finish):
        with pytest.raises(Mistake, match="at phase advertise and not at mask: begin"):
            early()
    whole.begin()
    with pytest.raises(Mistake, match="at phase mask and not at advertise"):
        whole.begin()


@KINDS
def test_only_the_sum_is_kept(kind: type[Round] | type[Halves]) -> None:
    """Of twelve clients' numbers, far less is held than two of them."""
    people = identities(12)
    agreed = terms(people, size=200_000, bits=16)
    one = np.zeros(agreed.size, np.int32)
    whole = kind(agreed, people)
    whole.begin()
    tracemalloc.start()
    try:
        for name in people:
            whole.add(name, one)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < one.nbytes / 2
