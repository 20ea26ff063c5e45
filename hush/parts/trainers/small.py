"""A client whose every step is on the same few sparse rows: a small dense matrix of the columns that occur in them."""

import math

import torch
from torch import Tensor, nn

from hush.models.entry import FirstLayer, sums
from hush.models.losses import Loss
from hush.models.traits import hooked
from hush.models.weights import Layout
from hush.parts.trainers.columns import Batch
from hush.parts.trainers.slopes import slopes

DENSE = 2**20  # numbers of a client's rows, in the columns that it has, up to which they are one dense matrix

FEW = 32  # where one of so many coordinates of a matrix is live, or fewer, their slopes are taken one by one


def chained(rest: nn.Sequential) -> bool:
    """Whether what follows the first layer is linear layers and ReLUs, whose slopes are simple.

    Not where some of their weights are frozen or shared.
    """
    plain = all(type(layer) in (nn.Linear, nn.ReLU) and not hooked(layer) for layer in rest)
    whole = sum(p.numel() for layer in rest for p in layer.parameters())
    return plain and whole == Layout.of(rest).parameters


class Small:
    """A client that takes all its steps on the same rows: they have few columns, and the others cannot move.

    So its rows are a small dense matrix of the columns that are live in them, and slopes are written out layer by
    layer: w <- w - rate * slope at the live coordinates. What the other columns bring to the first layer stays.
    """

    def __init__(self, found: FirstLayer, loss: Loss, weights: Tensor, live: Tensor | None, rate: float) -> None:
        first, self.loss, self.rate, self.live = found.first, loss, rate, live
        self.held, self.biased, self.layers = first.weight.numel(), first.bias is not None, list(found.rest)
        self.table, self.base = weights[: self.held].view(first.weight.shape).t().contiguous(), weights[self.held :]
        self.shapes = [tuple(first.bias.shape)] if self.biased else []
        self.shapes += [tuple(p.shape) for layer in self.layers for p in layer.parameters()]
        if live is not None:
            inside = live < self.held  # which are the first of them: live coordinates are in order
            self.column, self.out = live[inside] % first.in_features, live[inside] // first.in_features
            self.after, self.place = live[~inside] - self.held, torch.full((first.in_features,), -1)
            self.moves = torch.zeros(first.in_features, dtype=torch.bool).index_fill_(0, self.column, True)
        self.spots = self._spots()

    def _spots(self) -> list["_Spots"]:
        """Of each parameter behind the first layer's weights, where it is live."""
        sizes = [math.prod(shape) for shape in self.shapes]
        if self.live is None:
            return [_Spots(None, shape) for shape in self.shapes]
        ends = torch.tensor([0, *sizes]).cumsum(0)
        bounds = torch.searchsorted(self.after, ends).tolist()
        parts = zip(self.shapes, ends.tolist(), bounds, bounds[1:], strict=False)
        return [_Spots(self.after[low:high] - begin, shape) for shape, begin, low, high in parts]

    def train(self, batch: Batch, steps: int, update: Tensor) -> None:
        """What the live coordinates move by in these steps."""
        start, columns = sums(self.table, *batch.rows), batch.columns
        x = _dense(batch, None if self.live is None else self.moves[columns])
        if self.live is not None:
            columns = columns[self.moves[columns]]
        lines, own = x.new_zeros(len(columns), start.shape[1]), self.base.clone()
        parts, at, mask = self._views(own), columns, None
        if self.live is not None:
            self.place[columns] = torch.arange(len(columns))
            at = self.place[self.column]
            self.place[columns] = -1
            seen = at >= 0
            mask = torch.zeros_like(lines)
            mask[at[seen], self.out[seen]] = -self.rate
        for _ in range(steps):
            slope = self._step(torch.addmm(start, x, lines), parts, batch.targets)
            if mask is None:
                lines.addmm_(x.t(), slope, alpha=-self.rate)
            else:
                lines.addcmul_(x.t() @ slope, mask)
        later = own - self.base
        if self.live is None:
            update.zero_()
            update[: self.held].view(-1, len(self.table))[:, columns] = lines.t()
            update[self.held :] = later
            return
        # What no row of the client reads has not moved; a place of -1 reads a line that is not used.
        found = lines[at, self.out] if len(lines) else lines.new_zeros(len(at))
        torch.where(at >= 0, found, lines.new_zeros(()), out=update[: len(at)])
        update[len(at) :] = later[self.after]

    def _views(self, own: Tensor) -> list[Tensor]:
        """The parameters behind the first layer's weights, in a vector of them all."""
        parts = torch.split(own, [math.prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def _step(self, value: Tensor, parts: list[Tensor], targets: Tensor) -> Tensor:
        """Step all parts, and give the slope of what the first layer's weights brought: value, to be changed."""
        number = int(self.biased)
        if self.biased:
            value += parts[0]
        read: list[tuple[int, nn.Module, Tensor]] = []  # where a layer's parameters begin, the layer, what it was given
        for layer in self.layers:
            read.append((number, layer, value))
            if not isinstance(layer, nn.Linear):
                value = value.relu()
            elif layer.bias is None:
                value, number = value @ parts[number].t(), number + 1
            else:
                value, number = torch.addmm(parts[number + 1], value, parts[number].t()), number + 2
        slope = slopes(self.loss, value.unsqueeze(0), targets.unsqueeze(0))[0]
        for number, layer, given in reversed(read):
            if not isinstance(layer, nn.Linear):
                slope = slope.mul_(given > 0)
                continue
            before = slope @ parts[number]
            self.spots[number].move(parts[number], slope, given, self.rate)
            if layer.bias is not None:
                self.spots[number + 1].shift(parts[number + 1], slope, self.rate)
            slope = before
        if self.biased:
            self.spots[0].shift(parts[0], slope, self.rate)
        return slope


class _Spots:
    """The live coordinates of a parameter, None is all: where there are few, only their slopes are taken."""

    def __init__(self, live: Tensor | None, shape: tuple[int, ...]) -> None:
        self.live, self.still = live, live is not None and not len(live)
        self.few = live is not None and len(live) * FEW <= math.prod(shape)
        self.mask: Tensor | None = None
        if live is None or self.still:
            return
        if self.few and len(shape) == 2:
            self.out, self.given = live // shape[1], live % shape[1]
        elif len(live) < math.prod(shape):
            self.mask = torch.zeros(shape).view(-1).index_fill_(0, live, 1.0).view(shape)

    def move(self, part: Tensor, slope: Tensor, given: Tensor, rate: float) -> None:
        """W <- W - rate * slope' given."""
        if self.still:
            return
        if self.few:
            assert self.live is not None
            found = (slope.index_select(1, self.out) * given.index_select(1, self.given)).sum(0)
            part.view(-1).index_add_(0, self.live, found, alpha=-rate)
        elif self.mask is None:
            part.addmm_(slope.t(), given, alpha=-rate)
        else:
            part.addcmul_(slope.t() @ given, self.mask, value=-rate)

    def shift(self, part: Tensor, slope: Tensor, rate: float) -> None:
        """b <- b - rate * sum of the slopes."""
        if self.still:
            return
        whole = slope.sum(0)
        part.sub_(whole if self.mask is None else whole.mul_(self.mask), alpha=rate)


def _dense(batch: Batch, kept: Tensor | None) -> Tensor:
    """The rows as a dense matrix of the columns that occur in them, or of those that are kept."""
    which, starts, values = batch.back
    counts, columns = starts.diff().long(), len(batch.columns)
    places = torch.arange(columns)
    if kept is not None:
        places, columns = kept.cumsum(0) - 1, int(kept.sum())
    places = torch.repeat_interleave(places, counts)
    if kept is not None:
        chosen = torch.repeat_interleave(kept, counts)
        which, places, values = which[chosen], places[chosen], values[chosen]
    x = values.new_zeros(len(batch.targets), columns)
    x[which.long(), places] = values
    return x
