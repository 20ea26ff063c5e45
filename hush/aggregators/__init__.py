"""Aggregators: what the server sees of the uploads."""

from collections.abc import Iterable
from typing import Protocol

from hush.aggregators.secure import SecureSum
from hush.aggregators.sum import Sum
from hush.aggregators.vote import BitVote
from hush.sampling import Sampling
from hush.spec import Asked, Total, Uploads

__all__ = ["Aggregator", "BitVote", "SecureSum", "Sum"]


class Aggregator(Protocol):
    """Turns uploads into one Total."""

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client."""
        ...

    def slack(self, sampling: Sampling, population: int, tolerance: float) -> float:
        """The probability that one client's presence decides whether a round is aborted here."""
        ...

    def colluding(self, cohort: int) -> int:
        """How many clients of a cohort may help the server, and tell it their noise; 0 where it needs no help."""
        ...
