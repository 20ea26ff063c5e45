"""The server's move."""

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from hush.errors import Mistake


class Step(Protocol):
    """Moves the weights by the mean update."""

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, drift: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """New weights, and what the server keeps for the next round (None at first); the old ones stay as they are."""
        ...


@dataclass(frozen=True)
class SignStep:
    """w <- w + gamma * sign(mean update) (FL-SIGN, C Alg. 3)."""

    gamma: float

    def __post_init__(self) -> None:
        if not 0 < self.gamma < math.inf:
            raise Mistake(f"gamma={self.gamma} must be positive and finite: the length of a step in each weight")

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, drift: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Every live coordinate moves by gamma."""
        return _moved(weights, live, mean.to(weights.dtype).sign_().mul_(self.gamma)), None


@dataclass(frozen=True)
class Average:
    """w <- w + rate * mean update."""

    rate: float = 1.0

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, drift: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Only the live coordinates move."""
        return _moved(weights, live, (self.rate * mean).to(weights.dtype)), None


class Recovery(Protocol):
    """Rebuilds an update from fewer numbers."""

    def recover(self, y: Tensor, size: int) -> Tensor: ...


@dataclass(frozen=True)
class Momentum:
    """v <- keep * v + mean update, w <- w + rate * v; where updates are sensed, v is, and w moves by what it tells of.

    Sensing is linear, so that momentum of what was sensed is what is sensed of momentum: one recovery a round.
    """

    rate: float
    keep: float = 0.9
    sense: Recovery | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise Mistake(f"server_rate={self.rate} must be positive and finite")
        if not 0 <= self.keep < 1:
            raise Mistake(f"momentum={self.keep} must be in [0, 1): what is kept of the step before")

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, drift: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Only the live coordinates move; the drift is kept in float64."""
        if drift is not None and drift.numel() != mean.numel():
            raise Mistake(f"the momentum has {drift.numel()} numbers and the mean {mean.numel()}: go on as it began")
        drift = mean.double() if drift is None else self.keep * drift + mean
        size = weights.numel() if live is None else live.numel()
        update = drift if self.sense is None else self.sense.recover(drift, size)
        return _moved(weights, live, (self.rate * update).to(weights.dtype)), drift


@dataclass(frozen=True)
class Stay:
    """The shared model stays as it is: each client has its own."""

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, drift: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The weights as they are."""
        return weights, None


def _moved(weights: Tensor, live: Tensor | None, update: Tensor) -> Tensor:
    return weights + update if live is None else weights.index_add(0, live, update)
