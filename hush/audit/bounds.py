"""What two sets of scores prove of epsilon, whatever mechanism they come from.

Where (epsilon, delta) holds for a pair of neighbours, each event E has P(E) <= e^epsilon Q(E) + delta, and so has the
pair (Q, P). An event that is seen often enough in one world and seldom enough in the other disproves a small epsilon.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from hush.errors import Mistake
from hush.privacy.accountants import gaussian_epsilon

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SKEWED = 0.2  # so much skewness may be that of sums of a few discrete numbers
GRID = 100  # thresholds that are tried in each tail of each world; they cost no confidence
EVENTS = ((True, True), (False, True), (True, False), (False, False))  # above the threshold?  likelier if present?


class Bound(NamedTuple):
    """Epsilon is at least this much, and the event that shows it.

    The event is a score of at least the `threshold`, or with above=False one below it. It was counted in trials that
    did not choose it: `often` of them in the world where it is likelier, `seldom` in the other one.
    """

    epsilon: float
    threshold: float
    above: bool
    often: int
    seldom: int


def lower_bound(present: Floats, absent: Floats, delta: float, confidence: float = 0.95) -> Bound:
    """The largest epsilon that the scores of trials with the client and without it disprove at `delta`.

    The first half of either set chooses a threshold for each of the four events of EVENTS. The second half counts
    them, and Clopper and Pearson's intervals bound their probabilities p and q: epsilon >= log((p - delta) / q).

    Guarantee: where all trials are independent and (epsilon, delta) holds, the bound exceeds epsilon with a probability
    of at most 1 - confidence. The eight intervals share it, and nothing is assumed of the distributions.
    """
    _check(present, absent, delta, confidence)
    miss = (1 - confidence) / (2 * len(EVENTS))
    chosen = _Worlds(np.sort(present[: len(present) // 2]), np.sort(absent[: len(absent) // 2]))
    tested = _Worlds(np.sort(present[len(present) // 2 :]), np.sort(absent[len(absent) // 2 :]))
    grid, found = chosen.grid(), []
    for above, likelier in EVENTS:
        best = grid[[int(_epsilon(*chosen.counts(grid, above, likelier), delta, miss).argmax())]]
        (often, trials), (seldom, others) = tested.counts(best, above, likelier)
        epsilon = _epsilon((often, trials), (seldom, others), delta, miss)
        found.append(Bound(float(epsilon[0]), float(best[0]), above, int(often[0]), int(seldom[0])))
    return max(found, key=lambda bound: bound.epsilon)


def gaussian_bound(present: Floats, absent: Floats, delta: float, confidence: float = 0.95) -> float:
    """The epsilon of two normal distributions as far apart as these scores are, at least: the present ones above.

    Guarantee: where scores are normal and all trials independent, it exceeds epsilon with a probability of about
    1 - confidence: the interval of the distance is that of large samples, and one-sided. It is far nearer to the truth
    than `lower_bound`, whose events must be counted, and says nothing where scores are not normal: it is 0 where those
    of one world reach further towards the other than away from it, as of signs that hardly ever change.
    """
    _check(present, absent, delta, confidence)
    if _leans(-present) or _leans(absent):
        return 0.0
    spread = max(float(present.std(ddof=1)), float(absent.std(ddof=1)))
    gap = float(present.mean() - absent.mean())
    if gap <= 0:
        return 0.0
    if spread == 0:
        return math.inf
    mu, fewer = gap / spread, min(len(present), len(absent))
    error = math.sqrt(1 / len(present) + 1 / len(absent) + mu**2 / (2 * fewer))
    least = max(0.0, mu - float(ndtri(confidence)) * error)
    if least == 0:
        return 0.0
    return gaussian_epsilon(least, delta) if delta > 0 else math.inf


def _leans(scores: Floats) -> bool:
    """Whether the upper tail is longer than that of normal numbers: by the skewness, beyond three of its errors."""
    rest = scores - scores.mean()
    variance = float(np.square(rest).mean())
    if variance == 0:
        return False
    skewness = float((rest**3).mean()) / math.pow(variance, 1.5)
    return skewness > max(SKEWED, 3 * math.sqrt(6 / len(scores)))


class _Worlds(NamedTuple):
    """Sorted scores of both."""

    present: Floats
    absent: Floats

    def grid(self) -> Floats:
        """Thresholds in all tails, at ranks that grow by a factor."""
        found = []
        for scores in self:
            ranks = np.unique(np.geomspace(1, len(scores), GRID).astype(np.int64)) - 1
            found += [scores[ranks], scores[::-1][ranks]]
        return np.unique(np.concatenate(found))

    def counts(self, thresholds: Floats, above: bool, likelier: bool) -> tuple[tuple[Counts, int], tuple[Counts, int]]:
        """How often the events happened, of how many trials: where they are likelier, and in the other world."""
        found = []
        for scores in self:
            below = np.searchsorted(scores, thresholds)
            found.append((len(scores) - below if above else below, len(scores)))
        return (found[0], found[1]) if likelier else (found[1], found[0])


def _epsilon(often: tuple[Counts, int], seldom: tuple[Counts, int], delta: float, miss: float) -> Floats:
    """log((p - delta) / q), 0 where negative: p is too high, or q too low, with probability `miss` each."""
    (k, n), (j, m) = often, seldom
    p = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, miss), 0.0)
    q = np.where(j < m, betaincinv(j + 1, np.maximum(m - j, 1), 1 - miss), 1.0)
    ratio: Floats = np.log(np.maximum((p - delta) / q, 1.0))
    return ratio


def _check(present: Floats, absent: Floats, delta: float, confidence: float) -> None:
    if not 0 <= delta < 1:
        raise Mistake(f"delta={delta:g} must be from 0 to less than 1: take the one that epsilon was accounted at")
    if not 0 < confidence < 1:
        raise Mistake(f"confidence={confidence:g} must lie between 0 and 1: take 0.95 or more")
    for name, scores in (("present", present), ("absent", absent)):
        if scores.ndim != 1 or len(scores) < 2:
            raise Mistake(f"{name} has the shape {scores.shape} and must be one row of two scores at least: add trials")
        if math.isnan(float(scores.sum())) and np.isnan(scores).any():
            raise Mistake(f"{name} holds scores that are no numbers: an audit needs one for each trial")
