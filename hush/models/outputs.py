"""A model's outputs on many rows, in the batches by which a run evaluates: the same numbers to the bit."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hush.data.sparse import Sparse
from hush.models.entry import entry, lookup
from hush.models.metrics import quickened
from hush.models.weights import twin
from hush.models.workers import spread

DENSE, SPARSE = 500, 2000  # rows of a batch, as hush.models.metrics.evaluate has them


def outputs(model: nn.Module, inputs: Tensor | Sparse, workers: int | None = None) -> Iterator[Tensor]:
    """The outputs of each batch, in order."""
    found = entry(model) if isinstance(inputs, Sparse) else None
    table = None if found is None else found.transposed()
    size = DENSE if table is None else SPARSE

    def work(first: int) -> Tensor:
        own, rows = quickened(twin(model).eval()), slice(first, first + size)
        with torch.inference_mode():
            split = entry(own)
            if isinstance(inputs, Sparse) and table is not None and split is not None:
                made: Tensor = split.rest(lookup(table, inputs.take(rows), split.first.bias))
            else:
                made = own(inputs[rows].clone())
        return made.clone()

    return spread(work, range(0, len(inputs), size), workers)
