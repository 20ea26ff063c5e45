"""What one training with canaries proves of epsilon (Steinke, Nasr, Jagielski 2023; Andrew et al. 2024).

Each of m canaries is in the training with probability 1/2, by a coin of its own. Whoever sees the models guesses the
coins of those that it is surest of. Where (epsilon, delta) holds for each canary, the number of right guesses is hardly
larger than that of coins that come up right with probability e^epsilon / (1 + e^epsilon): many right ones disprove a
small epsilon. All canaries are of one training, which need not be repeated.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, gammaln

from hush.audit.bounds import Floats, gaussian_bound
from hush.errors import Mistake
from hush.privacy.facts import Finding

Coins = npt.NDArray[np.bool_]
FRACTIONS = (
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
)  # of the canaries that are guessed: all are tried
NORMAL = "the scores are normal and independent"
MOST = 50.0  # an epsilon that no audit shows
STEPS = 60  # of a bisection


class OneRun(NamedTuple):
    """Epsilon is at least `epsilon`, for `right` of `guesses` were; `fitted` if scores are normal.

    `most` is what so many canaries could show, were all guesses right.
    """

    epsilon: float
    right: int
    guesses: int
    canaries: int
    fitted: float
    most: float


def one_run(scores: Floats, included: Coins, delta: float, confidence: float = 0.95) -> OneRun:
    """What the scores of the canaries, higher for those that seem included, show.

    Guarantee: where (epsilon, delta) holds for each canary and their coins are independent and fair, the bound exceeds
    epsilon with a probability of at most 1 - confidence. Nothing is assumed of the scores.
    """
    m = len(scores)
    if scores.ndim != 1 or included.shape != scores.shape or m < 10 or np.isnan(scores).any():
        raise Mistake(f"{m} scores are too few, or not one number for each canary: take 100 canaries or more")
    if not 0 < confidence < 1 or not 0 <= delta < 1:
        raise Mistake(f"confidence={confidence:g} and delta={delta:g} must lie between 0 and 1")
    if included.all() or not included.any():
        raise Mistake(
            "all canaries are on one side: each must be in the training with probability 1/2, by its own coin"
        )
    order = np.argsort(scores, kind="stable")
    miss, best = (1 - confidence) / len(FRACTIONS), OneRun(0.0, 0, 0, m, 0.0, 0.0)
    most = 0.0
    for fraction in FRACTIONS:
        each = max(1, round(fraction * m / 2))
        low, high = order[:each], order[m - each :]
        right = int((~included[low]).sum() + included[high].sum())
        found = epsilon_of_guesses(right, 2 * each, m, delta, miss)
        most = max(most, epsilon_of_guesses(2 * each, 2 * each, m, delta, miss))
        if found > best.epsilon or not best.guesses:
            best = OneRun(found, right, 2 * each, m, 0.0, 0.0)
    return best._replace(most=most, fitted=gaussian_bound(scores[included], scores[~included], delta, confidence))


def epsilon_of_guesses(right: int, guesses: int, canaries: int, delta: float, miss: float) -> float:
    """The largest epsilon that so many right guesses disprove, but for a probability of `miss`."""
    if tail(right, guesses, canaries, 0.0, delta) > miss:
        return 0.0
    low, high = 0.0, MOST
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(right, guesses, canaries, middle, delta) <= miss else (low, middle)
    return low


def tail(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The probability, at most, of so many right guesses under (epsilon, delta): Steinke et al., Theorem 5.2.

    That of fair-at-epsilon coins, P(B >= v) with B ~ Binomial(r, p), p = e^epsilon / (1 + e^epsilon), and for delta
    2 m delta times the largest P(v - i <= B < v) / i.
    """
    p = 1 / (1 + math.exp(-epsilon))
    if right == 0:
        return 1.0
    beyond = float(bdtrc(right - 1, guesses, p))
    if delta == 0:
        return min(1.0, beyond)
    few = np.arange(right - 1, -1, -1)
    ways = gammaln(guesses + 1) - gammaln(few + 1) - gammaln(guesses - few + 1)
    below = np.cumsum(np.exp(ways - (guesses - few) * epsilon - guesses * math.log1p(math.exp(-epsilon))))
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beyond + 2 * canaries * delta * alpha)


class Scored(NamedTuple):
    """Each canary's score, and whether it was included."""

    scores: Floats
    included: Coins

    def shown(self, delta: float, confidence: float = 0.95) -> OneRun:
        """What they prove."""
        return one_run(self.scores, self.included, delta, confidence)

    def findings(
        self, attack: str, assumes: str | None, stated: float | None, delta: float, confidence: float = 0.95
    ) -> list[Finding]:
        """The same for a card, `assumes` beside it, and if scores are normal; each at this confidence."""
        found, sure = self.shown(delta, confidence), confidence
        words = (
            f"of the {found.guesses} of {found.canaries} canaries that it was surest of, {found.right} guessed right;"
            f" so many canaries can show {math.floor(100 * found.most) / 100:.2f} at most"
        )
        fitted = f"the distance of the scores of {found.canaries} canaries that were in and out, in deviations"
        return [
            Finding(attack, "model", stated, found.epsilon, delta, sure, assumes, words),
            Finding(f"{attack}, normal fit", "model", stated, found.fitted, delta, sure, NORMAL, fitted),
        ]
