"""How well scores distinguish two kinds of trials: the rates of true and false alarms at every threshold."""

import math
from dataclasses import dataclass

import numpy as np

from hush.audit.bounds import Floats
from hush.errors import Mistake


@dataclass(frozen=True, eq=False)
class Curve:
    """The receiver operating characteristic: at each threshold, from none to all, the rates of alarms.

    `true` is the rate of those that deserve one, `false` of the others. Equal scores are never parted.
    """

    true: Floats
    false: Floats
    positives: int
    negatives: int

    @classmethod
    def of(cls, positives: Floats, negatives: Floats) -> "Curve":
        """From the scores of both kinds; a high score speaks for a positive."""
        for name, scores in (("positives", positives), ("negatives", negatives)):
            if scores.ndim != 1 or len(scores) == 0:
                raise Mistake(f"{name} has the shape {scores.shape} and must be one row of scores: give at least one")
            if np.isnan(scores).any():
                raise Mistake(f"{name} holds scores that are no numbers: an attack needs one for each trial")
        thresholds = np.unique(np.concatenate([positives, negatives]))[::-1]
        return cls(_above(positives, thresholds), _above(negatives, thresholds), len(positives), len(negatives))

    @property
    def auc(self) -> float:
        """The area below: how often a positive has the higher score; of equal ones, half the time."""
        return float(np.trapezoid(self.true, self.false))

    @property
    def error(self) -> float:
        """The standard error of the area where scores say nothing: sqrt((m + n + 1) / (12 m n)) (Mann and Whitney)."""
        m, n = self.positives, self.negatives
        return math.sqrt((m + n + 1) / (12 * m * n))

    def at(self, rate: float) -> float:
        """The largest rate of true alarms at which the rate of false ones is at most this."""
        if not 0 <= rate <= 1:
            raise Mistake(f"rate={rate:g} must be from 0 to 1: the false alarms that are allowed, as 0.001")
        return float(self.true[np.searchsorted(self.false, rate + 1e-12, side="right") - 1])


def _above(scores: Floats, thresholds: Floats) -> Floats:
    """The part of the scores at or above each threshold, and at first none."""
    below = np.searchsorted(np.sort(scores), thresholds)
    found: Floats = np.concatenate([[0.0], 1 - below / len(scores)])
    return found
