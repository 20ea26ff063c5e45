"""Who takes part in a round."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake
from hush.rng import PublicSeed, SecretSeed
from hush.spec import Members

TAIL = 1e-30  # of a Poisson cohort's size: a probability that is counted and not looked into
Kind = Literal["poisson", "fixed", "once"]
Counted = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]  # numbers of clients, and their probabilities


class Sampling(Protocol):
    """How a cohort is drawn, in secret: amplification by sampling rests on that. Where it is public there is none."""

    @property
    def kind(self) -> Kind: ...
    @property
    def floor(self) -> int: ...
    @property
    def tolerance(self) -> float | None: ...
    @property
    def dropout(self) -> float: ...
    def draw(self, population: int, secret: SecretSeed, round: int) -> Members: ...
    def rate(self, population: int) -> float: ...
    def cohort(self, population: int) -> float: ...
    def slack(self, population: int) -> float: ...
    def others(self, population: int) -> Counted: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Poisson:
    """Each client takes part with probability `chance`, independently of all others.

    The mean divides by the expected cohort, so that the released model does not tell its size.

    floor      a smaller cohort aborts the round; the abort is visible: its probability is charged to delta (`slack`)
    tolerance  the fraction of a cohort without which noise shares still have their multiplier against the server: they
               are sized for the rest. With fewer clients a plain round is charged for the noise that is left, and a
               secure sum is not opened. Not given: see Scheme.tolerance
    dropout    the largest probability that a drawn client drops out, independently of the others, as the operator
               declares it: an abort of a secure sum is charged to delta by it
    """

    chance: float
    floor: int = 0
    tolerance: float | None = None
    dropout: float = 0.0
    kind: ClassVar[Kind] = "poisson"

    def __post_init__(self) -> None:
        if not 0 < self.chance <= 1:
            raise Mistake(f"sampling rate {self.chance} must be in (0, 1]: give a cohort within the population")
        _check(self.floor, self.tolerance, self.dropout)

    def draw(self, population: int, secret: SecretSeed, round: int) -> Members:
        """The members of a round's cohort, in increasing order."""
        rng = secret.generator("cohort", round)
        count = rng.binomial(population, self.chance)
        members = rng.choice(population, count, replace=False, shuffle=False)
        members.sort()
        return members

    def rate(self, population: int) -> float:
        """The chance that a given client takes part."""
        return self.chance

    def cohort(self, population: int) -> float:
        """The expected size of a cohort."""
        return self.chance * population

    def slack(self, population: int) -> float:
        """The chance that one client's presence decides whether the round aborts.

        It does when exactly floor - 1 others were drawn, and the client too.
        """
        if self.floor == 0:
            return 0.0
        registered = (population - 1, population)  # of the two neighbours
        return self.chance * max(_binomial(self.floor - 1, others, self.chance) for others in registered)

    def others(self, population: int) -> Counted:
        """How many others are drawn beside a client, with their probabilities; tails of TAIL are left out."""
        from scipy.stats import binom  # slow to import

        registered = (population - 1, population)  # of the two neighbours
        # By the smaller side in both: 1 - TAIL is 1 in floating point.
        low = binom.ppf(TAIL, population - 1, self.chance)
        high = population - binom.ppf(TAIL, population, 1 - self.chance)
        counts = np.arange(max(0, int(low)), int(high) + 1)
        return counts, np.maximum(*(binom.pmf(counts, others, self.chance) for others in registered))


@dataclass(frozen=True)
class Fixed:
    """A cohort of exactly `size` clients, drawn without replacement (the papers' sampling)."""

    size: int
    floor: int = 0
    tolerance: float | None = None
    dropout: float = 0.0
    kind: ClassVar[Kind] = "fixed"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise Mistake(f"cohort={self.size} must be at least 1")
        _check(self.floor, self.tolerance, self.dropout)

    def draw(self, population: int, secret: SecretSeed, round: int) -> Members:
        """The members of a round's cohort, in increasing order."""
        if self.size > population:
            raise Mistake(f"cohort={self.size} is larger than the population of {population}: lower it")
        members = secret.generator("cohort", round).choice(population, self.size, replace=False, shuffle=False)
        members.sort()
        return members

    def rate(self, population: int) -> float:
        """The chance that a given client takes part."""
        return self.size / population

    def cohort(self, population: int) -> float:
        """The size of a cohort."""
        return float(self.size)

    def slack(self, population: int) -> float:
        """None: the size of a cohort does not depend on who is registered."""
        return 0.0

    def others(self, population: int) -> Counted:
        """All but one."""
        return np.array([self.size - 1]), np.ones(1)


@dataclass(frozen=True)
class Once:
    """Each client has one turn in a pass: a public shuffle deals the clients to `cohorts` disjoint cohorts.

    Round t takes cohort (t - 1) mod cohorts, and there are cohorts * passes rounds. A client has the same turn in every
    pass, so that its rounds are `cohorts` apart: CorrelatedNoise counts on that. Nothing of it is secret, and nothing
    is amplified. Cohorts differ by one client at most; the mean divides by population / cohorts in every round.

    Guarantee: for adding or removing one client, who stays on the schedule and then counts as zeros, it pays for the
    releases of its own rounds alone. Given all that was released before, a round of others has the same law with the
    client and without it, whatever the models kept of the client's earlier rounds: that round's loss is 0, and the loss
    of all rounds is that of the client's own (parallel composition; it is adaptive for this reason).
    """

    cohorts: int
    passes: int = 1
    seed: int = 0
    floor: int = 0
    tolerance: float | None = None
    dropout: float = 0.0
    kind: ClassVar[Kind] = "once"

    def __post_init__(self) -> None:
        if self.cohorts < 1 or self.passes < 1:
            raise Mistake(f"cohorts={self.cohorts} and passes={self.passes} must be at least 1")
        _check(self.floor, self.tolerance, self.dropout)

    @property
    def rounds(self) -> int:
        """After these everybody has had all of its turns."""
        return self.cohorts * self.passes

    def draw(self, population: int, secret: SecretSeed, round: int) -> Members:
        """The members of a round's cohort, in increasing order."""
        self.cohort(population)
        if not 1 <= round <= self.rounds:
            raise Mistake(f"round {round} is not one of the {self.rounds} in which clients have their turn: add a pass")
        members = _shuffled(population, self.seed)[(round - 1) % self.cohorts :: self.cohorts].copy()
        members.sort()
        return members

    def rate(self, population: int) -> float:
        """1: everybody knows who takes part, so that nothing is amplified."""
        return 1.0

    def cohort(self, population: int) -> float:
        """The mean size of a cohort."""
        if self.cohorts > population:
            raise Mistake(f"cohorts={self.cohorts} are more than the {population} clients: take fewer rounds")
        return population / self.cohorts

    def slack(self, population: int) -> float:
        """None: the size of a cohort is public."""
        return 0.0

    def others(self, population: int) -> Counted:
        """None that matters: whether a client answers in its turn is the same with its data and without."""
        return np.empty(0, np.int64), np.empty(0)


@lru_cache(maxsize=4)
def _shuffled(population: int, seed: int) -> Members:
    """Kept for the next round: of a million clients it takes as long as many a round."""
    found: Members = PublicSeed(seed).generator("turns", population).permutation(population)
    found.setflags(write=False)
    return found


def _binomial(count: int, trials: int, chance: float) -> float:
    """The chance of `count` successes."""
    if count > trials:
        return 0.0
    if chance == 1:
        return float(count == trials)
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(chance) + (trials - count) * math.log1p(-chance))


def _check(floor: int, tolerance: float | None, dropout: float) -> None:
    if floor < 0:
        raise Mistake(f"floor={floor} must not be negative")
    if tolerance is not None and not 0 <= tolerance <= 0.99:
        raise Mistake(f"tolerance={tolerance} must be in [0, 0.99]: the fraction of a cohort that may drop out")
    if not 0 <= dropout < 1:
        raise Mistake(f"dropout={dropout} must be in [0, 1): the largest probability that a drawn client drops out")
