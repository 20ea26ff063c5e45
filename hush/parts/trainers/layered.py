"""A network on sparse rows, many clients at a time: its first layer moves within the span of their rows, as in span.py.

Behind it each client has weights of its own, and their products are one call for several clients. A client with fewer
rows than the others has rows of zeros behind its own, whose slopes are zero.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from hush.core.updates import Rows, Updates, norms
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.models.entry import FirstLayer, lookup
from hush.models.losses import Loss
from hush.parts.trainers.closed import add_sparse
from hush.parts.trainers.grams import gram
from hush.parts.trainers.slopes import slopes
from hush.parts.trainers.span import LEAST, lengths

TOGETHER = 26  # clients of a block
MOST = 512  # rows of a client: beyond, products with its Gram matrix are no fewer than with its rows
DENSE = 2**22  # numbers of a client's rows in the columns that it may have: beyond, that matrix takes longer to make
STEP = 8  # a client is filled up to a multiple of so many rows, whoever is beside it
NEAR = 2**19  # weights behind the first layer of clients whose products are one call


@dataclass(frozen=True)
class Layered(Updates):
    """Updates A_k' X_k of the first layer's weights, and rows of what comes behind them.

    x: the rows of all clients, one client after the other; a: a line for each; counts: rows of each client;
    first: of each client the norm of A_k' X_k, or a little more, in float64; later: (clients, other weights).
    """

    x: Sparse
    a: Tensor
    counts: Tensor
    first: Tensor
    later: Tensor
    factors: Tensor | None = None

    def norms(self) -> Tensor:
        """Of both parts together."""
        found = torch.hypot(self.first, norms(self.later))
        return found if self.factors is None else found * self.factors

    def rows(self) -> Tensor:
        """One row for each client."""
        held, start = self.x.width * self.a.shape[1], 0
        found = self.later.new_zeros(len(self.later), held + self.later.shape[1])
        found[:, held:] = self.later
        for row, count in zip(found, self.counts.tolist(), strict=True):
            mine, start = torch.arange(start, start + count), start + count
            if count:
                add_sparse(row[:held].view(-1, self.x.width), self.x.take(mine), self.a[mine], 1.0)
        return Rows(found, self.factors).rows()

    def scaled(self, factors: Tensor) -> Updates:
        """Multiplied when they are added."""
        if bool((factors < LEAST).any()):
            return Rows(self.rows()).scaled(factors)
        return replace(self, factors=factors if self.factors is None else self.factors * factors)

    def sum(self) -> Tensor:
        """One product over the rows of all clients, and one over what comes behind, in their precision."""
        a, held = self.a, self.a.shape[1] * self.x.width
        if self.factors is not None:
            a = a * torch.repeat_interleave(self.factors, self.counts).to(a.dtype).unsqueeze(1)
        total = a.new_zeros(held + self.later.shape[1])
        add_sparse(total[:held].view(-1, self.x.width), self.x, a, 1.0)
        total[held:] = Rows(self.later, self.factors).sum()
        return total

    def at(self, live: Tensor | None) -> Updates:
        """Of these coordinates alone."""
        return self if live is None else Rows(self.rows()[:, live])


def takes(data: Samples, rows: Tensor) -> bool:
    """Whether a client with these rows is one of those: it depends on nobody else."""
    assert isinstance(data.inputs, Sparse)
    starts = data.inputs.starts
    return len(rows) <= MOST and len(rows) * int((starts[rows + 1] - starts[rows]).sum()) <= DENSE


def train(
    found: FirstLayer, loss: Loss, data: Samples, weights: Tensor, rows: list[Tensor], steps: int, rate: float
) -> Layered:
    """The updates after `steps` steps of SGD of clients that take all their rows in each."""
    assert isinstance(data.inputs, Sparse)
    held, counts = found.first.weight.numel(), torch.tensor([len(mine) for mine in rows])
    x, targets = data.inputs.take(torch.cat(rows)), data.targets[torch.cat(rows)]
    start = lookup(weights[:held].view_as(found.first.weight).t().contiguous(), x)
    a, first = torch.zeros_like(start), torch.zeros(len(rows), dtype=torch.float64)
    later, ends = weights.new_zeros(len(rows), len(weights) - held), counts.cumsum(0)
    filled = (counts + STEP - 1) // STEP * STEP
    alike = [(filled == size).nonzero().flatten() for size in sorted(set(filled[counts > 0].tolist()))]
    most = max(1, NEAR // max(1, len(weights) - held))
    for some in (part for same in alike for part in torch.split(same, most)):
        places = [torch.arange(int(ends[k] - counts[k]), int(ends[k])) for k in some.tolist()]
        own = _Clients(found, loss, weights[held:], places, int(filled[some[0]]), x, start, targets)
        for _ in range(steps):
            own.step(rate)
        a[torch.cat(places)] = own.a[own.real]
        first[some], later[some] = lengths(own.gram, own.a), own.moved()
    return Layered(x, a, counts, first, later)


class _Clients:
    """Some clients and what they have come to. real: (clients, rows), where a row is not there to fill up."""

    def __init__(
        self,
        found: FirstLayer,
        loss: Loss,
        base: Tensor,
        places: list[Tensor],
        most: int,
        x: Sparse,
        start: Tensor,
        targets: Tensor,
    ) -> None:
        self.loss, self.base, self.layers = loss, base, list(found.rest)
        self.counts = torch.tensor([len(mine) for mine in places])
        self.real = torch.arange(most) < self.counts.unsqueeze(1)
        self.start, self.targets = (_filled([all[mine] for mine in places], most) for all in (start, targets))
        self.gram = torch.zeros(*self.real.shape, self.real.shape[1], dtype=torch.float64)
        for whole, mine in zip(self.gram, places, strict=True):
            whole[: len(mine), : len(mine)] = gram(_compact(x.take(mine)))
        self.near, self.a = self.gram.to(start.dtype), torch.zeros_like(self.start)
        parts = [found.first.bias] if found.first.bias is not None else []
        self.shapes = [p.shape for p in (*parts, *found.rest.parameters())]
        self.biased, self.own = bool(parts), self._copies()

    def _copies(self) -> list[Tensor]:
        """Of each parameter behind the first layer's weights, one for each client; of biases a line."""
        pieces = torch.split(self.base, [shape.numel() for shape in self.shapes])
        shaped = [
            piece.view(shape if len(shape) > 1 else (1, -1)) for piece, shape in zip(pieces, self.shapes, strict=True)
        ]
        return [piece.repeat(len(self.counts), 1, 1) for piece in shaped]

    def moved(self) -> Tensor:
        """How far the copies have come: a row for each client."""
        none = self.base.new_empty(len(self.counts), 0)
        return torch.cat([none, *(part.flatten(1) for part in self.own)], 1) - self.base

    def step(self, rate: float) -> None:
        """w <- w - rate * gradient on all rows."""
        number = int(self.biased)
        value = torch.baddbmm(self.start, self.near, self.a)
        if self.biased:
            value += self.own[0]
        read: list[tuple[int, nn.Module, Tensor]] = []  # where a layer's parameters begin, the layer, what it was given
        for layer in self.layers:
            read.append((number, layer, value))
            if not isinstance(layer, nn.Linear):
                value = value.relu()
            elif layer.bias is None:
                value, number = value @ self.own[number].mT, number + 1
            else:
                value, number = torch.baddbmm(self.own[number + 1], value, self.own[number].mT), number + 2
        slope = slopes(self.loss, value, self.targets, self.counts)
        for number, layer, given in reversed(read):
            if not isinstance(layer, nn.Linear):
                slope = slope.mul_(given > 0)
                continue
            before = slope @ self.own[number]
            self.own[number].baddbmm_(slope.mT, given, alpha=-rate)
            if layer.bias is not None:
                self.own[number + 1].sub_(slope.sum(1, keepdim=True), alpha=rate)
            slope = before
        self.a.sub_(slope, alpha=rate)
        if self.biased:
            self.own[0].sub_(slope.sum(1, keepdim=True), alpha=rate)


def _filled(rows: list[Tensor], most: int) -> Tensor:
    """So many rows of each client, zeros behind its own."""
    found = rows[0].new_zeros(len(rows), most, *rows[0].shape[1:])
    for line, mine in zip(found, rows, strict=True):
        line[: len(mine)] = mine
    return found


def _compact(x: Sparse) -> Tensor:
    """The rows as a dense matrix of the columns that occur in them."""
    used, where = np.unique(x.columns.numpy(), return_inverse=True)
    dense = x.values.new_zeros(len(x), len(used))
    dense[x.owners(), torch.from_numpy(where)] = x.values
    return dense
