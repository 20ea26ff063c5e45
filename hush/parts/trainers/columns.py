"""Batches of rows that are mostly zero, by their rows and by the columns that occur in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hush.data.samples import Samples
from hush.data.sparse import Sparse

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Batch:
    """Some rows with their targets, and the same numbers again column by column."""

    targets: Tensor
    rows: tuple[Tensor, Tensor, Tensor]  # columns, starts of the rows, values
    columns: Tensor
    back: tuple[Tensor, Tensor, Tensor]  # rows, starts of the columns, values

    @classmethod
    def of(cls, data: Samples, where: Tensor) -> "Batch":
        """The given rows of the data. By numpy: a batch is small, and its calls cost a third of torch's."""
        assert isinstance(data.inputs, Sparse)
        rows, begin = where.numpy(), data.inputs.starts.numpy()
        first = begin[rows]
        counts = begin[rows + 1] - first
        starts = np.concatenate(([0], counts.cumsum()))
        places = np.arange(starts[-1]) + np.repeat(first - starts[:-1], counts)
        columns, values = data.inputs.columns.numpy()[places], data.inputs.values.numpy()[places]
        narrow = data.inputs.width <= 2**16  # numpy sorts two bytes by counting, several times faster
        order = np.argsort(columns.astype(np.uint16) if narrow else columns, kind="stable")
        ordered, owners = columns[order], np.repeat(np.arange(len(rows), dtype=np.int32), counts)[order]
        fresh = np.flatnonzero(np.diff(ordered, prepend=-1))
        ends = np.append(fresh, len(ordered)).astype(np.int32)
        return cls(
            data.targets[where],
            _tensors(columns, starts.astype(np.int32), values),
            torch.from_numpy(ordered[fresh].astype(np.int64)),
            _tensors(owners, ends, values[order]),
        )


def _tensors(which: Numbers, starts: Numbers, values: Numbers) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(which), torch.from_numpy(starts), torch.from_numpy(values)
