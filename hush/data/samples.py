"""Rows of inputs and targets, and which client holds which rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hush.data.sparse import Sparse
from hush.errors import Mistake


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs (float32, dense or sparse) and targets (int64 classes, or float32 values), one row each per example."""

    inputs: Tensor | Sparse
    targets: Tensor

    def __post_init__(self) -> None:
        if self.inputs.dim() < 1 or self.targets.dim() < 1:
            raise Mistake("inputs and targets must have a first axis of rows: add one with x[None]")
        if len(self.inputs) == 0:
            raise Mistake("there are no rows: give at least one")
        if isinstance(self.inputs, Sparse):
            self.inputs.check()
        if len(self.inputs) != len(self.targets):
            raise Mistake(
                f"inputs have {len(self.inputs)} rows and targets {len(self.targets)}, which must be equal: "
                "give one target per input"
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, index: Tensor) -> Samples:
        """The given rows, in the given order."""
        inputs = self.inputs.take(index) if isinstance(self.inputs, Sparse) else self.inputs[index]
        return Samples(inputs, self.targets[index])


@dataclass(frozen=True, eq=False)
class Split:
    """Who holds what: client k holds `rows[starts[k]:starts[k+1]]`; every client at least one row.

    A row belongs to at most one client. The privacy of a client says nothing about a row that two hold, so
    `shared` must be said where they do: a simulated population that is larger than the data.
    """

    rows: Tensor
    starts: Tensor
    shared: bool = False

    def __post_init__(self) -> None:
        if len(self.starts) < 2 or int(self.starts[0]) != 0 or int(self.starts[-1]) != len(self.rows):
            raise Mistake("a split needs at least one client, and starts from 0 to the number of rows")
        empty = (self.sizes < 1).nonzero()
        if len(empty):
            raise Mistake(f"client {int(empty[0])} has no rows: give each at least one, or leave it out")
        if int(self.rows.min()) < 0:
            raise Mistake(f"row {int(self.rows.min())} must not be negative: count rows from 0")
        if not self.shared and _repeats(self.rows):
            ordered = self.rows.sort().values
            twice = int(ordered[1:][ordered[1:] == ordered[:-1]][0])
            raise Mistake(
                f"row {twice} is held twice, but a row belongs to one client: remove it from all but one,"
                " or say shared=True for a simulated population"
            )

    @classmethod
    def of(cls, clients: Iterable[Sequence[int] | Tensor | np.ndarray[Any, Any]]) -> Split:
        """From one sequence of row numbers per client."""
        parts = [torch.as_tensor(np.asarray(part), dtype=torch.int64).reshape(-1) for part in clients]
        if not parts:
            raise Mistake("a split needs at least one client: the list of clients is empty")
        sizes = torch.tensor([len(part) for part in parts])
        return cls(torch.cat(parts), torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def sizes(self) -> Tensor:
        """How many rows each client holds."""
        return self.starts[1:] - self.starts[:-1]

    def sizes_of(self, clients: np.ndarray[Any, np.dtype[np.int64]]) -> Tensor:
        """How many rows each of these clients holds."""
        where = torch.from_numpy(clients)
        return self.starts[where + 1] - self.starts[where]

    def rows_of(self, client: int) -> Tensor:
        """The rows of one client."""
        if not 0 <= client < len(self):
            raise Mistake(f"client {client} is not in this split: clients are 0 to {len(self) - 1}")
        return self.rows[int(self.starts[client]) : int(self.starts[client + 1])]

    def check(self, count: int) -> None:
        """Refuse a split that points past the `count` rows of the data."""
        last = int(self.rows.max())
        if last >= count:
            raise Mistake(f"the split names row {last}, but the data has {count} rows, 0 to {count - 1}")


def _repeats(rows: Tensor) -> bool:
    """Whether a number comes twice: a byte per possible row, a tenth of what sorting them takes."""
    top = int(rows.max())
    if top > 16 * len(rows) + 2**20:  # sparse numbers
        ordered = rows.sort().values
        return bool((ordered[1:] == ordered[:-1]).any())
    seen = torch.zeros(top + 1, dtype=torch.bool)
    seen[rows] = True
    return int(seen.sum()) < len(rows)


def samples(data: object) -> Samples:
    """A pair (inputs, targets) of tensors or arrays, or a map-style Dataset of (x, y), as Samples."""
    if isinstance(data, Samples):
        return data
    found = _converted(data)
    if not bool(found.inputs.isfinite().all()):
        raise Mistake("the inputs hold NaN or infinity: fill or drop these rows")
    return found


def _converted(data: object) -> Samples:
    if isinstance(data, tuple | list) and len(data) == 2:
        return Samples(_inputs(data[0]), _targets(data[1]))
    if isinstance(data, torch.utils.data.Dataset):
        if not hasattr(data, "__len__"):
            raise Mistake("this Dataset has no length: hush needs a map-style Dataset with __len__")
        items = [data[i] for i in range(len(data))]
        if not items:
            raise Mistake("this Dataset is empty: give at least one row")
        if any(not isinstance(item, tuple | list) or len(item) != 2 for item in items):
            raise Mistake("the Dataset's items must be pairs (input, target): wrap it so that they are")
        return Samples(torch.stack([_dense(x) for x, _ in items]), torch.stack([_targets(y) for _, y in items]))
    raise Mistake(f"data of type {type(data).__name__} is not known: give (inputs, targets) or a Dataset")


def _inputs(values: object) -> Tensor | Sparse:
    if isinstance(values, Sparse):
        return values
    return _dense(values)


def _dense(values: object) -> Tensor:
    return _tensor(values, "inputs").to(torch.float32)


def _targets(values: object) -> Tensor:
    tensor = _tensor(values, "targets")
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)


def _tensor(values: object, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.tensor(np.asarray(values))
    except (TypeError, ValueError) as error:
        raise Mistake(f"the {what} cannot become a tensor ({error}): give numbers of one shape") from error
