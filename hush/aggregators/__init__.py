"""Aggregators: what the server sees of the uploads."""

from collections.abc import Iterable
from typing import Protocol

from torch import Tensor

from hush.aggregators.sum import Sum
from hush.spec import Total

__all__ = ["Aggregator", "Sum"]


class Aggregator(Protocol):
    """Turns uploads into one Total."""

    def combine(self, uploads: Iterable[tuple[Tensor, Tensor]], size: int) -> Total:
        """From blocks of (uploads, numbers of records), one row per client."""
        ...
