"""A few clients at a time, step by step, with one copy of what they share and products over their axis."""

import itertools
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from hush.data.padding import IGNORED
from hush.models.losses import Loss
from hush.models.traits import hooked
from hush.models.weights import twin
from hush.parts.trainers.batches import Batches
from hush.parts.trainers.copies import Weights
from hush.parts.trainers.layers import SPARSE, Learning, Pool


def chunk_of(weights: int, shared: bool) -> int:
    """How many clients work together: as many as fit a cache; `shared`: most of their weights are one copy."""
    return max(5, min(256, 2**22 // weights)) if shared else max(1, min(256, 2**20 // weights))


def train(
    model: nn.Module, loss: Loss, weights: Tensor, live: Tensor | None, batches: Batches, rate: float, together: bool
) -> Tensor:
    """The updates of the live coordinates after one SGD step per batch, one row per client.

    `together`: rows of several clients may share a forward pass, which is right where the model treats each row
    by itself.
    """
    clients = batches.clients
    updates = weights.new_empty(clients, weights.numel() if live is None else live.numel())
    worker = _Worker(model, weights, live, rate, clients, together)
    for first in range(0, clients, worker.chunk):
        worker.run(loss, batches, first, updates[first : first + worker.chunk])
    return updates


class _Worker:
    """A copy of the model with learning layers, and the weights of the clients that it works on."""

    def __init__(
        self, model: nn.Module, weights: Tensor, live: Tensor | None, rate: float, clients: int, together: bool
    ) -> None:
        self.weights, self.rate, self.whole = weights, rate, live is None
        layers = _layers(model)
        held = {id(p) for layer in layers.values() for p in layer.parameters()}
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        together = together and all(id(p) in held for _, p in trained)
        self.chunk = min(clients, chunk_of(weights.numel(), live is not None)) if together else 1
        self.moved = weights.new_zeros(self.chunk, 0 if live is None else live.numel())
        linear = {id(layer.weight) for layer in layers.values() if isinstance(layer, nn.Linear)}
        parts = self._parts(trained, live, linear)
        # Of a model that treats rows alone, only its Sequentials have places to put a layer in.
        self.model = _sequence(model) if together else twin(model)
        self.learning: list[Learning] = []
        # Not in front of layers whose kernels for that order may fail: torch 2.13's GroupNorm ends the process
        # where its input needs no gradient.
        last = together and not any(isinstance(module, nn.GroupNorm) for module in model.modules())
        for place, module in model.named_modules():
            if place in layers:
                weight, bias = (parts.get(id(p)) or _still(p) for p in (layers[place].weight, layers[place].bias))
                assert weight is not None
                self.learning.append(Learning(layers[place], weight, bias, rate, last))
                self._put(place, self.learning[-1])
            elif last and type(module) is nn.MaxPool2d:
                self._put(place, Pool(module))
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
        ends = itertools.accumulate(part.base.numel() for part in self.parts)
        self.places = [slice(end - part.base.numel(), end) for part, end in zip(self.parts, ends, strict=True)]

    def run(self, loss: Loss, batches: Batches, first: int, out: Tensor) -> None:
        """Train clients first, first + 1, ..., and write their updates to the rows of `out`."""
        chunk = len(out)
        self._reset(chunk, out)
        for step in range(batches.steps):
            inputs, targets = batches.get(step, slice(first, first + chunk))
            if chunk == 1:  # whatever comes out is the loss's to take
                total = loss(self.model(inputs[0]), targets[0])
            else:
                total = _total(loss, self.model(inputs.flatten(0, 1)).unflatten(0, (chunk, -1)), targets)
            if total.requires_grad:  # it does not where the pass leaves out all that is live
                torch.autograd.backward(total)
            for layer in self.learning:
                layer.started = True
            with torch.no_grad():
                for leaf, part in self.leaves:
                    if leaf.grad is not None:
                        part.step(0, leaf.grad.unsqueeze(0), self.rate)
                        leaf.grad = None
        if not self.whole:
            out.copy_(self.moved[:chunk])
            return
        if self.chunk == 1:
            out -= self.weights
            return
        for part, place in zip(self.parts, self.places, strict=True):
            assert part.own is not None
            torch.sub(part.own[:chunk].flatten(1), part.base.flatten(), out=out[:, place])

    def _reset(self, chunk: int, out: Tensor) -> None:
        self.moved.zero_()
        if self.whole and self.chunk == 1:  # the row of the update is itself the client's copy of the weights
            out[0] = self.weights
            for part, place in zip(self.parts, self.places, strict=True):
                part.own = out[:, place].view(1, *part.base.shape)
            for leaf, part in self.leaves:
                leaf.data = part.of(0)
        else:
            for part in self.parts:
                part.reset()
        for layer in self.learning:
            layer.chunk, layer.started = chunk, False

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
                own = None if self.chunk == 1 else base.new_empty(self.chunk, *p.shape)
                parts[id(p)] = Weights(base, None, None, own)
            else:
                low, high = torch.searchsorted(live, live.new_tensor([start, stop])).tolist()
                shared = high == low or (id(p) in linear and high - low <= SPARSE * p.numel())
                own = None if shared else base.expand(self.chunk, *p.shape).clone()
                parts[id(p)] = Weights(base, live[low:high] - start, self.moved[:, low:high], own)
            start = stop
        return parts


def _total(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
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


def _still(p: Tensor | None) -> Weights | None:
    """A parameter that does not train."""
    return None if p is None else Weights(p.detach(), p.new_empty(0, dtype=torch.int64), None, None)


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
