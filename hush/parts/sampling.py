"""Who takes part in a round."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hush.core.protocols import Counted, Parts, Sampling, Turns, named
from hush.core.spec import Members
from hush.core.task import Registered
from hush.errors import Mistake, integer
from hush.privacy.events import Cohorts
from hush.random.seeds import PublicSeed, SecretSeed

TAIL = 1e-30  # of a Poisson cohort's size: a probability that is counted and not looked into


@dataclass(frozen=True)
class Poisson(Sampling):
    """Each client takes part with probability `probability`, independently of all others.

    The mean divides by the expected cohort, so that the released model does not reveal its size.

    floor      a smaller cohort aborts the round; the abort is visible: its probability is charged to delta (`slack`)
    tolerance  the fraction of a cohort without which noise shares still have their multiplier against the server: they
               are sized for the rest. With fewer clients a plain round is charged for the noise that is left, and a
               secure sum is not opened. Not given: see Scheme.tolerance
    dropout    the largest probability that a drawn client drops out, independently of the others, as the operator
               declares it: an abort of a secure sum is charged to delta by it
    """

    probability: float
    floor: int = 0
    tolerance: float | None = None
    dropout: float = 0.0
    kind: ClassVar[Cohorts] = "poisson"

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise Mistake(f"sampling rate {self.probability} must be in (0, 1]: give a cohort within the population")
        _check(self.floor, self.tolerance, self.dropout)

    def draw(self, population: int, secret: SecretSeed, round: int) -> Members:
        """The members of a round's cohort, in increasing order."""
        rng = secret.generator("cohort", round)
        count = rng.binomial(population, self.probability)
        members = rng.choice(population, count, replace=False, shuffle=False)
        members.sort()
        return members

    def rate(self, population: int) -> float:
        """The probability that a given client takes part."""
        return self.probability

    def cohort(self, population: int) -> float:
        """The expected size of a cohort."""
        return self.probability * population

    def slack(self, population: int) -> float:
        """The probability that one client's presence decides whether the round aborts.

        It does when exactly floor - 1 others were drawn, and the client too.
        """
        if self.floor == 0:
            return 0.0
        registered = (population - 1, population)  # of the two neighbours
        return self.probability * max(_binomial(self.floor - 1, others, self.probability) for others in registered)

    def others(self, population: int) -> Counted:
        """How many others are drawn beside a client, with their probabilities; tails of TAIL are left out."""
        from scipy.stats import binom  # slow to import

        registered = (population - 1, population)  # of the two neighbours
        # By the smaller side in both: 1 - TAIL is 1 in floating point.
        low = binom.ppf(TAIL, population - 1, self.probability)
        high = population - binom.ppf(TAIL, population, 1 - self.probability)
        counts = np.arange(max(0, int(low)), int(high) + 1)
        return counts, np.maximum(*(binom.pmf(counts, others, self.probability) for others in registered))

    def at_least(self, clients: int) -> "Poisson":
        """The same without smaller cohorts: those rounds are aborted."""
        return replace(self, floor=max(clients, self.floor))


@dataclass(frozen=True)
class Fixed(Sampling):
    """A cohort of exactly `size` clients, drawn without replacement (the papers' sampling)."""

    size: int
    floor: int = 0
    tolerance: float | None = None
    dropout: float = 0.0
    kind: ClassVar[Cohorts] = "fixed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", integer("cohort", self.size))
        _check(self.floor, self.tolerance, self.dropout)

    def draw(self, population: int, secret: SecretSeed, round: int) -> Members:
        """The members of a round's cohort, in increasing order."""
        if self.size > population:
            raise Mistake(f"cohort={self.size} is larger than the population of {population}: lower it")
        members = secret.generator("cohort", round).choice(population, self.size, replace=False, shuffle=False)
        members.sort()
        return members

    def rate(self, population: int) -> float:
        """The probability that a given client takes part."""
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

    def largest(self, population: int) -> int:
        """All cohorts have one size."""
        return self.size

    def at_least(self, clients: int) -> "Fixed":
        """The same without smaller cohorts: those rounds are aborted."""
        return replace(self, floor=max(clients, self.floor))


@dataclass(frozen=True)
class Once(Sampling):
    """Each client has one turn in a pass: a public shuffle deals the clients to `cohorts` disjoint cohorts.

    Round t takes cohort (t - 1) mod cohorts, and there are cohorts * passes rounds. A client has the same turn in every
    pass, so that it takes part every `cohorts` rounds: CorrelatedNoise counts on that. Nothing of it is secret, and
    nothing is amplified. Cohorts differ by one client at most; the mean divides by population / cohorts in every round.

    Guarantee: for adding or removing one client, who stays on the schedule and then counts as zeros, it pays for the
    releases of its own rounds alone. Given all that was released before, a round of others has the same distribution
    with the client and without it, whatever the models kept of the client's earlier rounds: that round's loss is 0,
    and the loss of all rounds is that of the client's own (parallel composition; it is adaptive for this reason).
    """

    cohorts: int
    passes: int = 1
    seed: int = 0
    floor: int = 0
    tolerance: float | None = None
    dropout: float = 0.0
    kind: ClassVar[Cohorts] = "once"

    def __post_init__(self) -> None:
        if self.cohorts < 1 or self.passes < 1:
            raise Mistake(f"cohorts={self.cohorts} and passes={self.passes} must be at least 1")
        _check(self.floor, self.tolerance, self.dropout)

    @property
    def rounds(self) -> int:
        """After these everybody has had all of its turns."""
        return self.cohorts * self.passes

    @property
    def turns(self) -> Turns:
        """The public schedule."""
        return Turns(self.rounds, self.passes)

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

    def largest(self, population: int) -> int:
        """Cohorts differ by one client at most."""
        return math.ceil(self.cohort(population))

    def at_least(self, clients: int) -> "Once":
        """The same without smaller cohorts: those rounds are aborted."""
        return replace(self, floor=max(clients, self.floor))

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse trainers that protect records: their releases would not be of one turn."""
        if scheme.level == "record":
            trainer = named(scheme.trainer)
            raise Mistake(f"Once(...) is for schemes that protect clients: take Fixed(size) with {trainer}")


@lru_cache(maxsize=4)
def _shuffled(population: int, seed: int) -> Members:
    """Kept for the next round: of a million clients it takes as long as many a round."""
    found: Members = PublicSeed(seed).generator("turns", population).permutation(population)
    found.setflags(write=False)
    return found


def _binomial(count: int, trials: int, probability: float) -> float:
    """The probability of `count` successes."""
    if count > trials:
        return 0.0
    if probability == 1:
        return float(count == trials)
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(probability) + (trials - count) * math.log1p(-probability))


def _check(floor: int, tolerance: float | None, dropout: float) -> None:
    if floor < 0:
        raise Mistake(f"floor={floor} must not be negative")
    if tolerance is not None and not 0 <= tolerance <= 0.99:
        raise Mistake(f"tolerance={tolerance} must be in [0, 0.99]: the fraction of a cohort that may drop out")
    if not 0 <= dropout < 1:
        raise Mistake(f"dropout={dropout} must be in [0, 1): the largest probability that a drawn client drops out")
