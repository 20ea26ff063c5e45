"""A model's outputs on many rows, batch by batch: a run is evaluated and predicts by the same numbers, to the bit."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from hush.data.sparse import Sparse
from hush.models.entry import entry, lookup
from hush.models.traits import hooked
from hush.models.weights import twin
from hush.models.workers import spread

# Rows of a batch: fewer where convolutions make many numbers of each, which are to stay in the cache, and more of
# sparse ones, which a linear layer takes as they are.
DENSE, CONVOLVED, SPARSE = 500, 100, 2000

T = TypeVar("T")


def outputs(model: nn.Module, inputs: Tensor | Sparse, workers: int | None = None) -> Iterator[Tensor]:
    """The outputs of each batch, in order."""
    return passes(lambda: twin(model), inputs, lambda _, output: output.clone(), None, workers)


def passes(
    model: Callable[[], nn.Module],
    inputs: Tensor | Sparse,
    after: Callable[[slice, Any], T],
    batch: int | None = None,
    workers: int | None = None,
) -> Iterator[T]:
    """What `after` makes of the rows and outputs of each batch, in order; batches are spread over workers.

    Each has a model and rows of its own: a model may keep what it computed, or change what it was given.
    """
    first = model()
    found = entry(first) if isinstance(inputs, Sparse) else None
    table = None if found is None else found.transposed()  # once for all batches
    convolved = any(isinstance(layer, nn.Conv2d) for layer in first.modules())
    size = batch or (SPARSE if table is not None else CONVOLVED if convolved else DENSE)

    def work(first: int) -> T:
        own, rows = quickened(model().eval()), slice(first, first + size)
        with torch.inference_mode():
            split = entry(own)
            if isinstance(inputs, Sparse) and table is not None and split is not None:
                return after(rows, split.rest(lookup(table, inputs.take(rows), split.first.bias)))
            return after(rows, own(inputs[rows].clone()))

    return spread(work, range(0, len(inputs), size), workers)


class Halves(nn.Module):
    """Max pooling of 2 by 2 by the larger of two rows, then of two columns: the same bits in a tenth of the time."""

    def forward(self, x: Tensor) -> Tensor:
        """The largest of each square; a last odd row or column is left out."""
        height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
        rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        return torch.maximum(rows[..., 0::2], rows[..., 1::2])


def quickened(model: nn.Module) -> nn.Module:
    """The same function, bit for bit, for forward passes: pooling is cheaper, and goes before a ReLU."""
    if type(model) is not nn.Sequential or any(map(hooked, (model, *model))):
        return model
    layers = [Halves() if _halves(layer) else quickened(layer) for layer in model]
    for at in range(len(layers) - 1):
        if type(layers[at]) is nn.ReLU and isinstance(layers[at + 1], Halves | nn.MaxPool2d):
            layers[at], layers[at + 1] = layers[at + 1], layers[at]
    return nn.Sequential(*layers)


def _halves(layer: nn.Module) -> bool:
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return False
    wanted = ((layer.kernel_size, 2), (layer.stride, 2), (layer.padding, 0), (layer.dilation, 1))
    return all(found in (number, (number, number)) for found, number in wanted)
