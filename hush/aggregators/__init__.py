"""Aggregators: what the server sees of the uploads."""

from collections.abc import Iterable
from typing import Protocol

from hush.aggregators.secure import SecureSum
from hush.aggregators.sum import Sum
from hush.aggregators.vote import BitVote
from hush.spec import Asked, Total, Uploads

__all__ = ["Aggregator", "BitVote", "SecureSum", "Sum"]


class Aggregator(Protocol):
    """Turns uploads into one Total."""

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client."""
        ...
