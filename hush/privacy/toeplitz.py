"""Lower-triangular Toeplitz matrices, each as its first column; they multiply as power series do."""

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake

Floats = npt.NDArray[np.float64]


def square_root(size: int) -> Floats:
    """The square root C of the prefix sums: c_0 = 1, c_k = c_{k-1} (2k - 1) / (2k).

    These are the coefficients of (1 - x)^(-1/2), and those of 1 / (1 - x) are all 1: C C is the matrix of ones on and
    below the diagonal, and takes a sequence to its running sums.
    """
    if size < 1:
        raise Mistake(f"size={size} must be at least 1: give the number of rows")
    k = np.arange(1, size)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def inverse(column: Floats, size: int) -> Floats:
    """The inverse with `size` rows; a shorter column is that of a banded matrix.

    w_0 = 1 / c_0 and w_t = -(c_1 w_{t-1} + ... + c_t w_0) / c_0. Where c is positive and falls, all zeros of its
    polynomial lie outside the unit circle (Enestrom and Kakeya), so that rounding errors die out.
    """
    found = np.zeros(size)
    found[0] = 1 / column[0]
    for t in range(1, size):
        reach = min(t, len(column) - 1)
        found[t] = -column[1 : reach + 1] @ found[t - reach : t][::-1] / column[0]
    return found
