"""A client whose every step is on the same few sparse rows: a small dense matrix of the columns that occur in them."""

import math

import torch
from torch import Tensor, nn

from hush.models.entry import FirstLayer
from hush.models.losses import Loss
from hush.models.traits import hooked
from hush.models.weights import Layout
from hush.parts.trainers.columns import Batch

DENSE = 2**20  # numbers of a client's rows, in the columns that it has, up to which they are one dense matrix


def chained(rest: nn.Sequential) -> bool:
    """Whether what follows the first layer is linear layers and ReLUs, whose slopes are simple.

    Not where some of their weights are frozen or shared.
    """
    plain = all(type(layer) in (nn.Linear, nn.ReLU) and not hooked(layer) for layer in rest)
    whole = sum(p.numel() for layer in rest for p in layer.parameters())
    return plain and whole == Layout.of(rest).parameters


class Small:
    """A client that takes all its steps on the same rows: they have few columns, and the others cannot move.

    So its rows are a small dense matrix, with the lines of the first layer's weights that it reads, and slopes are
    written out layer by layer: w <- w - rate * keep * slope, keep being 1 at the live coordinates and 0 at the others.
    """

    def __init__(self, found: FirstLayer, loss: Loss, weights: Tensor, live: Tensor | None, rate: float) -> None:
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

    def train(self, batch: Batch, steps: int, update: Tensor) -> None:
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
