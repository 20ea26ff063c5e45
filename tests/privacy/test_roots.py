"""Brent's method: scipy's own steps, to the last bit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from hush.privacy.accountants import gaussian_log_delta
from hush.privacy.roots import brent


@given(mu=st.floats(1e-2, 60), delta=st.floats(1e-30, 1e-2))
def test_equals_scipy_on_the_gaussian_curve(mu: float, delta: float) -> None:
    def curve(e: float) -> float:
        return gaussian_log_delta(mu, e) - math.log(delta)

    high = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    if curve(0.0) > 0:
        assert brent(curve, 0.0, high, 1e-12) == brentq(curve, 0.0, high, xtol=1e-12, rtol=1e-12)


@given(st.floats(-3, 3), st.floats(0.1, 5), st.floats(0.1, 5))
def test_equals_scipy_on_a_cubic(root: float, below: float, above: float) -> None:
    def cubic(x: float) -> float:
        return (x - root) ** 3 + 0.1 * (x - root)

    ends = root - below, root + above
    assert brent(cubic, *ends, 1e-12) == brentq(cubic, *ends, xtol=1e-12, rtol=1e-12)


def test_ends_of_one_sign_are_refused() -> None:
    with pytest.raises(ValueError, match="one sign"):
        brent(lambda x: x * x + 1, 0.0, 1.0, 1e-9)
    assert brent(lambda x: x, 0.0, 1.0, 1e-9) == 0.0
    assert brent(lambda x: x - 1, 0.0, 1.0, 1e-9) == 1.0
