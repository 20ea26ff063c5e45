"""A model in two, for rows that are mostly zero: a linear first layer, of which a row reads few columns, and the rest.

The layer's weights lie transposed, one line per column of the data, so that a row of the data is a sum of lines: an
embedding bag.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.data.sparse import Sparse
from hush.models.traits import hooked


@dataclass(frozen=True)
class FirstLayer:
    """A model in two: the linear layer that takes the rows, and what follows."""

    first: nn.Linear
    rest: nn.Sequential

    @property
    def alone(self) -> bool:
        """Whether all of the layer trains and nothing else does, a layer that shares its weights neither."""
        later = any(p.requires_grad for p in self.rest.parameters())
        return not later and all(p.requires_grad for p in self.first.parameters())

    def transposed(self) -> Tensor:
        """The first layer's weights, one line per column of the data."""
        return self.first.weight.detach().t().contiguous()


def entry(model: nn.Module) -> FirstLayer | None:
    """The two parts of a Sequential that begins with a linear layer, behind a Flatten or not; None for any other."""
    if type(model) is not nn.Sequential or hooked(model):
        return None
    layers = list(model)
    if layers and type(layers[0]) is nn.Flatten and layers[0].start_dim == 1 and not hooked(layers[0]):
        layers = layers[1:]  # sparse rows are flat
    if not layers or type(layers[0]) is not nn.Linear or hooked(layers[0]):
        return None
    return FirstLayer(layers[0], nn.Sequential(*layers[1:]))


def whole(model: nn.Module, inputs: Tensor) -> bool:
    """Whether a model begins with a linear layer that takes all numbers of a dense row at once."""
    found, first = entry(model), next(model.children(), None)
    flat = type(first) is nn.Flatten and first.end_dim in (-1, inputs.dim() - 1)
    return found is not None and (flat or inputs.dim() == 2) and inputs.shape[1:].numel() == found.first.in_features


def lookup(table: Tensor, rows: Sparse, bias: Tensor | None = None) -> Tensor:
    """rows @ table + bias, as a fresh tensor."""
    found = sums(table, rows.columns, rows.starts.to(torch.int32), rows.values)
    return found if bias is None else found.add_(bias)


def sums(lines: Tensor, which: Tensor, starts: Tensor, values: Tensor) -> Tensor:
    """For each run of `which` the sum of the lines it names, times their values."""
    return F.embedding_bag(which, lines, starts, mode="sum", per_sample_weights=values, include_last_offset=True)
