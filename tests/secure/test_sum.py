"""The sum is that of the survivors to the last bit, or there is none."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Aborted, Mistake
from hush.secure import Terms, binding, centred, run, twoserver
from hush.secure.keys import repeatable
from hush.secure.messages import PHASES
from secure.cohorts import identities, numbers, plain, terms

PEOPLE = identities(9)


@pytest.mark.parametrize("when", ["never", "anywhere", *(phase.word for phase in PHASES)])
def test_hundred_clients(when: str) -> None:
    """Nobody lost; any third lost, all before one phase or each before a phase of its own."""
    people = identities(100)
    cohort = tuple((name, identity.public) for name, identity in people.items())
    agreed = Terms.choose("trial", 1, cohort, 12, 8316, binding(b"plan"), dropout=1 / 3, corrupt=0.1)
    values = numbers(agreed)
    draw = np.random.default_rng(len(when))
    gone = [] if when == "never" else draw.choice(list(people), 33, replace=False).tolist()
    words = draw.choice([phase.word for phase in PHASES], 33) if when == "anywhere" else [when] * len(gone)
    lost = dict(zip(gone, words, strict=True))
    outcome = run(agreed, people, values, lambda phase, name: lost.get(name) == phase)
    assert outcome.survivors == tuple(name for name in people if lost.get(name) not in ("advertise", "share", "mask"))
    assert outcome.refused == ()
    assert np.array_equal(outcome.residues, plain(agreed, values, outcome.survivors))


@pytest.mark.parametrize("bits", [2, 7, 8, 9, 12, 16, 17, 31, 32])
def test_any_width(bits: int) -> None:
    people = identities(4)
    agreed = terms(people, bits=bits, size=33)
    values = numbers(agreed)
    assert np.array_equal(run(agreed, people, values).residues, plain(agreed, values, tuple(people)))


def test_small_numbers_come_back_with_their_signs() -> None:
    people = identities(4)
    agreed = terms(people, bits=8, size=3)
    values = {name: np.array([-30, 31, 0]) for name in people}
    assert centred(run(agreed, people, values).residues, 8).tolist() == [-120, 124, 0]


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(sorted(PEOPLE)), st.sampled_from([p.word for p in PHASES]), max_size=5))
def test_lost_clients(gone: dict[int, str]) -> None:
    """Whoever is lost at whatever phase: exact over who sent numbers, or below the threshold an abort."""
    people = identities(9)
    agreed = terms(people, size=11)
    values = numbers(agreed)
    try:
        outcome = run(agreed, people, values, lambda phase, name: gone.get(name) == phase)
    except Aborted:
        assert len(gone) > 3
        return
    early = {name for name, phase in gone.items() if phase in ("advertise", "share", "mask")}
    assert len(gone) <= 3
    assert outcome.survivors == tuple(name for name in people if name not in early)
    assert np.array_equal(outcome.residues, plain(agreed, values, outcome.survivors))


@settings(max_examples=15)
@given(st.sets(st.integers(0, 17), max_size=9), st.sampled_from([p.word for p in PHASES]))
def test_lost_clients_in_a_ring(gone: set[int], when: str) -> None:
    """With fewer neighbours: exact, or an abort where the threshold or a neighbourhood has too few left."""
    people = identities(18)
    agreed = terms(people, size=5, degree=8, shares=5)
    values, names = numbers(agreed), list(people)
    left = set(range(18)) - gone
    try:
        outcome = run(agreed, people, values, lambda phase, name: phase == when and names.index(name) in gone)
    except Aborted:
        assert len(gone) > 3  # at most so many leave 5 of 8 neighbours to everybody
        return
    assert len(left) >= agreed.threshold
    assert np.array_equal(outcome.residues, plain(agreed, values, outcome.survivors))


def test_who_was_lost_late_still_counts() -> None:
    people = identities(9)
    agreed, first = terms(people), next(iter(people))
    outcome = run(agreed, people, numbers(agreed), lambda phase, name: phase == "consent" and name == first)
    assert first in outcome.survivors


def test_bytes_are_those_of_the_messages() -> None:
    people = identities(9)
    agreed = terms(people, size=1000)
    table = run(agreed, people, numbers(agreed)).tally.summary()
    head, signature = 17, 64
    assert table["mask"]["up"] == {"mean": 1500 + head + signature, "max": 1500 + head + signature}
    assert table["share"]["up"]["max"] == 32 + 2 * 3 * 16 + 8 * 16 + 16 + head + signature
    assert table["share"]["down"]["max"] == 1 + 8 * 96 + head
    assert table["mask"]["down"]["max"] == 1 + head
    assert table["consent"]["up"]["max"] == head + signature
    assert table["unmask"]["up"]["max"] == 8 * 16 + head + signature
    assert table["unmask"]["down"]["max"] == 2 + 6 * 64 + head
    assert table["all"]["up"]["max"] == sum(table[phase.word]["up"]["max"] for phase in PHASES)


def test_once_in_a_round() -> None:
    people = identities(4)
    values = numbers(terms(people))
    run(terms(people), people, values)
    with pytest.raises(Aborted) as why:
        run(terms(people, binding=binding(b"another")), people, values)
    assert "0 clients" in str(why.value)
    run(terms(people, round=2), people, values)
    one = next(iter(people.values()))
    with pytest.raises(Mistake, match="round=1 of run 'trial' must be past 2"):
        one.claim("trial", 1, binding(b"a third"))


@pytest.mark.parametrize("other", [{"run": "another"}, {"round": 2}], ids=str)
def test_the_same_numbers_are_not_summed_twice(other: dict[str, Any]) -> None:
    """With the same plan and model under another name, and one client left out, the sums would tell its numbers."""
    people = identities(4)
    first = terms(people)
    values = numbers(first)
    run(first, people, values)
    second = terms(people, **{**other, "binding": first.binding})
    with pytest.raises(Aborted, match="0 clients advertised keys") as why:
        run(second, people, values, lambda phase, name: name == 7)
    assert len(why.value.refused) == 3
    assert all("must have another plan or model than round 1 of run 'trial'" in one for one in why.value.refused)
    two = twoserver.Halves(second, people)
    assert not two.add(7, values[7])
    assert "must have another plan or model" in two.refused[0]


def test_repeatable_secrets_repeat() -> None:
    rounds = []
    for _ in range(2):
        people = identities(4)
        rounds.append(run(terms(people), people, numbers(terms(people)), draw=repeatable(b"1")))
    assert np.array_equal(rounds[0].residues, rounds[1].residues)
    assert repeatable(b"1")(40) == repeatable(b"1")(40) != repeatable(b"2")(40)
