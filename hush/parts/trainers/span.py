"""A linear layer that reads the rows moves within their span: W_k = W_0 + A_k' X_k, with a line of A for each row.

With the Gram matrix G_k = X_k X_k' the outputs of every local step are X_k W_0' + G_k A_k, the squared norm of the
update is trace(A_k' G_k A_k), and the sum over clients is one product: neither the weights nor the update of any single
client is made. A bias is a column of ones.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.core.task import Block, Problem
from hush.core.updates import Rows, Updates
from hush.data.samples import Samples
from hush.models.entry import FirstLayer, entry, whole
from hush.models.losses import Loss
from hush.models.traits import rowwise, traits
from hush.parts.trainers import products
from hush.parts.trainers.batches import cut
from hush.parts.trainers.grams import grams
from hush.parts.trainers.slopes import Slopes, apart, given, summed

LEAST = 2.0**-60  # of factors: smaller ones are of rows that are not finite, or nearly so
LARGEST = 2.0**126  # of the numbers of an update: beyond, one may not be finite in float32
COARSE = 2.0**-150 / LEAST  # what a factor loses of a number where their product is below the normal numbers of float32
TOGETHER = 160  # clients of a block
NEAR = 2**24  # numbers of their rows
MADE = 2  # outputs for each row of a client up to which an update of some columns is made
MOST = 64  # rows of a client: beyond, products with its Gram matrix are no fewer than with its rows


@dataclass(frozen=True)
class Span(Updates):
    """Updates A_k' X_k of a layer's weights and, where it has one, sum A_k of its bias.

    x: (clients, rows, width), a: (clients, rows, outputs), gram: that of x with its column of ones, in float64.
    """

    x: Tensor
    a: Tensor
    gram: Tensor
    biased: bool
    factors: Tensor | None = None

    def norms(self) -> Tensor:
        """See `lengths`."""
        found = lengths(self.gram, self.a)
        return found if self.factors is None else found * self.factors

    def rows(self) -> Tensor:
        """One row for each client."""
        return self.made().rows()

    def made(self) -> Rows:
        """With a row for each client."""
        found = [(self.a.mT @ self.x).flatten(1)] + ([self.a.sum(1)] if self.biased else [])
        return Rows(found[0] if len(found) == 1 else torch.cat(found, 1), self.factors)

    def scaled(self, factors: Tensor) -> Updates:
        """Multiplied when they are added."""
        if bool((factors < LEAST).any()):
            return Rows(self.rows()).scaled(factors)
        return replace(self, factors=factors if self.factors is None else self.factors * factors)

    def sum(self) -> Tensor:
        """One product over the rows of all clients."""
        a = self.a if self.factors is None else self.a * self.factors.to(self.a.dtype)[:, None, None]
        a = a.flatten(0, 1)
        found = products.weights(a, self.x.flatten(0, 1)).flatten()
        return (torch.cat([found, a.sum(0)]) if self.biased else found).double()

    def at(self, live: Tensor | None) -> Updates:
        """Of these coordinates alone: columns of the layer, with all its outputs, where they are that."""
        if live is None:
            return self
        (_, outputs), width = self.a.shape[1:], self.x.shape[2]
        columns = live[: int(torch.searchsorted(live, width))]
        weights = torch.arange(outputs).unsqueeze(1) * width + columns
        held, bias = weights.numel(), torch.arange(outputs) + outputs * width
        if not torch.equal(live[:held], weights.flatten()) or (len(live) > held and not torch.equal(live[held:], bias)):
            return Rows(self.rows()[:, live])
        x, biased = _columns(self.x, columns), len(live) > held
        if outputs <= MADE * x.shape[1]:  # which takes no longer than another Gram matrix
            return replace(self, x=x, biased=biased).made()
        gram = x.double() @ x.double().mT
        return replace(self, x=x, gram=gram + 1 if biased else gram, biased=biased)


def lengths(gram: Tensor, a: Tensor) -> Tensor:
    """sqrt(trace(A' G A)) of each client, and what the arithmetic of A' X in float32 may add, in float64.

    A bound on the error of n products a x and their sum, whatever they cancel, is gamma_n sum |a_i| |x_i|. It is more
    than what the square root of the trace is off by, too: float64 has 29 bits more. A later factor rounds the numbers
    of A, by COARSE at most where they are tiny. Infinite where a number of A' X may not be finite.
    """
    wide = a.mT.to(torch.float64, memory_format=torch.contiguous_format)
    exact = torch.bmm(wide, gram).mul_(wide).sum((1, 2)).clamp_(min=0).sqrt_()
    rows = gram.diagonal(dim1=1, dim2=2).sqrt()
    reach = torch.linalg.vecdot(rows, wide.square().sum(1).sqrt_())  # faster than torch's own norms of short lines
    error = reach * ((a.shape[1] + 4) * 2.0**-23) + rows.sum(1) * (math.sqrt(a.shape[2]) * COARSE)
    return torch.where(reach <= LARGEST, exact + error, math.inf)


def takes(problem: Problem, data: Samples) -> FirstLayer | None:
    """The parts of a problem's model, where its one trained layer is linear and reads dense rows; found once."""
    if not isinstance(data.inputs, Tensor):
        return None
    if problem not in _known:
        _known[problem] = _look(problem, data.inputs)
    return _known[problem]


_known: WeakKeyDictionary[Problem, FirstLayer | None] = WeakKeyDictionary()


def _look(problem: Problem, inputs: Tensor) -> FirstLayer | None:
    found = entry(problem.model)
    if found is None or not rowwise(found.rest) or not whole(problem.model, inputs):
        return None
    like, held = traits(problem.model, inputs), sum(p.numel() for p in found.first.parameters())
    alone = found.alone and held == problem.layout.size
    return found if alone and like.plain and not like.random else None


def filled(count: int) -> int:
    """How many rows a client with so many is given: others fill up to a few sizes, in which many clients train at once.

    A matter of its own rows alone.
    """
    step = 1 if count <= 16 else 4 if count <= 32 else 8
    return -(-count // step) * step


def together(rows: int, width: int) -> int:
    """How many clients with so many rows at most are a block."""
    return max(1, min(TOGETHER, NEAR // max(1, rows * width)))


def train(
    found: FirstLayer,
    block: Block,
    weights: Tensor,
    order: Tensor | None,
    size: int,
    steps: int,
    rate: float,
    memory: int,
) -> Span:
    """The updates after `steps` steps of SGD by clients filled up to as many rows each; see cohort.descend on `order`.

    Rows that fill up are the client's last one again, whose lines of A stay zero.
    """
    first = found.first
    held, biased = first.weight.numel(), first.bias is not None
    rows = rows_of(block, filled(int(block.sizes[0])))
    counts = block.sizes if int(block.sizes.min()) < rows.shape[1] else None
    x = block.data.inputs.index_select(0, rows.flatten()).flatten(1).view(*rows.shape, -1)
    targets = block.data.targets.index_select(0, rows.flatten())
    targets = targets.view(*rows.shape, *targets.shape[1:])
    start = outputs_of(x, weights[:held].view_as(first.weight), weights[held:] if biased else None)
    gram = grams(block, x, biased, memory)
    near = gram.to(x.dtype)
    a = torch.zeros_like(start)
    if order is None:
        slopes = slopes_of(found, block.problem.loss, targets, counts)
        for step in range(steps):
            a.sub_(slopes(start if step == 0 else start + torch.bmm(a.mT, near).mT), alpha=rate)
        return Span(x, a, gram, biased)
    for step in range(steps):
        some = cut(order, size, step).unsqueeze(2)
        outputs = _picked(start, some) if step == 0 else _picked(start, some) + _picked(near, some) @ a
        which = targets.gather(1, some.squeeze(2)) if targets.dim() == 2 else _picked(targets, some)
        slope = slopes_of(found, block.problem.loss, which)(outputs)
        a.scatter_add_(1, some.expand_as(slope), slope.mul_(-rate))
    return Span(x, a, gram, biased)


def outputs_of(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X W' + b of all rows of all clients in one product. In memory outputs come first: softmaxes of few are faster."""
    lines = products.outputs(weight, x.flatten(0, 1))
    found = lines.view(-1, *x.shape[:2]).permute(1, 2, 0)
    return found if bias is None else found.add_(bias)


def rows_of(block: Block, most: int | None = None) -> Tensor:
    """The rows of clients, (clients, rows): as many each, or the last again up to so many."""
    split, most = block.population.split, most or int(block.sizes[0])
    first = split.starts.index_select(0, torch.from_numpy(block.places)).unsqueeze(1)
    places = first + torch.minimum(torch.arange(most), block.sizes.unsqueeze(1) - 1)
    return split.rows.index_select(0, places.flatten()).view(-1, most)


def slopes_of(found: FirstLayer, loss: Loss, targets: Tensor, counts: Tensor | None = None) -> Slopes:
    """The gradients of each client's loss for the outputs of the layer: (clients, rows, outputs), a function of these.

    counts: how many of the rows are each client's; the others only fill up, and their slopes are zero.
    """
    layers = [layer for layer in found.rest if isinstance(layer, nn.Linear)]
    if len(layers) == len(found.rest):  # none, or what spreads the outputs: a product each
        width = layers[-1].out_features if layers else found.first.out_features
        last = given(loss, targets, width, counts)
        return (lambda outputs: _through(layers, last, outputs)) if layers else last
    if counts is not None:
        alone = partial(_traced, found, loss)
        return lambda outputs: apart(alone, outputs, targets, counts)
    return lambda outputs: _traced(found, loss, outputs, targets)


def _through(layers: list[nn.Linear], last: Slopes, outputs: Tensor) -> Tensor:
    for layer in layers:
        outputs = F.linear(outputs, layer.weight, layer.bias)
    slope = last(outputs)
    for layer in reversed(layers):
        slope = slope @ layer.weight
    return slope


def _traced(found: FirstLayer, loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    leaf = outputs.detach().requires_grad_()
    with torch.enable_grad():
        own = leaf.flatten(0, 1).clone()  # a layer may work in place
        (slope,) = torch.autograd.grad(summed(loss, found.rest(own).unflatten(0, leaf.shape[:2]), targets), leaf)
    return slope


def _columns(x: Tensor, which: Tensor) -> Tensor:
    """Some columns of each client's rows; where they are evenly spread, without looking them up one by one."""
    if len(which) > 1:
        first, apart = int(which[0]), int(which[1] - which[0])
        if torch.equal(which, first + apart * torch.arange(len(which))):
            return x[:, :, first : int(which[-1]) + 1 : apart].contiguous()
    return x[:, :, which]


def _picked(lines: Tensor, which: Tensor) -> Tensor:
    """Some lines of each client."""
    return lines.gather(1, which.expand(*which.shape[:2], lines.shape[2]))
