"""All that the loop knows of clients."""

from dataclasses import dataclass
from typing import Protocol

from hush.core.scheme import Scheme
from hush.core.spec import Members, Plan, Total
from hush.core.state import Books
from hush.core.task import Registered
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Order:
    """What a round asks of its cohort. `secret` is the server's own; in a simulation it drives everybody's draws.

    Bytes, and in a simulation what clients keep, are noted in the books, which the loop settles or discards.
    """

    scheme: Scheme
    plan: Plan
    cohort: Members
    secret: SecretSeed
    books: Books


@dataclass(frozen=True)
class Opening:
    """What a run begins with: the scheme, the public seed, the server's secret one, the rounds and delta."""

    scheme: Scheme
    seed: int
    secret: SecretSeed
    rounds: int
    delta: float


class Clients(Protocol):
    """Registered clients, wherever they are."""

    def begin(self, terms: Opening) -> int | None:
        """Before the first round of a run, or the first after it was resumed.

        The last round that they were asked for by an earlier process, where that is known and they answer no round
        twice: later ones have released nothing. None where rounds are repeated.
        """
        ...

    @property
    def enrolled(self) -> Registered:
        """What is known of them in public: the problem, how many there are, their numbers of records."""
        ...

    def collect(self, order: Order) -> Total:
        """The total of the uploads of whoever answers; Aborted where the aggregator needs more of them."""
        ...
