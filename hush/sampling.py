"""Who takes part in a round."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from hush.errors import Mistake
from hush.rng import SecretSeed
from hush.spec import Members

Kind = Literal["poisson", "fixed"]


class Sampling(Protocol):
    """How a cohort is drawn. The draw is secret: amplification by sampling rests on that."""

    @property
    def kind(self) -> Kind: ...
    @property
    def floor(self) -> int: ...
    @property
    def tolerance(self) -> float | None: ...
    def draw(self, population: int, secret: SecretSeed, round: int) -> Members: ...
    def rate(self, population: int) -> float: ...
    def cohort(self, population: int) -> float: ...
    def slack(self, population: int) -> float: ...


@dataclass(frozen=True)
class Poisson:
    """Each client takes part with probability `chance`, independently of all others.

    The mean divides by the expected cohort, so that the released model does not tell its size. Of the
    drawn clients the fraction `tolerance` may drop out: noise shares are sized for the rest. If it is not given, nobody
    may where noise is in shares, and anybody where it is not. A cohort
    below `floor` aborts the round; the abort is visible, so its chance is charged to delta (`slack`).
    """

    chance: float
    floor: int = 0
    tolerance: float | None = None
    kind: ClassVar[Kind] = "poisson"

    def __post_init__(self) -> None:
        if not 0 < self.chance <= 1:
            raise Mistake(f"sampling rate {self.chance} must be in (0, 1]: give a cohort within the population")
        _check(self.floor, self.tolerance)

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


@dataclass(frozen=True)
class Fixed:
    """A cohort of exactly `size` clients, drawn without replacement (the papers' sampling)."""

    size: int
    floor: int = 0
    tolerance: float | None = None
    kind: ClassVar[Kind] = "fixed"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise Mistake(f"cohort={self.size} must be at least 1")
        _check(self.floor, self.tolerance)

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


def _binomial(count: int, trials: int, chance: float) -> float:
    """The chance of `count` successes."""
    if count > trials:
        return 0.0
    if chance == 1:
        return float(count == trials)
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(chance) + (trials - count) * math.log1p(-chance))


def _check(floor: int, tolerance: float | None) -> None:
    if floor < 0:
        raise Mistake(f"floor={floor} must not be negative")
    if tolerance is not None and not 0 <= tolerance < 1:
        raise Mistake(f"tolerance={tolerance} must be in [0, 1): the fraction of a cohort that may drop out")
