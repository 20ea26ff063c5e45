"""A polynomial through points of which some are wrong: found as long as it is the only one, with the wrong ones."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.secure.decoding import Decoded, P, _weights, agree, decode, extend, gao


def value(f: list[int], x: int) -> int:
    return sum(a * x**i for i, a in enumerate(f)) % P


def drawn(random: Random, k: int, n: int, wide: int) -> tuple[list[int], dict[int, int]]:
    """Coefficients, now and then zeros, and n points of the polynomial in any order."""
    f = [random.choice([0, random.randrange(P)]) for _ in range(k)]
    return f, {x: value(f, x) for x in random.sample(range(1, wide * n + 1), n)}


@settings(max_examples=80)
@given(st.integers(1, 12), st.integers(0, 9), st.sampled_from([1, 2, 40]), st.randoms(use_true_random=False))
def test_all_that_is_correctable(k: int, spare: int, wide: int, random: Random) -> None:
    f, points = drawn(random, k, k + spare, wide)
    wrong = tuple(sorted(random.sample(sorted(points), random.randint(0, spare // 2))))
    for x in wrong:
        points[x] = (points[x] + random.randrange(1, P)) % P
    assert gao(points, k) == f
    assert decode(points, k, f[0].__eq__) == Decoded(f[0], wrong)
    assert decode(points, k, lambda value: False) is None
    assert agree(points, k) == (not wrong)


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_all_that_is_not(k: int, spare: int, seed: int) -> None:
    """One more than half of the spare points wrong, by who does not know f(0): never another polynomial for f."""
    random = Random(seed)
    f, points = drawn(random, k, k + spare, 2)
    wrong = tuple(sorted(random.sample(sorted(points), spare // 2 + 1)))
    for x in wrong:
        points[x] = (points[x] + random.randrange(1, P)) % P
    assert gao(points, k) != f
    assert decode(points, k, f[0].__eq__) in (None, Decoded(f[0], wrong))
    if spare == 1:
        assert decode(points, k, f[0].__eq__) == Decoded(f[0], wrong)


def test_wrong_ones_that_agree() -> None:
    """Points on another polynomial of the same degree: as many as leave the first unique, and one more."""
    f, other = [5, 7, 11], [6, 1, 2]
    for lies, found in ((2, f), (3, None), (4, other)):
        points = {x: value(other if x <= lies else f, x) for x in range(1, 8)}
        points |= {x: value(other, x) for x in range(8 - max(0, lies - 3), 8)}
        assert gao(points, 3) == found


@pytest.mark.parametrize("at", range(1, 10))
def test_any_single_one_off_is_seen(at: int) -> None:
    points = {x: value([1, 2, 3], x) for x in range(1, 10)}
    assert agree(points, 3)
    assert not agree(points | {at: points[at] + 1}, 3)
    assert agree(points, 4)
    assert not agree(points, 2)


@pytest.mark.parametrize("xs", [[1], [3, 9], list(range(1, 30)), [2, 3, 5, 6, 9], [4, 900, 17], [8, 2, 5, 4]])
def test_weights_against_their_definition(xs: list[int]) -> None:
    for x, weight in zip(xs, _weights(xs), strict=True):
        assert weight * math.prod(x - other for other in xs if other != x) % P == 1


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 3), st.sampled_from([1, 2, 40]), st.randoms(use_true_random=False))
def test_extended_to_other_points(k: int, rows: int, wide: int, random: Random) -> None:
    """Several polynomials through points at the same xs, at others on either side and between."""
    xs = random.sample(range(1, wide * k + 1), k)
    others = [x for x in range(-3, wide * k + 4) if x not in xs]
    drawn = [[random.randrange(P) for _ in range(k)] for _ in range(rows)]
    found = extend(xs, [[value(f, x) for x in xs] for f in drawn], others)
    assert found == [[value(f, x) for x in others] for f in drawn]
