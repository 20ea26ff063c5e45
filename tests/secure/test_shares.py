"""Any t shares give the secret, fewer reveal nothing, and what is no share is refused."""

import itertools
import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Mistake
from hush.secure.keys import P, repeatable
from hush.secure.shares import Recovered, consistent, join, number, secret, split

elements = st.integers(0, P - 1).map(lambda value: value.to_bytes(32, "little"))


@settings(max_examples=40)
@given(elements, st.integers(1, 6), st.integers(0, 4), st.randoms(use_true_random=False))
def test_any_of_them_give_the_secret(value: bytes, threshold: int, more: int, random: Random) -> None:
    seats = random.sample(range(300), threshold + more)
    found = split(value, threshold, seats, repeatable(b"1"))
    chosen = random.sample(seats, threshold)
    assert join({seat: found[seat] for seat in chosen}, threshold, value.__eq__) == Recovered(value, ())


def test_all_choices() -> None:
    value = secret(repeatable(b"secret"))
    found = split(value, 3, range(6), repeatable(b"2"))
    for chosen in itertools.combinations(range(6), 3):
        assert join({seat: found[seat] for seat in chosen}, 3, value.__eq__) == Recovered(value, ())
    assert len(set(found.values())) == 6


def test_a_share_is_the_polynomial_at_its_seat() -> None:
    """Against the definition: f(x) = secret + a1 x + a2 x^2, drawn highest first."""
    a2, a1 = 12345, 2**200 + 7
    drawn = iter([a2.to_bytes(32, "little"), a1.to_bytes(32, "little")])
    found = split((99).to_bytes(32, "little"), 3, [0, 4, 63], lambda _: next(drawn))
    for seat, share in found.items():
        assert number(share) == (99 + a1 * (seat + 1) + a2 * (seat + 1) ** 2) % P


def test_fewer_tell_nothing() -> None:
    """For any guess of the secret there is a polynomial through t - 1 shares: they exclude none."""
    found = split((5).to_bytes(32, "little"), 2, [0, 1], repeatable(b"3"))
    for guess in (0, 5, 77, P - 1):
        slope = (number(found[0]) - guess) % P
        assert (guess + slope) % P == number(found[0])
    # and over many draws a share is uniform whatever the secret
    tops = [number(split(bytes(32), 2, [0, 1], repeatable(b"%d" % i))[1]) * 16 // P for i in range(1600)]
    counts = np.bincount(tops, minlength=16)
    assert ((counts - 100) ** 2 / 100).sum() < 45  # of 15 degrees: passed once in 10^4


@pytest.mark.parametrize("liar", range(5))
def test_one_lie_is_survived_with_a_share_to_spare(liar: int) -> None:
    value = secret(repeatable(b"secret"))
    found = split(value, 4, range(5), repeatable(b"4"))
    found[liar] = secret(repeatable(b"lie"))
    assert join(found, 4, value.__eq__) == Recovered(value, (liar,))
    assert not consistent(found, 4)
    del found[(liar + 1) % 5]
    assert join(found, 4, value.__eq__) is None
    assert consistent(found, 4)  # four are on some polynomial always


def test_refused() -> None:
    found = split(bytes(32), 3, range(4), repeatable(b"5"))
    with pytest.raises(Mistake, match="2 shares are too few: 3 give the secret"):
        join({0: found[0], 1: found[1]}, 3, bool)
    for wrong in (b"", bytes(31), bytes(33), P.to_bytes(32, "little"), b"\xff" * 32):
        with pytest.raises(Mistake, match="32 bytes, a number below"):
            number(wrong)
    for threshold, seats in ((0, [0, 1]), (3, [0, 1]), (2, [1, 1])):
        with pytest.raises(Mistake, match=f"threshold={threshold} must be from 1"):
            split(bytes(32), threshold, seats, repeatable(b"6"))


def test_draws_past_the_field_are_drawn_again() -> None:
    drawn = iter([b"\xff" * 31 + b"\x7f", (2**255 - 19).to_bytes(32, "little"), (2**255 + 4).to_bytes(32, "little")])
    assert secret(lambda _: next(drawn)) == (4).to_bytes(32, "little")


def test_the_field_is_one() -> None:
    """Fermat's test to a few bases, and no small factor: p is the prime of Curve25519."""
    assert all(pow(base, P - 1, P) == 1 for base in (2, 3, 5, 7, 11))
    assert math.gcd(P, math.prod(range(2, 2000))) == 1
