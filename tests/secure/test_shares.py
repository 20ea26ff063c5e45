"""Any t shares give the secret, fewer reveal nothing, and what is no share is refused."""

import itertools
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Mistake
from hush.secure.decoding import P
from hush.secure.keys import repeatable
from hush.secure.shares import Recovered, Sharing, consistent, deal, element, join, number


def dealt(threshold: int, places: list[int], key: bytes) -> tuple[bytes, Sharing, dict[int, bytes]]:
    """A secret, what is public of it, and the share at each place."""
    draw = repeatable(key)
    shares = {place: element(draw(32)) for place in places}
    ((secret, sharing),) = deal(places, [list(shares.values())], threshold)
    return secret, sharing, shares


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(0, 4), st.randoms(use_true_random=False))
def test_any_of_them_give_the_secret(threshold: int, more: int, random: Random) -> None:
    places = random.sample(range(300), threshold + more)
    secret, sharing, found = dealt(threshold, places, random.randbytes(8))
    chosen = random.sample(places, threshold)
    assert join(sharing, {place: found[place] for place in chosen}, secret.__eq__) == Recovered(secret, ())


def test_all_choices() -> None:
    secret, sharing, found = dealt(3, list(range(6)), b"2")
    for chosen in itertools.combinations(range(6), 3):
        assert join(sharing, {place: found[place] for place in chosen}, secret.__eq__) == Recovered(secret, ())
    assert len(set(found.values())) == 6
    assert len(sharing.public) == 3 * 16


def test_a_share_is_the_polynomial_at_its_place() -> None:
    """Against the definition: f(0) the secret, f(1) and f(2) public, f(3 + place) the shares; each row its own f."""
    fs = [[99, 2**100 + 7, 12345, 5], [1, 2, 3, P - 4]]

    def value(f: list[int], x: int) -> bytes:
        return (sum(a * x**i for i, a in enumerate(f)) % P).to_bytes(16, "little")

    places = [0, 4, 7, 63]
    rows = [[value(f, 3 + place) for place in places] for f in fs]
    assert deal(places, rows, 2) == [(value(f, 0), Sharing(2, value(f, 1) + value(f, 2))) for f in fs]


def test_fewer_tell_nothing() -> None:
    """For any guess of the secret there is a polynomial through what is public and t - 1 shares: they exclude none."""
    _, sharing, found = dealt(2, [0, 1, 2], b"3")
    known = {1: number(sharing.public), 2: number(found[0])}
    for guess in (0, 5, 77, P - 1):
        points = {0: guess, **known}
        line = [(y, x) for x, y in points.items()]
        at_three = sum(
            y * math.prod((3 - other) * pow(x - other, -1, P) for _, other in line if other != x) for y, x in line
        )
        third = (at_three % P).to_bytes(16, "little")  # a share of the holder at place 1 with which the guess is right
        assert join(sharing, {0: found[0], 1: third}, bool) == Recovered(guess.to_bytes(16, "little"), ())
    # and over many draws a secret is uniform whatever t - 1 shares are
    tops = []
    for i in range(1600):
        ((secret, _),) = deal([0, 1], [[bytes(16), element(repeatable(b"%d" % i)(32))]], 2)
        tops.append(number(secret) * 16 // P)
    counts = np.bincount(tops, minlength=16)
    assert ((counts - 100) ** 2 / 100).sum() < 45  # of 15 degrees: passed once in 10^4


@pytest.mark.parametrize("liar", range(5))
def test_one_lie_is_survived_with_a_share_to_spare(liar: int) -> None:
    secret, sharing, found = dealt(4, list(range(5)), b"4")
    found[liar] = element(repeatable(b"lie")(32))
    assert join(sharing, found, secret.__eq__) == Recovered(secret, (liar,))
    assert not consistent(sharing, found)
    del found[(liar + 1) % 5]
    assert join(sharing, found, secret.__eq__) is None
    assert consistent(sharing, found)  # four are on some polynomial always


def test_refused() -> None:
    _, sharing, found = dealt(3, list(range(4)), b"5")
    with pytest.raises(Mistake, match="2 shares are too few: 3 give the secret"):
        join(sharing, {0: found[0], 1: found[1]}, bool)
    for wrong in (b"", bytes(15), bytes(17), P.to_bytes(16, "little"), b"\xff" * 16):
        with pytest.raises(Mistake, match="16 bytes, a number below"):
            number(wrong)
    for threshold, places in ((0, [0, 1]), (3, [0, 1]), (2, [1, 1])):
        with pytest.raises(Mistake, match=f"threshold={threshold} must be from 1"):
            deal(places, [[bytes(16)] * 2], threshold)


def test_uniform_bytes_are_elements() -> None:
    for value in (0, 5, P - 1, P, P + 4, 2**256 - 1):
        assert number(element(value.to_bytes(32, "little"))) == value % P


def test_the_field_is_one() -> None:
    """Fermat's test to a few bases, and no small factor: the largest prime below 2^128."""
    assert all(pow(base, P - 1, P) == 1 for base in (2, 3, 5, 7, 11))
    assert math.gcd(P, math.prod(range(2, 2000))) == 1
