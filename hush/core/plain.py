"""The neutral parts, for a scheme that names no other: all weights, their sum, their mean, sent as they are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core.packing import FLOATS, Form
from hush.core.protocols import Aggregator, Coordinates, Downlink, Step
from hush.core.spec import Asked, Total, Uploads
from hush.core.task import Problem
from hush.models.weights import Layout
from hush.random.seeds import PublicSeed

NEAR = 2**15  # numbers of a sum that stay in a core's cache while the rows of a block are added


@dataclass(frozen=True)
class All(Coordinates):
    """Every weight."""

    whole: ClassVar[bool] = True
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = True

    def count(self, layout: Layout) -> int:
        """All of them."""
        return layout.parameters

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor | None:
        """None: all."""
        return None


@dataclass(frozen=True)
class Sum(Aggregator):
    """The sum of the uploads in float64, taken as they come: memory does not grow with the cohort."""

    adds: ClassVar[bool] = True

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client."""
        body, count, weight = np.zeros(asked.size), 0, 0.0
        for rows, sizes, *_ in uploads:
            _add(body, rows.numpy())
            count += len(sizes)  # a row may be the sum of several clients' integers
            weight += float(sizes.sum())
            del rows  # before the next ones are made
        return Total(torch.from_numpy(body), count, weight)


@dataclass(frozen=True)
class Average(Step):
    """w <- w + rate * mean update."""

    settings: ClassVar[tuple[str, ...]] = ("momentum", "server_rate")

    rate: float = 1.0

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, optimizer: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """Only the live coordinates move."""
        return moved(weights, live, (self.rate * mean).to(weights.dtype)), None


@dataclass(frozen=True)
class Exact(Downlink):
    """As they are, four bytes each."""

    exact: ClassVar[bool] = True
    bits: ClassVar[int] = FLOATS.bits
    form: ClassVar[Form] = FLOATS

    def send(self, weights: Tensor, downlink_error: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """All of it: there is no error."""
        return weights, None


def moved(weights: Tensor, live: Tensor | None, update: Tensor) -> Tensor:
    """The weights after an update of the live ones."""
    return weights + update if live is None else weights.index_add(0, live, update)


def _add(body: npt.NDArray[np.float64], rows: npt.NDArray[np.float32]) -> None:
    for first in range(0, body.size, NEAR):
        part = body[first : first + NEAR]
        for row in rows[:, first : first + NEAR]:  # in the order of the clients, whatever the blocks: the same bits
            part += row  # numpy widens in passing, torch would make a float64 copy of the row first
