"""The server's move."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from hush.core.plain import moved
from hush.core.protocols import Parts, Recovery, Step
from hush.core.task import Registered
from hush.errors import Mistake


@dataclass(frozen=True)
class SignStep(Step):
    """w <- w + gamma * sign(mean update) (FL-SIGN, C Alg. 3)."""

    settings: ClassVar[tuple[str, ...]] = ("gamma",)

    gamma: float

    def __post_init__(self) -> None:
        if not 0 < self.gamma < math.inf:
            raise Mistake(f"gamma={self.gamma} must be positive and finite: the length of a step in each weight")

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, optimizer: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Every live coordinate moves by gamma."""
        return moved(weights, live, mean.to(weights.dtype).sign_().mul_(self.gamma)), None


@dataclass(frozen=True)
class Momentum(Step):
    """v <- keep * v + mean update, w <- w + rate * v; where updates are sensed, v is, and w moves by what it stands
    for.

    Sensing is linear, so that momentum of what was sensed is what is sensed of momentum: one recovery a round.
    """

    settings: ClassVar[tuple[str, ...]] = ("momentum", "server_rate")

    rate: float
    keep: float = 0.9
    sense: Recovery | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise Mistake(f"server_rate={self.rate} must be positive and finite")
        if not 0 <= self.keep < 1:
            raise Mistake(f"momentum={self.keep} must be in [0, 1): what is kept of the step before")

    @property
    def momentum(self) -> float:
        """What the settings call `keep`."""
        return self.keep

    @property
    def server_rate(self) -> float:
        """What the settings call `rate`."""
        return self.rate

    @property
    def recovery(self) -> Recovery | None:
        """What updates are rebuilt by, where they are sensed."""
        return self.sense

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse coordinates that change from round to round, and do not come again in turn."""
        if not scheme.fixed and (not scheme.joint or self.sense is not None):
            raise Mistake("Momentum keeps a number for each weight, and coordinates are drawn each round: fix them")

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, optimizer: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Only the live coordinates move; the optimizer is kept in float64."""
        if optimizer is not None and optimizer.numel() != mean.numel():
            raise Mistake(
                f"the momentum has {optimizer.numel()} numbers and the mean {mean.numel()}: go on as it began"
            )
        optimizer = mean.double() if optimizer is None else self.keep * optimizer + mean
        size = weights.numel() if live is None else live.numel()
        update = optimizer if self.sense is None else self.sense.recover(optimizer, size)
        return moved(weights, live, (self.rate * update).to(weights.dtype)), optimizer


@dataclass(frozen=True)
class Stay(Step):
    """The shared model stays as it is: each client has its own."""

    stays: ClassVar[bool] = True

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, optimizer: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The weights as they are."""
        return weights, None
