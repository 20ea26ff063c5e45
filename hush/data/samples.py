"""Rows of inputs and targets, and which client holds which rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hush.data.padding import IGNORED, padded, sequences
from hush.data.sparse import Sparse
from hush.errors import Mistake

INTEGERS = (torch.int32, torch.int64)  # what nn.Embedding takes; bytes and booleans are numbers


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets, one row each per example.

    Inputs are numbers of any precision, integers (tokens), or sparse float32. Targets are int64 classes or values.
    """

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
        if isinstance(clients, Mapping | str):
            raise Mistake(
                f"a split of type {type(clients).__name__} names no rows: give a list of them for each client"
            )
        try:
            given = [np.asarray(part) for part in clients]
        except (TypeError, ValueError):
            raise Mistake("a split is a list with the row numbers of each client, as [[0, 1], [2, 3]]") from None
        for client, part in enumerate(given):
            if part.dtype.kind == "f" and (part == np.rint(part)).all():
                continue  # 1.0 is 1
            if part.size and part.dtype.kind not in "iu":
                raise Mistake(f"client {client} has row numbers of the type {part.dtype}: give a list of integers")
        parts = [torch.as_tensor(part.astype(np.int64)).reshape(-1) for part in given]
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
        return self.sizes.index_select(0, torch.from_numpy(clients))

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


def samples(
    data: object, *, pad: float | None = None, length: int | None = None, precision: torch.dtype = torch.float32
) -> Samples:
    """A pair (inputs, targets) of tensors or arrays, or a map-style Dataset of (x, y), as Samples.

    Integers (int32, int64) stay what they are, all other inputs become numbers of this precision. With `pad` the inputs
    are sequences of different lengths: each is filled up with `pad` to `length` steps (the longest one's, if None) or
    cut. Targets that are sequences are filled up with -100, which cross_entropy ignores.
    """
    if isinstance(data, Samples):
        return data
    if pad is None and length is not None:
        raise Mistake(f"length={length} is for sequences that are filled up: give pad, too")
    found = _converted(data, pad, length, precision)
    if not bool(found.inputs.isfinite().all()):
        raise Mistake("the inputs hold NaN or infinity: fill or drop these rows")
    return found


def _converted(data: object, pad: float | None, length: int | None, precision: torch.dtype) -> Samples:
    if isinstance(data, torch.utils.data.Dataset):
        data = _items(data)
        if pad is None:
            inputs = torch.stack([_dense(x, precision) for x in data[0]])
            return Samples(inputs, torch.stack([_targets(y, precision) for y in data[1]]))
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise Mistake(f"data of type {type(data).__name__} is not known: give (inputs, targets) or a Dataset")
    inputs, targets = data
    if pad is None:
        return Samples(_inputs(inputs, precision), _targets(targets, precision))
    if sequences(targets):
        targets = padded(targets, IGNORED, length)
        if targets.is_floating_point():
            raise Mistake("targets that are sequences of values have no number to ignore: give classes, or a mask")
    return Samples(_inputs(padded(list(inputs), pad, length), precision), _targets(targets, precision))


def _items(data: torch.utils.data.Dataset[Any]) -> tuple[list[object], list[object]]:
    if not hasattr(data, "__len__"):
        raise Mistake("this Dataset has no length: hush needs a map-style Dataset with __len__")
    items = [data[i] for i in range(len(data))]
    if not items:
        raise Mistake("this Dataset is empty: give at least one row")
    if any(not isinstance(item, tuple | list) or len(item) != 2 for item in items):
        raise Mistake("the Dataset's items must be pairs (input, target): wrap it so that they are")
    return [x for x, _ in items], [y for _, y in items]


def _inputs(values: object, precision: torch.dtype) -> Tensor | Sparse:
    if isinstance(values, Sparse):
        return values
    return _dense(values, precision)


def _dense(values: object, precision: torch.dtype) -> Tensor:
    tensor = _tensor(values, "inputs")
    return tensor if tensor.dtype in INTEGERS else tensor.to(precision)


def _targets(values: object, precision: torch.dtype) -> Tensor:
    tensor = _tensor(values, "targets")
    if not tensor.is_floating_point():
        return tensor.to(torch.int64)
    return tensor.to(torch.float64 if precision is torch.float64 else torch.float32)


def _tensor(values: object, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.tensor(np.asarray(values))
    except (TypeError, ValueError) as error:
        hint = "give numbers of one shape"
        if sequences(values):
            hint = "rows of different lengths need hush.samples(data, pad=0), others numbers of one shape"
        raise Mistake(f"the {what} cannot become a tensor ({error}): {hint}") from error
