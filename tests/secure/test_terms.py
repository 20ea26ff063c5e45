"""What a cohort cannot agree on, and what its digest says."""

from typing import Any

import pytest

from hush.errors import Mistake
from hush.secure import Terms, binding
from secure.cohorts import identities, terms

PEOPLE = identities(6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"round": -1}, "round=-1 must be"),
        ({"bits": 1}, "bits=1 must be from 2 to 32"),
        ({"bits": 33}, "bits=33 must be from 2 to 32"),
        ({"size": 0}, "size=0 must be"),
        ({"binding": b"short"}, "binding of 5 bytes must have 32"),
        ({"threshold": 3}, "threshold=3 must be more than half of the 6 clients"),
        ({"threshold": 7}, "threshold=7 must be"),
        ({"degree": 3, "shares": 2}, "degree=3 must be 5"),
        ({"degree": 6, "shares": 4}, "degree=6 must be 5"),
        ({"shares": 2}, "shares=2 must be at least 2 and more than half of degree=5"),
        ({"degree": 2, "shares": 1}, "shares=1 must be at least 2"),
        ({"shares": 6}, "shares=6 must be"),
        ({"threshold": 5}, "shares=3 must be at least 4, one less than the threshold"),
        ({"cohort": ((1, b"k"),) * 6}, "cohort must have a number from 0 on and a public key of 32 bytes"),
    ],
)
def test_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        terms(PEOPLE, **change)


def test_one_client_is_not_two() -> None:
    cohort = terms(PEOPLE).cohort
    for twice in ((*cohort[:5], (99, cohort[0][1])), (*cohort[:5], (cohort[0][0], cohort[5][1]))):
        with pytest.raises(Mistake, match="one client must not count as two"):
            terms(PEOPLE, cohort=twice)


def test_small_cohorts() -> None:
    with pytest.raises(Mistake, match="at least 3"):
        terms(identities(2), threshold=2, shares=1)
    assert terms(identities(3)).corrupt == 2


def test_chosen() -> None:
    people = identities(100)
    cohort = tuple((name, one.public) for name, one in people.items())
    agreed = Terms.choose("r", 1, cohort, 12, 5, binding(), dropout=1 / 3, corrupt=0.1)
    assert (agreed.threshold, agreed.degree, agreed.shares, agreed.corrupt) == (67, 99, 66, 33)
    sparse = Terms.choose("r", 1, cohort, 12, 5, binding(), dropout=0.05, corrupt=0.02)
    assert sparse.degree < 66
    assert all(len(near) == sparse.degree for near in sparse.neighbours)


def test_binding_tells_the_parts_apart() -> None:
    assert len({binding(b"ab", b"c"), binding(b"a", b"bc"), binding(b"abc"), binding(b"abc", b"")}) == 4


def test_seats() -> None:
    agreed = terms(PEOPLE)
    assert [agreed.seat(name) for name in PEOPLE] == list(range(6))
    with pytest.raises(Mistake, match="client 8 is not in the cohort"):
        agreed.seat(8)
