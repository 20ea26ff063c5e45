"""The clients' side of a scheme: who takes part, and how they train."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from hush.core.engine import Engine
from hush.core.spec import Lengths, Members, Plan
from hush.core.task import Block, Registered
from hush.core.updates import Rows, Updates
from hush.errors import Mistake
from hush.privacy.events import Cohorts, Event, Level
from hush.random.seeds import SecretSeed

SPARE = 3.0  # deviations that a random cohort may be larger than expected, beyond which a sum might wrap
Counted = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]  # numbers of clients, and their probabilities


def named(part: object) -> str:
    """A part's name, for sentences."""
    return type(part).__name__


class Turns(NamedTuple):
    """A public schedule: clients have the same turn in each of `passes` passes, `rounds` rounds in all."""

    rounds: int
    passes: int


class Parts(Protocol):
    """A scheme, as its parts see it when they check what stands beside them; stages know each other by the Spec.

    fixed    the coordinates are the same in every round
    joint    or they come in turn, as parts of a fixed set that trains as a whole
    level    whom the noise protects, and whether it does: private
    secure   the server sees nothing but the sum
    """

    @property
    def trainer(self) -> "Trainer": ...
    @property
    def sampling(self) -> "Sampling": ...
    @property
    def fixed(self) -> bool: ...
    @property
    def joint(self) -> bool: ...
    @property
    def level(self) -> Level | None: ...
    @property
    def private(self) -> bool: ...
    @property
    def secure(self) -> bool: ...


def anew(part: type, method: str, **usual: object) -> None:
    """Where a class has a method of its own, what its parents say of theirs does not hold: back to the usual."""
    if method in vars(part):
        for name, value in usual.items():
            if name not in vars(part):
                setattr(part, name, value)


class Trainer(Protocol):
    """Trains a block of clients from the same weights.

    level      whom its own noise protects: "record", or nobody
    uncovered  what it uses of the records that no noise covers, in words
    """

    def __init_subclass__(cls, **given: object) -> None:
        """A fit of one's own is what the faster ways stand for: those of a parent are given up."""
        super().__init_subclass__(**given)
        anew(cls, "fit", updates=Trainer.updates, compact=Trainer.compact)

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def level(self) -> Level | None:
        return None

    @property
    def uncovered(self) -> str | None:
        return None

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """One row per client: what it has to say of the live coordinates (of all, where plan.live is None).

        The rows are given away: stages change them in place.
        """
        ...

    def updates(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Updates:
        """What fit gives, up to rounding, in a form that adds up faster where there is one."""
        return Rows(self.fit(block, plan, engine))

    def compact(self, block: Block, plan: Plan, engine: Engine = Engine()) -> int | None:
        """How many of such clients are best added up at a time, where none needs a row of its own; None: each does."""
        return None

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse, before anything is charged, what it cannot train or protect."""
        return None

    def probability(self, sizes: Tensor) -> Tensor | None:
        """A record's largest probability to be in a batch, at clients of so many records; None: protects no record."""
        return None

    def event(self, round: int, sampling: "Sampling", task: Registered, label: str = "update") -> Event | None:
        """What a round releases of one record; None: protects no record."""
        return None

    def shortest(self) -> "Trainer":
        """The same with as few steps as it can have, for audits that repeat it many times."""
        return self

    def lengths(self, block: Block, plan: Plan) -> Lengths | None:
        """What its own clip meets, of each record of these clients; None: it clips no record."""
        return None


class ClientRound(Protocol):
    """A client's side of a protocol of several phases. `numbers` gives its row, when it is needed."""

    def first(self, numbers: Callable[[], Tensor]) -> bytes:
        """What it says to the plan."""
        ...

    def answer(self, data: bytes, numbers: Callable[[], Tensor]) -> bytes:
        """What it says in a later phase."""
        ...


class Sampling(Protocol):
    """How a cohort is drawn, in secret: amplification by sampling rests on that. Where it is public there is none.

    kind       the analysis that covers it: poisson (independent), fixed (a size, without replacement), once (public)
    floor      a smaller cohort aborts the round
    tolerance  the part of a cohort that noise shares are not sized for; None: see Scheme.tolerance
    dropout    the largest probability that a drawn client drops out, as declared
    turns      the schedule, where it is public; a client then pays for its own turns alone
    """

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def kind(self) -> Cohorts: ...
    @property
    def floor(self) -> int:
        return 0

    @property
    def tolerance(self) -> float | None:
        return None

    @property
    def dropout(self) -> float:
        return 0.0

    @property
    def turns(self) -> Turns | None:
        return None

    def draw(self, population: int, secret: SecretSeed, round: int) -> Members:
        """The members of a round's cohort, in increasing order."""
        ...

    def rate(self, population: int) -> float:
        """The probability that a given client takes part."""
        ...

    def cohort(self, population: int) -> float:
        """The expected size of a cohort, by which the mean divides."""
        ...

    def slack(self, population: int) -> float:
        """The probability that one client's presence decides whether the round aborts."""
        ...

    def others(self, population: int) -> Counted:
        """How many others are drawn beside a client, with their probabilities."""
        ...

    def largest(self, population: int) -> int:
        """As many clients as a cohort has, but once in a thousand rounds."""
        expected = self.cohort(population)
        return min(population, math.ceil(expected + SPARE * math.sqrt(expected)))

    def at_least(self, clients: int) -> "Sampling":
        """The same without smaller cohorts: those rounds are aborted."""
        if self.floor >= clients:
            return self
        raise Mistake(f"{named(self)} has rounds of fewer than {clients} clients: give it floor={clients}")

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse parts that it does not go with."""
        return None

    def __hash__(self) -> int:
        """By its kind at least: what is found for a sampling is kept by it."""
        return hash(type(self))
