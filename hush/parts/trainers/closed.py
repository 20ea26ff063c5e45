"""The closed forms of a linear layer: norms and sums of its records' gradients, none of which is made.

A record that brings the vector a to the layer and the gradient delta to its output has the gradients delta a' for
the weights and delta for the bias: their squared norm is |delta|^2 (|a|^2 + 1), and sums over records are products of
two matrices.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hush.data.sparse import Sparse
from hush.models.weights import Layout


@dataclass(frozen=True)
class Part:
    """A trained parameter. spot: its live coordinates, None is all; out: where they lie in a row of sums."""

    shape: torch.Size
    spot: Tensor | None
    out: slice


@dataclass(frozen=True)
class Linear:
    """A layer with a closed form. mask: 1 at the live weights, where only some are live."""

    weight: Part | None
    bias: Part | None
    mask: Tensor | None

    def squares(self, a: Tensor | Sparse, delta: Tensor) -> Tensor:
        """|g_i|^2 over the live coordinates, in float64, which no square of a float32 leaves."""
        total = delta.new_zeros(len(delta), dtype=torch.float64)
        if self.weight is not None and self.mask is None:
            total += squares(a) * squares(delta)
        elif self.mask is not None:
            assert isinstance(a, Tensor)
            total += (delta.double().square() @ self.mask * a.double().square()).sum(1)
        if self.bias is not None:
            total += squares(delta if self.bias.spot is None else delta[:, self.bias.spot])
        return total

    def add(self, out: Tensor, a: Tensor | Sparse, delta: Tensor, alpha: float) -> None:
        """out += alpha * the sum of the records' gradients."""
        if self.weight is not None:
            mine = out[self.weight.out]
            if isinstance(a, Sparse):
                add_sparse(mine.view(self.weight.shape), a, delta, alpha)
            elif self.weight.spot is None:
                mine.view(self.weight.shape).addmm_(delta.t(), a, alpha=alpha)
            else:
                mine.add_((delta.t() @ a).flatten()[self.weight.spot], alpha=alpha)
        if self.bias is not None:
            whole = delta.sum(0)
            out[self.bias.out].add_(whole if self.bias.spot is None else whole[self.bias.spot], alpha=alpha)


def parts(layout: Layout, live: Tensor | None) -> dict[str, Part]:
    """The parameters of which anything is live."""
    found, start = {}, 0
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        stop = start + shape.numel()
        if live is None:
            found[name] = Part(shape, None, slice(start, stop))
        else:
            low, high = torch.searchsorted(live, live.new_tensor([start, stop])).tolist()
            if high > low:
                spot = None if high - low == stop - start else live[low:high] - start
                found[name] = Part(shape, spot, slice(low, high))
        start = stop
    return found


def linear(place: str, parts: dict[str, Part]) -> Linear:
    """The layer at this place of a model."""
    weight, bias, mask = parts.get(name(place, "weight")), parts.get(name(place, "bias")), None
    if weight is not None and weight.spot is not None:
        mask = torch.zeros(weight.shape.numel(), dtype=torch.float64)
        mask[weight.spot] = 1.0
        mask = mask.view(weight.shape)
    return Linear(weight, bias, mask)


def name(place: str, what: str) -> str:
    """The name of a module's parameter."""
    return f"{place}.{what}" if place else what


def squares(a: Tensor | Sparse) -> Tensor:
    """The squared norm of each row, in float64."""
    if isinstance(a, Sparse):
        zeros = torch.zeros(len(a), dtype=torch.float64)
        return zeros.index_add_(0, a.owners(), a.values.double().square())
    norms: Tensor = torch.linalg.vector_norm(a, dim=1, dtype=torch.float64)
    return norms.square()


def product(x: Sparse, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W' + b, from the columns of W that occur."""
    used, where = torch.unique(x.columns, return_inverse=True)
    columns = weight.t().index_select(0, used)
    y = _bags(columns, where, x.starts, x.values)
    return y if bias is None else y.add_(bias)


def add_sparse(out: Tensor, x: Sparse, delta: Tensor, alpha: float) -> None:
    """out += alpha * delta' x, at the columns that occur: the sum over each column's rows is a bag of them."""
    # By numpy, whose sort of short numbers counts instead of comparing: four times faster.
    columns = x.columns.numpy()
    order = np.argsort(columns.astype(np.uint16) if x.width <= 2**16 else columns, kind="stable")
    ordered = columns[order]
    fresh = np.flatnonzero(np.diff(ordered, prepend=-1))
    used, turn = torch.from_numpy(ordered[fresh].astype(np.int64)), torch.from_numpy(order)
    starts = torch.from_numpy(np.append(fresh, len(ordered)))
    found = _bags(delta, x.owners()[turn], starts, x.values[turn])
    out.index_add_(1, used, found.t(), alpha=alpha)


def _bags(lines: Tensor, which: Tensor, starts: Tensor, values: Tensor) -> Tensor:
    """For each run of `which` the sum of the lines it names, times their values."""
    return F.embedding_bag(which, lines, starts, mode="sum", per_sample_weights=values, include_last_offset=True)
