from dataclasses import replace

import pytest

from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon
from hush.privacy.events import Event, only_sampling, relation, releases, repeated

UPDATE = Event(round=1, noise=1.54, share=0.154, rate=1 / 60, sampling="poisson")


def test_a_replaced_client_moves_the_sum_twice_as_far():
    fixed = replace(UPDATE, sampling="fixed")
    assert releases([UPDATE, fixed]) == (Release(1.54, 1 / 60), Release(0.77, 1 / 60, mirrored=True))
    assert relation("poisson") == "add or remove one client"
    assert relation("fixed") == "replace one client by another"


def test_fixed_cohorts_of_the_paper():
    proven = epsilon([repeated(1.54, 1 / 60, 200, "fixed")], 1e-5)
    known = epsilon([repeated(1.54, 1 / 60, 200, "fixed", proven=False)], 1e-5)
    assert round(proven, 2) == 3.35
    assert round(known, 2) == 3.10


def test_the_proven_pair_agrees_in_one_round_and_for_poisson():
    for rounds, sampling in ((1, "fixed"), (200, "poisson")):
        taken, proven = (epsilon([repeated(1.54, 1 / 60, rounds, sampling, proven=p)], 1e-5) for p in (False, True))
        assert proven == pytest.approx(taken, abs=1e-6)


def test_one_ledger_has_one_relation():
    assert only_sampling([UPDATE, UPDATE]) == "poisson"
    with pytest.raises(Mistake, match="mixed in one ledger"):
        only_sampling([UPDATE, replace(UPDATE, sampling="fixed")])


@pytest.mark.parametrize(
    ("field", "value"),
    [("noise", -1), ("share", -1), ("share", float("inf")), ("rate", 0), ("slack", 2), ("round", -1)],
)
def test_a_wrong_event_is_refused(field, value):
    with pytest.raises(Mistake, match=f"{field}={value} must"):
        replace(UPDATE, **{field: value})
    with pytest.raises(Mistake, match="sampling=often is not known"):
        replace(UPDATE, sampling="often")


@pytest.mark.parametrize("wrong", [{"rate": 0.5}, {"slack": 1e-9}, {"round": 0}, {"level": "record"}])
def test_turns_are_public(wrong):
    """Where they are, nothing is amplified, no abort tells, and a vote would be one turn more."""
    given = {"round": 1, "noise": 2.0, "share": 2.0, "rate": 1.0, "sampling": "once"}
    assert relation(Event(**given).sampling) == "add or remove one client"
    with pytest.raises(Mistake, match="sampling=once is for rounds of clients whose turns are public"):
        Event(**(given | wrong))


def test_batches_have_no_turns():
    with pytest.raises(Mistake, match="sampling=once is not known"):
        Event(1, 2.0, 2.0, 1.0, "poisson", level="record", batches="once")
