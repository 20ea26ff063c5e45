"""Rows that are mostly zero: only what is set is kept."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hush.errors import Mistake


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix by its rows: row i holds values[starts[i]:starts[i+1]] at columns[starts[i]:starts[i+1]].

    starts: int64, one more than there are rows. columns: int32, rising within a row, none twice. values: float32.
    `sparse[rows]` is dense, like rows of a Tensor, so that any model can take it; `take` stays sparse.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    width: int

    def __post_init__(self) -> None:
        kinds = (self.starts.dtype, self.columns.dtype, self.values.dtype)
        if kinds != (torch.int64, torch.int32, torch.float32):
            raise Mistake(f"sparse rows of types {kinds} must be int64 starts, int32 columns and float32 values")
        if len(self.columns) != len(self.values) or int(self.starts[0]) or int(self.starts[-1]) != len(self.values):
            raise Mistake("sparse rows need starts from 0 to the number of values, and a column for each value")
        if len(self.columns) and not 0 <= int(self.columns.min()) <= int(self.columns.max()) < self.width:
            raise Mistake(f"sparse rows name a column outside 0 to {self.width - 1}: give the right width")

    def check(self) -> None:
        """Refuse rows whose columns do not rise: one that comes twice would count otherwise in a norm than in a sum."""
        rises = self.columns[1:] > self.columns[:-1]
        ends = self.starts[1:-1]
        rises[ends[(ends > 0) & (ends < len(self.columns))] - 1] = True  # from one row to the next
        if not bool(rises.all()):
            place = int((~rises).nonzero()[0]) + 1
            row = int(torch.searchsorted(self.starts, place, right=True)) - 1
            raise Mistake(
                f"row {row} of the sparse inputs has columns that do not rise: sort them, and add up equal ones"
            )

    @classmethod
    def of(cls, dense: Tensor) -> Sparse:
        """The numbers of a dense matrix that are not zero."""
        rows, columns = dense.nonzero(as_tuple=True)
        starts = torch.zeros(len(dense) + 1, dtype=torch.int64)
        starts[1:] = torch.bincount(rows, minlength=len(dense)).cumsum(0)
        return cls(starts, columns.to(torch.int32), dense[rows, columns].to(torch.float32), dense.shape[1])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> torch.Size:
        """Rows and columns."""
        return torch.Size((len(self), self.width))

    def dim(self) -> int:
        """Two axes, always."""
        return 2

    def isfinite(self) -> Tensor:
        """For each number that is kept, whether it is finite."""
        return self.values.isfinite()

    def range(self) -> tuple[float, float]:
        """The smallest and the largest number, zeros included."""
        full = len(self.values) == self.shape.numel()
        ends = [float(end) for end in torch.aminmax(self.values)] if len(self.values) else [0.0, 0.0]
        return (ends[0], ends[1]) if full else (min(ends[0], 0.0), max(ends[1], 0.0))

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        return self.take(rows).dense()

    def index_select(self, dim: int, rows: Tensor) -> Tensor:
        """Rows as a dense matrix; `dim` is 0, as for a Tensor."""
        return self.take(rows).dense()

    def take(self, rows: Tensor | slice) -> Sparse:
        """The given rows, in the given order."""
        if isinstance(rows, slice):
            rows = torch.arange(len(self))[rows]
        first = self.starts[rows]
        counts = self.starts[rows + 1] - first
        starts = torch.zeros(len(rows) + 1, dtype=torch.int64)
        torch.cumsum(counts, 0, out=starts[1:])
        where = torch.arange(int(starts[-1])) + (first - starts[:-1]).repeat_interleave(counts)
        return Sparse(starts, self.columns[where], self.values[where], self.width)

    def owners(self) -> Tensor:
        """The row of each value, int64."""
        return torch.arange(len(self)).repeat_interleave(self.starts[1:] - self.starts[:-1])

    def dense(self) -> Tensor:
        """The whole matrix."""
        found = torch.zeros(self.shape)
        found[self.owners(), self.columns.long()] = self.values
        return found
