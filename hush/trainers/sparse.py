"""Rows that are mostly zero: a linear first layer reads and moves only the columns that occur in a batch.

Its weights lie turned, one line per column of the data, so that a column is a line of memory. A row of the batch
is a sum of lines, and the step of a column is a sum of slopes: both are embedding bags, and nothing in a step is as
large as the layer.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.task import Loss, Task
from hush.trainers.batches import cut
from hush.trainers.traits import hooked, traits
from hush.weights import Layout, twin

Numbers = np.ndarray[Any, Any]
DENSE = 2**20  # numbers of a client's rows, in the columns that it has, up to which they are one dense matrix


@dataclass(frozen=True)
class Entry:
    """A model in two: the linear layer that takes the rows, and what follows."""

    first: nn.Linear
    rest: nn.Sequential

    def turned(self) -> Tensor:
        """The first layer's weights, one line per column of the data."""
        return self.first.weight.detach().t().contiguous()


def entry(model: nn.Module) -> Entry | None:
    """The two parts of a Sequential that begins with a linear layer, behind a Flatten or not; None for any other."""
    if type(model) is not nn.Sequential or hooked(model):
        return None
    layers = list(model)
    if layers and type(layers[0]) is nn.Flatten and layers[0].start_dim == 1 and not hooked(layers[0]):
        layers = layers[1:]  # sparse rows are flat
    if not layers or type(layers[0]) is not nn.Linear or hooked(layers[0]):
        return None
    return Entry(layers[0], nn.Sequential(*layers[1:]))


def trainable(task: Task) -> Entry | None:
    """The parts of a task's model, where `train` can take it: sparse rows, and a first layer that trains alone."""
    if not isinstance(task.train.inputs, Sparse):
        return None
    found = entry(task.model)
    if found is None or not traits(task.model, task.train.inputs).plain:
        return None
    # Not where the first layer is frozen in part, shares weights with a later one, or there are running statistics.
    first = sum(p.numel() for p in found.first.parameters())
    alone = found.first.weight.requires_grad and first + Layout.of(found.rest).parameters == task.layout.size
    return found if alone else None


def lookup(table: Tensor, rows: Sparse, bias: Tensor | None = None) -> Tensor:
    """rows @ table + bias, as a fresh tensor."""
    found = _sums(table, rows.columns, rows.starts.to(torch.int32), rows.values)
    return found if bias is None else found.add_(bias)


def _sums(lines: Tensor, which: Tensor, starts: Tensor, values: Tensor) -> Tensor:
    """For each run of `which` the sum of the lines it names, times their values."""
    return F.embedding_bag(which, lines, starts, mode="sum", per_sample_weights=values, include_last_offset=True)


@dataclass(frozen=True)
class _Batch:
    """Some rows with their targets, and the same numbers again column by column."""

    targets: Tensor
    rows: tuple[Tensor, Tensor, Tensor]  # columns, starts of the rows, values
    columns: Tensor
    back: tuple[Tensor, Tensor, Tensor]  # rows, starts of the columns, values

    @classmethod
    def of(cls, data: Samples, where: Tensor) -> "_Batch":
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


def train(
    found: Entry,
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
    small = _Small(found, loss, weights, live, rate) if again and steps > 1 and chained(found.rest) else None
    for rows, update in zip(passes, updates, strict=True):
        batch = None
        if small is not None:
            batch = _Batch.of(data, rows[0])
            if len(batch.targets) * len(batch.columns) <= DENSE:
                small.train(batch, steps, update)
                continue
        client = client or _Client(found, loss, weights, live, rate)
        client.begin()
        for step in range(steps):
            if batch is None or not again:
                batch = _Batch.of(data, cut(rows.unsqueeze(0), size, step)[0])
            client.step(batch)
        client.report(update)
    return updates


class _Client:
    """The weights of the client that is trained, the first layer's turned."""

    def __init__(self, found: Entry, loss: Loss, weights: Tensor, live: Tensor | None, rate: float) -> None:
        first, self.loss, self.rate, self.live = found.first, loss, rate, live
        self.rest, self.weights, self.held = twin(found.rest), weights, first.weight.numel()
        self.own, self.usual = torch.empty_like(weights), first.weight.shape
        self.table, *self.later = _pieces(self.own, found)
        for part in self.later:
            part.requires_grad_()
        self.biased, self.names = first.bias is not None, Layout.of(found.rest).names
        self.still: list[Tensor] = []
        if live is not None:
            turned = live % first.in_features * first.out_features + live // first.in_features
            self.places = torch.where(live < self.held, turned, live)
            frozen = torch.ones(len(weights), dtype=torch.bool)
            frozen[self.places] = False
            self.still = _pieces(frozen, found)

    def begin(self) -> None:
        """Back to the weights of the round."""
        self.table.copy_(self.weights[: self.held].view(self.usual).t())
        self.own[self.held :] = self.weights[self.held :]

    def step(self, batch: _Batch) -> None:
        """w <- w - rate * gradient on the batch, at the columns that it has and in all later layers."""
        read = _sums(self.table, *batch.rows).requires_grad_()
        # A tensor of its own: what comes next may work in place.
        hidden = read + self.later[0] if self.biased else read.clone()
        views = dict(zip(self.names, self.later[self.biased :], strict=True))
        total = self.loss(functional_call(self.rest, views, (hidden,)), batch.targets)
        slopes, *others = torch.autograd.grad(total, [read, *self.later], materialize_grads=True)
        with torch.no_grad():
            move = _sums(slopes * -self.rate, *batch.back)
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


def chained(rest: nn.Sequential) -> bool:
    """Whether what follows the first layer is linear layers and ReLUs, whose slopes are simple.

    Not where some of their weights are frozen or shared.
    """
    plain = all(type(layer) in (nn.Linear, nn.ReLU) and not hooked(layer) for layer in rest)
    whole = sum(p.numel() for layer in rest for p in layer.parameters())
    return plain and whole == Layout.of(rest).parameters


class _Small:
    """A client that takes all its steps on the same rows: they have few columns, and the others cannot move.

    So its rows are a small dense matrix, with the lines of the first layer's weights that it reads, and slopes are
    written out layer by layer: w <- w - rate * keep * slope, keep being 1 at the live coordinates and 0 at the others.
    """

    def __init__(self, found: Entry, loss: Loss, weights: Tensor, live: Tensor | None, rate: float) -> None:
        first, self.loss, self.rate, self.live = found.first, loss, rate, live
        self.held, self.biased, self.layers = first.weight.numel(), first.bias is not None, list(found.rest)
        self.first, self.base = weights[: self.held].view(first.weight.shape), weights[self.held :]
        self.shapes = [tuple(first.bias.shape)] if self.biased else []
        self.shapes += [tuple(p.shape) for layer in self.layers for p in layer.parameters()]
        self.place = torch.full((first.in_features,), -1)  # of a column among those of the client
        if live is not None:
            inside = live < self.held  # which are the first of them: live coordinates are in order
            self.column, self.out = live[inside] % first.in_features, live[inside] // first.in_features
            self.after = live[~inside] - self.held
            self.keep = self._views(torch.zeros_like(self.base).index_fill_(0, self.after, 1))

    def train(self, batch: _Batch, steps: int, update: Tensor) -> None:
        """What the live coordinates move by in these steps."""
        which, starts, values = batch.back
        counts, columns = starts.diff().long(), batch.columns
        x = values.new_zeros(len(batch.targets), len(columns))
        x[which.long(), torch.repeat_interleave(torch.arange(len(columns)), counts)] = values
        before, own = self.first[:, columns].t().contiguous(), self.base.clone()
        lines = before.clone()
        parts = [lines, *self._views(own)]
        keep, at = None, columns
        if self.live is not None:
            self.place[columns] = torch.arange(len(columns))
            at = self.place[self.column]
            self.place[columns] = -1
            mask, seen = torch.zeros_like(lines), at >= 0
            mask[at[seen], self.out[seen]] = 1
            keep = [mask, *self.keep]
        for _ in range(steps):
            for number, slope in enumerate(self._slopes(x, parts, batch.targets)):
                if keep is None:
                    parts[number].sub_(slope, alpha=self.rate)
                else:
                    parts[number].addcmul_(slope, keep[number], value=-self.rate)
        moved, later = lines - before, own - self.base
        if self.live is None:
            update.zero_()
            update[: self.held].view(self.first.shape)[:, columns] = moved.t()
            update[self.held :] = later
            return
        # What no row of the client reads has not moved; a place of -1 reads a line that is not used.
        torch.where(at >= 0, moved[at, self.out], moved.new_zeros(()), out=update[: len(at)])
        update[len(at) :] = later[self.after]

    def _views(self, own: Tensor) -> list[Tensor]:
        """The parameters behind the first layer's weights, in a vector of them all."""
        parts = torch.split(own, [math.prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def _slopes(self, x: Tensor, parts: list[Tensor], targets: Tensor) -> list[Tensor]:
        """The gradients of the parts, in their order."""
        number = 1 + self.biased
        value = torch.addmm(parts[1], x, parts[0]) if self.biased else x @ parts[0]
        read: list[tuple[int, nn.Module, Tensor]] = []  # the layer, where its parameters begin, and what it was given
        for layer in self.layers:
            read.append((number, layer, value))
            if isinstance(layer, nn.Linear):
                weight = parts[number]
                value = value @ weight.t() if layer.bias is None else torch.addmm(parts[number + 1], value, weight.t())
                number += 1 if layer.bias is None else 2
            else:
                value = value.relu()
        leaf = value.requires_grad_()
        (slope,) = torch.autograd.grad(self.loss(leaf, targets), leaf)
        found: list[Tensor] = [x] * len(parts)
        for number, layer, given in reversed(read):
            if isinstance(layer, nn.Linear):
                found[number] = slope.t() @ given
                if layer.bias is not None:
                    found[number + 1] = slope.sum(0)
                slope = slope @ parts[number]
            else:
                slope = slope * (given > 0)
        found[0] = x.t() @ slope
        if self.biased:
            found[1] = slope.sum(0)
        return found


def _pieces(flat: Tensor, found: Entry) -> list[Tensor]:
    """Views of a flat vector: the first layer's weights turned, its bias if it has one, and the later parameters."""
    first = found.first
    sizes = [p.numel() for p in first.parameters()]
    head, *bias, later = torch.split(flat, [*sizes, len(flat) - sum(sizes)])
    return [head.view(first.in_features, first.out_features), *bias, *Layout.of(found.rest).views(later).values()]
