"""The server's move."""

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from hush.errors import Mistake


class Step(Protocol):
    """Moves the weights by the mean update."""

    def move(self, weights: Tensor, live: Tensor | None, mean: Tensor) -> Tensor:
        """New weights; the old ones stay as they are."""
        ...


@dataclass(frozen=True)
class SignStep:
    """w <- w + gamma * sign(mean update) (FL-SIGN, C Alg. 3)."""

    gamma: float

    def __post_init__(self) -> None:
        if not 0 < self.gamma < math.inf:
            raise Mistake(f"gamma={self.gamma} must be positive and finite: the length of a step in each weight")

    def move(self, weights: Tensor, live: Tensor | None, mean: Tensor) -> Tensor:
        """Every live coordinate moves by gamma."""
        update = mean.to(weights.dtype).sign_().mul_(self.gamma)
        return weights + update if live is None else weights.index_add(0, live, update)


@dataclass(frozen=True)
class Average:
    """w <- w + rate * mean update."""

    rate: float = 1.0

    def move(self, weights: Tensor, live: Tensor | None, mean: Tensor) -> Tensor:
        """Only the live coordinates move."""
        update = (self.rate * mean).to(weights.dtype)
        return weights + update if live is None else weights.index_add(0, live, update)
