"""A few clients at a time, step by step, with one copy of what they share and products over their axis."""

import itertools
from collections import OrderedDict
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from hush.data.padding import IGNORED
from hush.models.losses import Loss
from hush.models.traits import hooked
from hush.models.weights import twin
from hush.parts.trainers.batches import Batches
from hush.parts.trainers.copies import Turn, Weights
from hush.parts.trainers.history import LARGE, History, Outer, few
from hush.parts.trainers.layers import SPARSE, Learning, Pool

NEAR = 2**18  # numbers between layers that stay in a cache
TOGETHER = 10  # clients whose products with weights that they share are large enough


def chunk_of(weights: int, shared: bool) -> int:
    """How many clients work together: as many as fit a cache; `shared`: most of their weights are one copy."""
    return max(TOGETHER, min(256, 2**22 // weights)) if shared else max(1, min(256, 2**20 // weights))


def train(
    model: nn.Module, loss: Loss, weights: Tensor, live: Tensor | None, batches: Batches, rate: float, together: bool
) -> tuple[Tensor, tuple[Outer, ...]]:
    """The updates of the live coordinates after one SGD step per batch, one row per client.

    What stands beside the rows is to be at its place in them, where there is nothing yet. `together`: rows of several
    clients may share a forward pass, which is right where the model treats each row by itself.
    """
    clients = batches.clients
    updates = weights.new_empty(clients, weights.numel() if live is None else live.numel())
    worker = _Worker(model, weights, live, rate, batches, together)
    for first in range(0, clients, worker.chunk):
        worker.run(loss, batches, first, updates[first : first + worker.chunk])
    return updates, tuple(worker.outer)


def compact(model: nn.Module, rows: int, steps: int) -> int | None:
    """How many clients with so many rows in a step are best added up, where a layer's updates need not be made."""
    return TOGETHER if any(few(large.weight, rows * steps) for large in _large(model)) else None


class _Worker:
    """A copy of the model with learning layers, and the weights of the clients that it works on.

    front: the layers up to the last convolution and its pooling, which take a few clients at a time, so that what they
    make stays in a cache. back: from a linear layer on, the rows of all clients at once.
    """

    def __init__(
        self, model: nn.Module, weights: Tensor, live: Tensor | None, rate: float, batches: Batches, together: bool
    ) -> None:
        self.weights, self.rate = weights, rate
        layers = _layers(model)
        held = {id(p) for layer in layers.values() for p in layer.parameters()}
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        together = together and all(id(p) in held for _, p in trained)
        large = {id(layer.weight) for layer in _large(model)} if together and live is None else set()
        self.chunk = min(batches.clients, chunk_of(weights.numel(), live is not None or bool(large))) if together else 1
        self.turn = Turn()
        self.outer: list[Outer] = []  # what is not in the rows of updates
        # Of a model that treats rows alone, only its Sequentials have places to put a layer in.
        self.model = _sequence(model) if together else twin(model)
        cut = _cut(model) if together else 0
        linear = {id(layer.weight) for layer in layers.values() if isinstance(layer, nn.Linear)}
        parts = self._parts(trained, live, linear)
        for key in large & parts.keys():
            parts[key].history = History(parts[key].base, batches.steps)
        self.learning: list[Learning] = []
        # Not in front of layers whose kernels for that order may fail: torch 2.13's GroupNorm ends the process
        # where its input needs no gradient.
        last = together and not any(isinstance(module, nn.GroupNorm) for module in model.modules())
        for place, module in model.named_modules():
            if place in layers:
                weight, bias = (parts.get(id(p)) or _still(p) for p in (layers[place].weight, layers[place].bias))
                assert weight is not None
                self.learning.append(Learning(layers[place], weight, bias, rate, self.turn, last))
                self._put(place, self.learning[-1])
            elif last and type(module) is nn.MaxPool2d:
                self._put(place, Pool(module))
        whole = list(self.model) if isinstance(self.model, nn.Sequential) else [self.model]
        self.front, self.back = nn.Sequential(*whole[:cut]), nn.Sequential(*whole[cut:])
        # What no learning layer holds is left to autograd.
        self.leaves: list[tuple[nn.Parameter, Weights]] = []
        for _, p in trained:
            if id(p) not in held:
                leaf = nn.Parameter(parts[id(p)].of(0), requires_grad=parts[id(p)].live)
                self.leaves.append((leaf, parts[id(p)]))
                for module in self.model.modules():
                    for name in [key for key, known in module._parameters.items() if known is p]:
                        module._parameters[name] = leaf
        self.parts = list(parts.values())
        sizes = [part.base.numel() if part.spot is None else part.spot.numel() for part in self.parts]
        self.places = [slice(end - size, end) for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]

    def run(self, loss: Loss, batches: Batches, first: int, out: Tensor) -> None:
        """Train clients first, first + 1, ..., and write their updates to the rows of `out`."""
        chunk = len(out)
        self._reset(out)
        for step in range(batches.steps):
            inputs, targets = batches.get(step, slice(first, first + chunk))
            if chunk == 1:  # whatever comes out is the loss's to take
                summed = loss(self.model(inputs[0]), targets[0])
            else:
                summed = total(loss, _split(self._outputs(inputs), chunk), targets)
            if summed.requires_grad:  # it does not where the pass leaves out all that is live
                torch.autograd.backward(summed)
            self.turn.started = True
            with torch.no_grad():
                for leaf, part in self.leaves:
                    if leaf.grad is not None:
                        part.step(slice(0, 1), leaf.grad, self.rate)
                        leaf.grad = None
        for part, place in zip(self.parts, self.places, strict=True):
            if part.history is None:
                part.report(out[:, place])
            else:
                self.outer.append(part.history.report(slice(first, first + chunk), place))

    def _outputs(self, inputs: Tensor) -> Tensor:
        """What the model gives for the rows of several clients."""
        if not len(self.front):
            return cast(Tensor, self.back(inputs.flatten(0, 1)))
        found, turn, clients = [], self.turn, len(inputs)
        turn.first = 0
        while turn.first < clients:
            turn.clients = min(clients - turn.first, max(1, NEAR // turn.widest if turn.widest else 1))
            found.append(self.front(inputs[turn.who].flatten(0, 1)))
            turn.first += turn.clients
        turn.first, turn.clients = 0, clients
        return cast(Tensor, self.back(torch.cat(found)))

    def _reset(self, out: Tensor) -> None:
        for part, place in zip(self.parts, self.places, strict=True):
            if part.spot is None:
                part.own = out[:, place].view(len(out), *part.base.shape)
            elif part.own is None:
                part.moved = out[:, place]
            part.reset()
        for leaf, part in self.leaves:
            leaf.data = part.of(0)
        self.turn.first, self.turn.clients, self.turn.started = 0, len(out), False

    def _put(self, place: str, module: nn.Module) -> None:
        if place:
            self.model.set_submodule(place, module, strict=True)
        else:
            self.model = module

    def _parts(
        self, trained: list[tuple[str, nn.Parameter]], live: Tensor | None, linear: set[int]
    ) -> dict[int, Weights]:
        """Each trained parameter with its live coordinates and, where it needs them, copies for the clients."""
        parts, start = {}, 0
        for _, p in trained:
            stop = start + p.numel()
            base = self.weights[start:stop].view(p.shape)
            if live is None:
                parts[id(p)] = Weights(base, None)
            else:
                low, high = torch.searchsorted(live, live.new_tensor([start, stop])).tolist()
                shared = high == low or (id(p) in linear and high - low <= SPARSE * p.numel())
                own = None if shared else base.expand(self.chunk, *p.shape).clone()
                parts[id(p)] = Weights(base, live[low:high] - start, own)
            start = stop
        return parts


def total(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """The sum of the clients' losses, each a mean over its rows."""
    if loss is F.cross_entropy and outputs.dim() == 3 and targets.dim() == 2:  # one call for all of them
        rows = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
        return (rows.sum(1) / (targets != IGNORED).sum(1)).sum()
    return vmap(loss)(outputs, targets).sum()


def _sequence(module: nn.Module) -> nn.Module:
    """The same layers in Sequentials of their own: cheaper than a copy of everything.

    By `_modules`, which lists a layer that stands in two places twice.
    """
    if not isinstance(module, nn.Sequential):
        return module
    children = [(name, child) for name, child in module._modules.items() if child is not None]
    return nn.Sequential(OrderedDict((name, _sequence(child)) for name, child in children))


def _split(x: Tensor, clients: int) -> Tensor:
    """With an axis of clients."""
    return x.view(clients, -1, *x.shape[1:])


def _cut(model: nn.Module) -> int:
    """How many of a model's children come before the first linear layer behind its last convolution."""
    children = list(model) if isinstance(model, nn.Sequential) else [model]
    holds = [{type(one) for one in child.modules()} & {nn.Conv2d, nn.Linear} for child in children]
    last = max((place for place, kinds in enumerate(holds, 1) if nn.Conv2d in kinds), default=0)
    return next((place for place in range(last, len(holds)) if last and holds[place]), len(holds) if last else 0)


def _large(model: nn.Module) -> list[nn.Linear]:
    """The large linear layers behind the convolutions, all of which train."""
    children = list(model) if isinstance(model, nn.Sequential) else [model]
    later = {id(layer) for child in children[_cut(model) :] for layer in child.modules()}
    linear = [layer for layer in _layers(model).values() if isinstance(layer, nn.Linear) and id(layer) in later]
    return [layer for layer in linear if layer.weight.requires_grad and layer.weight.numel() >= LARGE]


def _still(p: Tensor | None) -> Weights | None:
    """A parameter that does not train."""
    return None if p is None else Weights(p.detach(), p.new_empty(0, dtype=torch.int64))


def _layers(model: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """The plain linear and convolution layers, by place; not those that share a parameter or have hooks."""
    count: dict[int, int] = {}
    for module in model.modules():
        for p in module.parameters(recurse=False):
            count[id(p)] = count.get(id(p), 0) + 1
    return {
        place: module
        for place, module in model.named_modules()
        if (type(module) is nn.Linear or (type(module) is nn.Conv2d and _plain(module)))
        and not hooked(module)
        and {name for name, _ in module.named_parameters(recurse=False)} <= {"weight", "bias"}
        and all(count[id(p)] == 1 for p in module.parameters(recurse=False))
    }


def _plain(module: nn.Conv2d) -> bool:
    return module.padding_mode == "zeros" and not isinstance(module.padding, str)
