"""The plain sum."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hush.sampling import Sampling
from hush.spec import Asked, Total, Uploads


@dataclass(frozen=True)
class Sum:
    """The sum of the uploads in float64, taken as they come: memory does not grow with the cohort."""

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client."""
        body, count, weight = np.zeros(asked.size), 0, 0.0
        for rows, sizes, *_ in uploads:
            _add(body, rows.numpy())
            count += len(rows)
            weight += float(sizes.sum())
            del rows  # before the next ones are made
        return Total(torch.from_numpy(body), count, weight)

    def slack(self, sampling: Sampling, population: int, tolerance: float) -> float:
        """None: the sum of whoever answers is taken."""
        return 0.0

    def colluding(self, cohort: int) -> int:
        """Nobody: the server sees the uploads, and needs no help."""
        return 0


def _add(body: npt.NDArray[np.float64], rows: npt.NDArray[np.float32]) -> None:
    for row in rows:  # in the order of the clients, whatever the blocks: the same bits
        body += row  # numpy widens in passing, torch would make a float64 copy of the row first
