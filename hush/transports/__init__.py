"""Transports: the only contact with clients."""

from typing import Protocol

from hush.rng import SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total
from hush.state import Books
from hush.task import Task
from hush.transports.local import Local
from hush.transports.loopback import Loopback

__all__ = ["Local", "Loopback", "Transport"]


class Transport(Protocol):
    """Brings a round's plan to its cohort and the uploads back."""

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, books: Books
    ) -> Total:
        """The total of the uploads of whoever answers; Aborted where the aggregator needs more of them.

        What clients keep for later rounds and the bytes are noted in the books, which the loop settles.
        """
        ...
