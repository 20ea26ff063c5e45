"""A linear classifier for few rows of many numbers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hush.audit.bounds import Floats
from hush.errors import Mistake

RIDGES = np.logspace(-3, 3, 13)  # of the mean eigenvalue of the Gram matrix


@dataclass(frozen=True, eq=False)
class Linear:
    """Ridge regression of +1 and -1 on standardised numbers: a score above 0 says yes.

    w = Z'(Z Z' + l I)^-1 y, solved among the rows, of which there are fewer than numbers. Of RIDGES the l is taken
    whose leave-one-out errors, which have a closed form, are the least in squares.
    """

    mean: Floats
    scale: Floats
    weights: Floats
    offset: float

    @classmethod
    def fit(cls, rows: Floats, holds: npt.NDArray[np.bool_]) -> "Linear":
        """From rows of both kinds."""
        if not holds.any() or holds.all():
            raise Mistake("all rows are of one kind: a classifier needs some of both")
        mean, scale = rows.mean(0), rows.std(0)
        scale[scale == 0] = 1.0  # what never changes says nothing
        z, y = (rows - mean) / scale, np.where(holds, 1.0, -1.0)
        offset = float(y.mean())
        values, vectors = np.linalg.eigh(z @ z.T)
        values = np.maximum(values, 0.0)
        turned = vectors.T @ (y - offset)
        best, least = np.zeros(len(y)), np.inf
        for ridge in RIDGES * max(float(values.mean()), np.finfo(float).tiny):
            inverse = 1 / (values + ridge)
            dual = vectors @ (inverse * turned)
            errors = float(np.square(dual / (np.square(vectors) @ inverse)).sum())
            if errors < least:
                best, least = dual, errors
        return cls(mean, scale, z.T @ best, offset)

    def scores(self, rows: Floats) -> Floats:
        """Of each row, how much speaks for yes."""
        found: Floats = ((rows - self.mean) / self.scale) @ self.weights + self.offset
        return found
