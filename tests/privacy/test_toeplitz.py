"""First columns against whole matrices."""

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from hush.errors import Mistake
from hush.privacy.toeplitz import Floats, inverse, square_root


def dense(column: Floats, size: int) -> Floats:
    """The lower-triangular matrix; a shorter column is banded."""
    return toeplitz(np.pad(column, (0, size - len(column))), np.zeros(size))


@pytest.mark.parametrize("size", [1, 2, 24, 300])
def test_the_square_root_of_the_prefix_sums(size: int) -> None:
    root = dense(square_root(size), size)
    np.testing.assert_allclose(root @ root, np.tri(size), atol=1e-12)


def test_its_numbers() -> None:
    """C(2k, k) / 4^k."""
    exact = [math.comb(2 * k, k) / 4**k for k in range(50)]
    np.testing.assert_allclose(square_root(50), exact, rtol=1e-14)


@pytest.mark.parametrize(("band", "size"), [(1, 1), (1, 5), (2, 7), (5, 20), (20, 20), (24, 240), (300, 300)])
def test_inverse(band: int, size: int) -> None:
    column = square_root(band)
    product = dense(column, size) @ dense(inverse(column, size), size)
    np.testing.assert_allclose(product, np.eye(size), atol=1e-12)


def test_inverse_of_another_scale() -> None:
    np.testing.assert_allclose(inverse(np.array([2.0, 1.0]), 4), [0.5, -0.25, 0.125, -0.0625], rtol=1e-15)


def test_inverse_of_the_square_root() -> None:
    """The coefficients of (1 - x)^(1/2): w_k = w_{k-1} (2k - 3) / (2k)."""
    k = np.arange(1, 200)
    expected = np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))])
    np.testing.assert_allclose(inverse(square_root(200), 200), expected, rtol=1e-9)


def test_rounding_dies_out() -> None:
    """A banded inverse over many more rounds than its band: the last numbers are as small as they should be."""
    found = inverse(square_root(8), 4000)
    assert np.abs(found).sum() < 3
    assert np.abs(found[-100:]).max() < 1e-15


def test_refused() -> None:
    with pytest.raises(Mistake, match="size=0 must be at least 1"):
        square_root(0)
