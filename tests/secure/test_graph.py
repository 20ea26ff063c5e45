"""Who is whose neighbour, and how many are enough."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from hush.errors import Mistake
from hush.secure import graph
from hush.secure.graph import MOST, _tail, degree, order, quorum, ring


def test_everybody() -> None:
    assert ring(range(4), 3) == ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))


def test_a_ring_is_regular_and_mutual() -> None:
    near = ring(order(b"digest", 20), 6)
    for seat, others in enumerate(near):
        assert len(set(others)) == 6
        assert seat not in others
        assert list(others) == sorted(others)
        assert all(seat in near[other] for other in others)


def test_the_order_is_everyones_and_another_for_another_digest() -> None:
    assert order(b"one", 50) == order(b"one", 50) != order(b"two", 50)
    assert sorted(order(b"one", 50)) == list(range(50))
    assert order(b"one", 9) == [0, 8, 7, 5, 1, 2, 6, 3, 4]  # for good: clients of two versions must agree


def test_no_dropouts_part_a_sum_that_can_be_opened() -> None:
    """All sets of survivors of a ring of 11: where all have more than half of their neighbours, they hang together."""
    near = ring(range(11), 6)
    opened = 0
    for count in range(2, 12):
        for alive in itertools.combinations(range(11), count):
            if all(sum(other in alive for other in near[seat]) >= 4 for seat in alive):
                reached, edge = {alive[0]}, {alive[0]}
                while edge:
                    edge = {other for seat in edge for other in near[seat] if other in alive} - reached
                    reached |= edge
                assert reached == set(alive)
                opened += 1
    assert opened > 50


def parted(n: int, k: int, shares: int, most: int) -> int:
    """In how many ways a server opens the sum of a part of the survivors of a ring: all are tried.

    At most `most` of any k / 2 clients in a row collude. Each of the others is in the part or in the rest, and reveals
    shares or not, or dropped out. Who reveals had masks with every neighbour that survived, and enough of these did.
    Clients of the part had none with the rest, and with enough neighbours; their seeds are opened.
    """
    kinds = np.indices((6,) * n, dtype=np.int8).reshape(n, -1)
    part, rest, gone, league = kinds < 2, (kinds == 2) | (kinds == 3), kinds == 4, kinds == 5
    tells = (kinds == 0) | (kinds == 2)
    steps = [step for step in range(-(k // 2), k // 2 + 1) if step]

    def near(marks: np.ndarray) -> np.ndarray:
        return sum(np.roll(marks, step, axis=0).astype(np.int8) for step in steps)

    row = sum(np.roll(league, step, axis=0).astype(np.int8) for step in range(k // 2))
    opened = near(tells) + near(league) >= shares
    masked = near(rest) <= k - shares
    fair = (near(gone) <= k - shares) & ~(part & (near(rest) > 0))
    good = (row <= most) & (~part | (opened & masked)) & (~tells | fair)
    return int((good.all(axis=0) & part.any(axis=0) & rest.any(axis=0)).sum())


@pytest.mark.parametrize(("n", "k", "shares"), [(7, 4, 3), (8, 4, 3), (8, 6, 4), (8, 6, 5), (8, 4, 4)])
def test_no_part_of_a_ring_is_opened_alone(n: int, k: int, shares: int) -> None:
    """Whatever the server says to whom, while few enough collude side by side; with one more it can be done."""
    assert parted(n, k, shares, shares - k // 2 - 1) == 0
    assert parted(n, k, shares, shares - k // 2) > 0


@pytest.mark.parametrize(("n", "marked", "drawn"), [(10, 3, 4), (40, 13, 20), (12, 11, 5), (9, 0, 4), (30, 2, 28)])
def test_tails_against_exact_fractions(n: int, marked: int, drawn: int) -> None:
    ways = [math.comb(marked, i) * math.comb(n - 1 - marked, drawn - i) for i in range(drawn + 1)]
    want = [float(Fraction(sum(ways[i:]), math.comb(n - 1, drawn))) for i in range(drawn + 2)]
    np.testing.assert_allclose(_tail(n, marked, drawn), want, rtol=1e-11)


def test_degree_holds_its_chances() -> None:
    """In many rings of 60, with probabilities large enough to be seen, neither comes more often than was asked."""
    n, dropout, corrupt = 60, 0.1, 0.1
    k, shares = degree(n, dropout, corrupt, failure=0.05, stall=0.05)
    assert k < n - 1
    assert shares > k // 2
    draw = np.random.default_rng(1)
    stuck = opened = 0
    for _ in range(400):
        places = draw.permutation(n)
        lost, league = places < 6, draw.permutation(n) < 6
        steps = np.arange(1, k // 2 + 1)
        right = (np.arange(n)[:, None] + steps) % n
        left = (np.arange(n)[:, None] - steps) % n
        both = np.concatenate([right, left], axis=1)
        stuck += bool((k - lost[both].sum(axis=1) < shares).any())
        opened += bool(
            (league[both].sum(axis=1) >= shares).any()
            or (league[right].sum(axis=1) >= shares - k // 2).any()
            or (league[left].sum(axis=1) >= shares - k // 2).any()
        )
    assert stuck <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05)
    assert opened <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05)


def test_degree_of_small_and_large_cohorts() -> None:
    assert degree(10, 1 / 3, 0.1) == (9, 6)
    k, shares = degree(1000, 0.1, 0.05)
    assert 60 < k < 150
    assert k / 2 < shares < 0.9 * k
    assert degree(1000, 0.05, 0.05)[0] < k < degree(1000, 0.2, 0.05)[0]
    assert degree(1000, 0.1, 0.01)[0] < k < degree(1000, 0.1, 0.1)[0]
    assert degree(1000, 0.1, 0.05, failure=2.0**-40)[0] < k
    assert degree(10_000, 0.1, 0.05)[0] < 2 * k


def scan(n: int, dropout: float, corrupt: float, failure: float, stall: float) -> tuple[int, int]:
    """Degree and shares by trying one even number after the other."""
    threshold, colluding = quorum(n, dropout, corrupt), math.floor(corrupt * n + 1e-9)
    for k in range(2, 2 * (n - 1) // 3 + 1, 2):
        shares = np.arange(max(2, k // 2 + 1), k + 1)
        opened = n * _tail(n, colluding, k)[shares] + 2 * n * _tail(n, colluding, k // 2)[shares - k // 2]
        good = shares[(opened <= failure) & (n * _tail(n, n - threshold, k)[k - shares + 1] <= stall)]
        if good.size:
            return k, int(good[-1])
    return n - 1, threshold - 1


def test_a_bisection_finds_what_a_scan_does() -> None:
    """Though whether a ring will do is not quite monotone: over 300 cohorts, rates and probabilities."""
    draw, rings = np.random.default_rng(5), 0
    for _ in range(300):
        n, corrupt = int(10 ** draw.uniform(0.6, 2.9)), float(draw.choice([0.0, 0.1, draw.uniform(0, 0.3)]))
        dropout = float(draw.choice([0.1, 1 / 3, draw.uniform(0, (1 - corrupt) / 2)]))
        rates = dropout, corrupt, float(draw.choice([2.0**-80, 0.01])), float(draw.choice([2.0**-20, 0.05]))
        try:
            want = scan(n, *rates)
        except Mistake:  # no threshold
            continue
        assert degree(n, *rates) == want
        rings += want[0] < n - 1
    assert rings > 100
    assert degree(568, 1 / 3, 0.1, 0.01, 0.05) == scan(568, 1 / 3, 0.1, 0.01, 0.05) == (304, 182)  # 308 will not do


def test_large_cohorts_are_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """With at most MOST neighbours, found in few steps; where none will do, that is said."""
    steps = []
    monkeypatch.setattr(graph, "_tail", lambda *given: steps.append(given) or _tail(*given))
    with pytest.raises(
        Mistake, match=r"dropout=0\.33 and corrupt=0\.32 leave no ring of at most 4096 .* 30000 clients"
    ):
        degree(30_000, 0.33, 0.32)
    assert len(steps) < 120
    assert degree(2**16, 1 / 3, 0.1)[0] < MOST
    assert degree(MOST + 1, 0.33, 0.32) == (MOST, quorum(MOST + 1, 0.33, 0.32) - 1)
    with pytest.raises(Mistake, match="no ring of at most 4096 neighbours for 4098 clients"):
        degree(MOST + 2, 0.33, 0.32)


def test_quorum() -> None:
    assert quorum(100, 1 / 3, 0.1) == 67
    assert quorum(100, 0.29, 0) == 71
    with pytest.raises(Mistake, match=r"dropout=0\.5 and corrupt=0 leave no threshold for 100 clients"):
        quorum(100, 0.5, 0)
    with pytest.raises(Mistake, match="leave no threshold"):
        degree(100, 1 / 3, 0.34)
    with pytest.raises(Mistake, match="leave no threshold for 2 clients"):
        quorum(2, 0, 0)
    with pytest.raises(Mistake, match="must be from 0 to 1"):
        quorum(10, -0.1, 0)
    with pytest.raises(Mistake, match=r"failure=0 and stall=0\.5 must be between 0 and 1"):
        degree(10, 0.1, 0.1, 0, 0.5)
