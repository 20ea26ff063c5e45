"""The bytes from formulas are those of the messages, and who is missing aborts a round in the same words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Aborted, Mistake
from hush.secure import Halves, Round, Tally, Terms, binding, expected
from secure.cohorts import identities, numbers, terms

# (cohort, degree, shares, threshold): everybody a neighbour, and rings; sets of seats of one and of more bytes
GRAPHS = [(3, 2, 2, 3), (9, 8, 5, 6), (17, 16, 11, 12), (12, 4, 3, 7), (18, 8, 5, 12), (20, 16, 10, 14)]
GRAPHS += [(12, 6, 5, 12)]  # all must survive: nobody signs, and whoever is lost aborts it


def told(kind: type[Round] | type[Halves], agreed: Terms, people: dict, present: list[int]) -> tuple[Tally, str | None]:
    """What the driver counts, and why it aborts."""
    whole = kind(agreed, people)
    values = numbers(agreed)
    whole.begin()
    for name in present:
        assert whole.add(name, values[name])
    try:
        whole.finish()
    except Aborted as why:
        return whole.tally, str(why)
    return whole.tally, None


def same(one: Tally, other: Tally) -> bool:
    return one.phases == other.phases and np.array_equal(one.up, other.up) and np.array_equal(one.down, other.down)


@settings(max_examples=20)
@given(st.sampled_from(GRAPHS), st.integers(2, 32), st.integers(1, 50), st.data())
def test_as_the_server_counts(graph: tuple[int, int, int, int], bits: int, size: int, data: st.DataObject) -> None:
    n, degree, shares, threshold = graph
    people = identities(n)
    binds = binding(data.draw(st.binary(max_size=2)))  # another ring
    agreed = terms(people, degree=degree, shares=shares, threshold=threshold, bits=bits, size=size, binding=binds)
    gone = data.draw(st.sets(st.sampled_from(sorted(people)), max_size=n - threshold + 1))
    present = data.draw(st.permutations([name for name in people if name not in gone]))
    for servers, kind in ((1, Round), (2, Halves)):
        tally, why = told(kind, agreed, identities(n), present)
        assert same(expected(agreed, present, servers), tally)
        assert agreed.stuck(present, servers) == why


def test_checks_are_sent_of_who_is_gone_alone() -> None:
    """A round without dropouts has not a byte of them; each survivor near one that is gone sends 8."""
    agreed = terms(identities(20), degree=6, shares=4, threshold=11, size=3)
    everybody = [name for name, _ in agreed.cohort]
    whole = told(Round, agreed, identities(20), everybody)[0].up
    assert (whole.T == [81 + 32, 81 + 32 + 32 * (6 - 4) + 16 * 6 + 16, 81 + 5, 81, 81 + 16 * 6]).all()
    present = everybody[:5] + everybody[6:]
    more = told(Round, agreed, identities(20), present)[0].up[4] - whole[4]
    assert {seat for seat in range(20) if seat != 5 and more[seat]} == set(agreed.near(5))
    assert all(more[seat] == 8 for seat in agreed.near(5))


def test_below_the_threshold() -> None:
    people = identities(9)
    agreed, five = terms(people, round=4), list(people)[:5]
    assert agreed.stuck(five) == "round 4: 5 clients masked their numbers, and 6 are needed: nothing is opened"
    assert agreed.stuck(five, 2) == "round 4: 5 clients sent both halves, and 6 are needed: nothing is opened"
    found = expected(agreed, five)
    assert same(told(Round, agreed, people, five)[0], found)
    assert found.up[2:].any(axis=1).tolist() == found.down[2:].any(axis=1).tolist() == [True, False, False]
    assert agreed.stuck(list(people)[:6]) is None


def test_too_few_neighbours_of_one_that_is_gone() -> None:
    """Enough clients are left, and still the masks of one that is gone stay closed."""
    people = identities(20)
    agreed = terms(people, degree=6, shares=4, threshold=11, size=3)
    gone = {agreed.cohort[seat][0] for seat in (0, *agreed.neighbours[0][:3])}
    present = [name for name in people if name not in gone]
    tally, why = told(Round, agreed, people, present)
    assert why is not None
    assert why == agreed.stuck(present)
    assert why.startswith("round 1: too few neighbours of client ")
    assert same(tally, expected(agreed, present))
    assert agreed.stuck(present, 2) is None


def test_only_clients_of_the_cohort() -> None:
    agreed = terms(identities(4))
    for ask in (agreed.stuck, lambda present: expected(agreed, present)):
        with pytest.raises(Mistake, match="client 8 is not in the cohort"):
            ask([7, 8])
