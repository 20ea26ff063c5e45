"""The server's move."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Step(Protocol):
    """Moves the weights by the mean update."""

    def move(self, weights: Tensor, live: Tensor | None, mean: Tensor) -> Tensor:
        """New weights; the old ones stay as they are."""
        ...


@dataclass(frozen=True)
class Average:
    """w <- w + rate * mean update."""

    rate: float = 1.0

    def move(self, weights: Tensor, live: Tensor | None, mean: Tensor) -> Tensor:
        """Only the live coordinates move."""
        update = (self.rate * mean).to(weights.dtype)
        return weights + update if live is None else weights.index_add(0, live, update)
