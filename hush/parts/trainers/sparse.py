"""Rows that are mostly zero: a linear first layer reads and moves only the columns that occur in a batch.

Its weights lie transposed, one line per column of the data, so that a column is a line of memory. A row of the batch
is a sum of lines, and the step of a column is a sum of slopes: both are embedding bags, and nothing in a step is as
large as the layer.
"""

import torch
from torch import Tensor
from torch.func import functional_call

from hush.core.task import Problem
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.models.entry import FirstLayer, entry, sums
from hush.models.losses import Loss
from hush.models.traits import traits
from hush.models.weights import Layout, twin
from hush.parts.trainers.batches import cut
from hush.parts.trainers.columns import Batch
from hush.parts.trainers.small import DENSE, Small, chained


def trainable(problem: Problem, data: Samples) -> FirstLayer | None:
    """The parts of a problem's model, where `train` can take it: sparse rows, and a first layer that trains alone."""
    if not isinstance(data.inputs, Sparse):
        return None
    found = entry(problem.model)
    if found is None or not traits(problem.model, data.inputs).plain:
        return None
    # Not where the first layer is frozen in part, shares weights with a later one, or there are running statistics.
    first = sum(p.numel() for p in found.first.parameters())
    alone = found.first.weight.requires_grad and first + Layout.of(found.rest).parameters == problem.layout.size
    return found if alone else None


def train(
    found: FirstLayer,
    loss: Loss,
    data: Samples,
    weights: Tensor,
    live: Tensor | None,
    passes: Tensor,
    size: int,
    steps: int,
    rate: float,
) -> Tensor:
    """The updates of the live coordinates (all, if None) after `steps` steps of SGD, one row per client.

    passes: (clients, passes, rows), cut in batches of `size`. One client after the other, so that a block gives the
    same bits as each client alone.
    """
    updates = weights.new_empty(len(passes), len(weights) if live is None else len(live))
    client: _Client | None = None
    again = passes.shape[1] == 1 and passes.shape[2] <= size  # every step has the same rows
    small = Small(found, loss, weights, live, rate) if again and steps > 1 and chained(found.rest) else None
    for rows, update in zip(passes, updates, strict=True):
        batch = None
        if small is not None:
            batch = Batch.of(data, rows[0])
            if len(batch.targets) * len(batch.columns) <= DENSE:
                small.train(batch, steps, update)
                continue
        client = client or _Client(found, loss, weights, live, rate)
        client.begin()
        for step in range(steps):
            if batch is None or not again:
                batch = Batch.of(data, cut(rows.unsqueeze(0), size, step)[0])
            client.step(batch)
        client.report(update)
    return updates


class _Client:
    """The weights of the client that is trained, the first layer's transposed."""

    def __init__(self, found: FirstLayer, loss: Loss, weights: Tensor, live: Tensor | None, rate: float) -> None:
        first, self.loss, self.rate, self.live = found.first, loss, rate, live
        self.rest, self.weights, self.held = twin(found.rest), weights, first.weight.numel()
        self.own, self.usual = torch.empty_like(weights), first.weight.shape
        self.table, *self.later = _pieces(self.own, found)
        for part in self.later:
            part.requires_grad_()
        self.biased, self.names = first.bias is not None, Layout.of(found.rest).names
        self.still: list[Tensor] = []
        if live is not None:
            transposed = live % first.in_features * first.out_features + live // first.in_features
            self.places = torch.where(live < self.held, transposed, live)
            frozen = torch.ones(len(weights), dtype=torch.bool)
            frozen[self.places] = False
            self.still = _pieces(frozen, found)

    def begin(self) -> None:
        """Back to the weights of the round."""
        self.table.copy_(self.weights[: self.held].view(self.usual).t())
        self.own[self.held :] = self.weights[self.held :]

    def step(self, batch: Batch) -> None:
        """w <- w - rate * gradient on the batch, at the columns that it has and in all later layers."""
        read = sums(self.table, *batch.rows).requires_grad_()
        # A tensor of its own: what comes next may work in place.
        hidden = read + self.later[0] if self.biased else read.clone()
        views = dict(zip(self.names, self.later[self.biased :], strict=True))
        total = self.loss(functional_call(self.rest, views, (hidden,)), batch.targets)
        slopes, *others = torch.autograd.grad(total, [read, *self.later], materialize_grads=True)
        with torch.no_grad():
            move = sums(slopes * -self.rate, *batch.back)
            if self.live is not None:
                move.masked_fill_(self.still[0][batch.columns], 0)
                others = [slope.masked_fill(still, 0) for slope, still in zip(others, self.still[1:], strict=True)]
            self.table.index_add_(0, batch.columns, move)
            for part, slope in zip(self.later, others, strict=True):
                part.sub_(slope, alpha=self.rate)

    def report(self, update: Tensor) -> None:
        """What the live coordinates have moved by, in their usual order."""
        if self.live is not None:
            torch.sub(self.own[self.places], self.weights[self.live], out=update)
            return
        first, later = update[: self.held].view(self.usual), update[self.held :]
        torch.sub(self.table.t(), self.weights[: self.held].view(self.usual), out=first)
        torch.sub(self.own[self.held :], self.weights[self.held :], out=later)


def _pieces(flat: Tensor, found: FirstLayer) -> list[Tensor]:
    """Views of a flat vector: the first layer's weights transposed, its bias if any, and the later parameters."""
    first = found.first
    sizes = [p.numel() for p in first.parameters()]
    head, *bias, later = torch.split(flat, [*sizes, len(flat) - sum(sizes)])
    return [head.view(first.in_features, first.out_features), *bias, *Layout.of(found.rest).views(later).values()]
