"""What a cohort cannot agree on, and what its digest says."""

import hashlib
import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

from hush.errors import Aborted, Mistake
from hush.secure import Client, Identity, Terms, binding
from hush.secure.graph import MOST, degree, ring
from hush.secure.keys import WEAK
from hush.secure.messages import SIGNATURE, Phase, pack_set, pack_some, to_client
from hush.secure.terms import LARGEST
from secure.cohorts import identities, keep, terms

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
        ({"run": b"trial"}, "run=b'trial' must be text"),
        ({"run": "\ud800"}, "must be text"),
        ({"round": 1.0}, "round=1.0 must be an integer, and not of type float"),
        ({"threshold": "4"}, "threshold='4' must be an integer, and not of type str"),
        ({"degree": None}, "degree=None must be an integer"),
        ({"shares": 3.0}, "shares=3.0 must be an integer"),
        ({"bits": True}, "bits=True must be an integer, and not of type bool"),
        ({"size": np.int64(20)}, "must be an integer, and not of type int64"),
        ({"binding": "x" * 32}, "binding must be bytes, and not of type str"),
        ({"binding": bytearray(32)}, "binding must be bytes, and not of type bytearray"),
        ({"cohort": None}, "cohort must be a tuple of at most 65536 clients"),
        ({"cohort": [(1, bytes(32))]}, "cohort must be a tuple"),
        ({"cohort": ((1, bytes(32)),) * (LARGEST + 1)}, "cohort must be a tuple of at most 65536 clients"),
        ({"cohort": (1, 2, 3)}, "a tuple of an integer and bytes for each client"),
        ({"cohort": ((1,),) * 3}, "a tuple of an integer and bytes for each client"),
        ({"cohort": (("1", bytes(32)),) * 3}, "a tuple of an integer and bytes for each client"),
        ({"cohort": ((1, "k" * 32),) * 3}, "a tuple of an integer and bytes for each client"),
        ({"cohort": ((1, bytearray(32)),) * 3}, "a tuple of an integer and bytes for each client"),
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


@pytest.mark.parametrize("key", sorted(WEAK))
def test_keys_that_anybody_signs_for(key: bytes) -> None:
    cohort = terms(PEOPLE).cohort
    with pytest.raises(Mistake, match="a public key of small order, or one not below"):
        terms(PEOPLE, cohort=(*cohort[:5], (cohort[5][0], key)))


RATES: dict[str, float] = {"dropout": 0.1, "corrupt": 0.05}


def test_terms_by_the_public_rule() -> None:
    """A client need not believe that they are: a threshold, a ring or shares of another rule are refused."""
    people = identities(100)
    cohort = tuple((name, one.public) for name, one in people.items())
    agreed = Terms.choose("r", 1, cohort, 12, 5, binding(), **RATES)
    agreed.check_rule(**RATES)
    assert (agreed.threshold, agreed.degree, agreed.shares) == (90, 32, 22)
    fields = {"run": "r", "binding": binding(), "threshold": 90, "degree": 32, "shares": 22}
    for change, sentence in (
        ({"threshold": 89}, "threshold=89 must be 90 for 100 clients, dropout=0.1 and corrupt=0.05: do not take part"),
        ({"degree": 30, "shares": 21}, "degree=30 must be 32, shares=21 must be 22 for 100 clients"),
        ({"shares": 21}, "shares=21 must be 22"),
        ({"threshold": 51, "degree": 2, "shares": 2}, "threshold=51 must be 90, degree=2 must be 32, shares=2 must be"),
    ):
        with pytest.raises(Mistake, match=sentence):
            terms(people, **(fields | change)).check_rule(**RATES)
    with pytest.raises(Mistake, match="threshold=90 must be 67"):
        agreed.check_rule(dropout=1 / 3, corrupt=0.05)
    with pytest.raises(Mistake, match="degree=32 must be"):
        agreed.check_rule(**RATES, stall=0.05)


def crowd(n: int, one: Identity) -> tuple[tuple[int, bytes], ...]:
    """A cohort with this client in its middle, and keys of whoever."""
    return tuple((i, one.public if i == n // 2 else hashlib.sha256(b"%d" % i).digest()) for i in range(n))


def peak(n: int) -> int:
    """Bytes that a client holds at most, to look at the terms of so many and to find its neighbours."""
    one = Identity.new()
    agreed = Terms.choose("r", 1, crowd(n, one), 12, 5, binding(), dropout=1 / 3, corrupt=0.1)
    given = [getattr(agreed, name) for name in Terms.__dataclass_fields__]
    tracemalloc.start()
    try:
        client = Client(one, Terms(*given))
        client.advertise()
        with pytest.raises(Mistake, match="cut short"):
            client.share(b"")
        near = client.terms.near(client.seat)
        found = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(near) == agreed.degree < n / 2
    return found


def test_terms_of_ten_thousand_clients_cost_one_little() -> None:
    """Its own neighbours alone, so that memory grows as the cohort does and not faster."""
    few, many = peak(5_000), peak(10_000)
    assert many < 50e6
    assert many < 2.5 * few


def test_neighbours_of_one_are_those_of_all() -> None:
    for other in ({}, {"degree": 4, "shares": 3}):
        agreed = terms(PEOPLE, **other)
        assert agreed.neighbours == tuple(agreed.near(seat) for seat in range(6))
        assert agreed.neighbours == ring(agreed._ring[0], agreed.degree)


def test_everybody_is_nobodys_neighbour_in_a_large_cohort() -> None:
    """A complete graph of many is no terms: a client says so before it works anything out."""
    n = MOST + 2
    fields = {"threshold": n, "degree": n - 1, "shares": n - 1, "cohort": crowd(n, Identity.new())}
    with pytest.raises(Mistake, match="degree=4097 must be at most 4096, in a ring"):
        terms(PEOPLE, **fields)


def test_a_committee_signs() -> None:
    """Everybody among all neighbours, the first of the ring else; nobody where only all can survive."""
    people = identities(20)
    everybody = terms(people)
    assert (everybody.committee, everybody.consents) == (tuple(range(20)), everybody.threshold)
    agreed = terms(people, degree=6, shares=4)
    assert (agreed.committee, agreed.consents) == (tuple(sorted(agreed._ring[0][:6])), 4)
    whole = terms(people, degree=6, shares=4, threshold=20)
    assert (whole.committee, whole.consents) == ((), 0)


@pytest.mark.parametrize("dropout", [0.05, 0.1, 1 / 3])
@pytest.mark.parametrize("n", [100, 300, 1000])
def test_a_committee_cannot_sign_two_sets(n: int, dropout: float) -> None:
    """With as many colluders in it as the ring allows side by side, in both halves: honest ones sign one set."""
    cohort = crowd(n, Identity.new())
    agreed = Terms.choose("r", 1, cohort, 12, 5, binding(), dropout=dropout, corrupt=0.1)
    most = agreed.corrupt if agreed.degree == n - 1 else 2 * (agreed.shares - agreed.degree // 2 - 1)
    assert 2 * agreed.consents > len(agreed.committee) + most


def test_a_committee_is_hard_to_grind() -> None:
    """A tenth collude, and the order is as good as random: all of them are too few, or it is out of reach."""
    for n, dropout in itertools.product((50, 100, 200, 300), (0.01, 0.05, 0.1, 0.2)):
        k, shares = degree(n, dropout, 0.1)
        assert k < n - 1
        assert 2 * shares - k > n / 10
    k, shares = degree(10_000, 0.05, 0.1)
    assert math.log2(hypergeom.sf(2 * shares - k - 1, 10_000, 1000, k)) < -189


def test_how_many_must_collude_to_open_two_sets() -> None:
    """With real clients in a ring: one colluder more than `corrupt` in the committee, and no honest ones help."""
    people = identities(30)
    agreed = terms(people, threshold=20, degree=8, shares=6)
    assert (agreed.corrupt, len(agreed.committee), agreed.consents) == (3, 8, 6)
    assert terms(people, threshold=16, degree=8, shares=6).corrupt == 1  # 2 * 16 - 30 - 1 is less
    assert terms(people, threshold=30, degree=8, shares=6).corrupt == 29  # all must survive: there is one set
    kept = keep(people, agreed)
    victim, *others = (seat for seat in range(30) if seat not in agreed.committee)
    witnesses = [seat for seat in others if victim in agreed.near(seat)][:2]  # one is shown each set
    sets = [pack_set((seat for seat in range(30) if seat not in gone), 30) for gone in ([], [victim])]

    def consented(seat: int, words: bytes) -> tuple[Client, bytes]:
        client = kept.client(Phase.CONSENT, agreed.cohort[seat][0])
        return client, client.consent(to_client(agreed, Phase.CONSENT, seat, words))[-SIGNATURE:]

    def opened(signers: list[int], which: int) -> bool:
        """Whether a neighbour of the victim that was shown this set sends its share."""
        words, witness = sets[which], witnesses[which]
        client, _ = consented(witness, words)
        chosen = sorted(signers)[: agreed.consents]
        body = pack_some(chosen, agreed.committee) + b"".join(consented(seat, words)[1] for seat in chosen)
        try:
            client.unmask(to_client(agreed, Phase.UNMASK, witness, body))
        except Aborted:
            return False
        return True

    for colluding, both in ((agreed.corrupt, False), (agreed.corrupt + 1, True)):
        twice, honest = agreed.committee[:colluding], agreed.committee[colluding:]
        splits = [(honest[:first], honest[first:]) for first in range(len(honest) + 1)]  # each of them signs once
        found = [[opened([*twice, *one], which) for which, one in enumerate(split)] for split in splits]
        assert any(map(all, found)) == both
        assert all(map(any, found))
