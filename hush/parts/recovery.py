"""Sparse recovery from some rows of a cosine transform, for many chunks at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import fft

Array = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Chunks of `length` numbers, padded to `width`; of chunk i, `counts[i]` rows of the transform are known.

    `places` are the known rows, chunk by chunk, as places in the block's (chunks, width) array.
    """

    places: Places
    counts: Places
    width: int
    length: int


@np.errstate(over="ignore", invalid="ignore")  # such a chunk goes without its s
def recover(y: Array, block: Chunks, iterations: int) -> Array:
    """x with A x = y (but for what the padding takes): a sparse part s, and the back projection of what s leaves over.

    s is found by orthogonal approximate message passing (Ma and Ping 2017), an accelerated proximal method for
    min |y - A x|^2 / 2 + lambda |x|_1 where A has orthonormal rows. With M numbers, m known rows, e = y - A x:

        r = x + (M/m) A^T e         each number of x, and an error that is like Gaussian noise of deviation tau
        tau^2 = (M/m - 1) |e|^2 / m
        s = soft(r, tau sqrt(2 ln(M/m)))
        x = (s - d r) / (1 - d)     d = |s|_0 / M: takes out of s what comes from the error in r

    The threshold follows the error, so lambda goes down by itself to where noise and dense remainders are: an
    exactly sparse x is found exactly, and of pure noise s takes little. sqrt(2 ln(M/m)) is the minimax threshold
    for few rows (Donoho, Maleki, Montanari 2009). In the end |e| measures the error of x as |y| measures that of zero:
    a chunk where it is not shorter by more than accident, |e|^2 > |y|^2 (1 - sqrt(2/m)), shows no sparse x, and goes
    without s.
    c y gives c times the result; it takes `iterations` + 1 pairs of transforms whatever y is.
    """
    counts, width = block.counts, block.width
    first = np.cumsum(counts) - counts
    share = width / counts  # M/m of each chunk
    gain = np.repeat(share, counts).astype(np.float32)
    reach = np.sqrt((share - 1) / counts * 2 * np.log(share))  # the threshold, per length of e
    full = np.zeros((len(counts), width), np.float32)
    x, s, e = np.zeros_like(full), np.zeros_like(full), y
    for _ in range(iterations):
        r = _back(full, e * gain, block)
        r += x
        bound = (reach * np.sqrt(np.add.reduceat(e * e, first))).astype(np.float32)[:, None]
        s = r - np.clip(r, -bound, bound)
        s[:, block.length :] = 0
        # Where all of s is set there is no error, and nothing to take out.
        downlink_error = (np.minimum(np.count_nonzero(s, axis=1), width - 1) / width).astype(np.float32)[:, None]
        x = (s - downlink_error * r) / (1 - downlink_error)
        e = y - _known(x, block)
    shorter = np.add.reduceat(e * e, first) <= (1 - np.sqrt(2 / counts)) * np.add.reduceat(y * y, first)
    s[~shorter] = 0
    return (s + _back(full, y - _known(s, block), block))[:, : block.length]


def _known(x: Array, block: Chunks) -> Array:
    """A x."""
    rows: Array = fft.dct(x, axis=1, norm="ortho").ravel()[block.places]
    return rows


def _back(full: Array, y: Array, block: Chunks) -> Array:
    """A^T y. `full` is zero but for the known rows, which are written over."""
    full.ravel()[block.places] = y
    x: Array = fft.idct(full, axis=1, norm="ortho")
    return x
