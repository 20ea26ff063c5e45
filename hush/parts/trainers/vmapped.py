"""Any model that torch.func takes: vmap over the axis of the clients."""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from hush.models.losses import Loss
from hush.models.weights import Layout, twin
from hush.parts.trainers import chain
from hush.parts.trainers.batches import Batches

Gradients = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
_taken: WeakKeyDictionary[nn.Module, dict[tuple[int, bool], tuple[Loss, bool]]] = WeakKeyDictionary()
_filters = threading.Lock()  # warnings are the whole process's


def train(
    slope: Gradients, statistics: int, weights: Tensor, live: Tensor | None, batches: Batches, rate: float
) -> Tensor:
    """The updates of the live coordinates after one SGD step per batch, one row per client.

    `slope` gives the gradients at the clients' values; running statistics begin at this place of the vector.
    """
    start = weights if live is None else weights[live]
    values = start.expand(batches.clients, -1).clone()
    for step in range(batches.steps):
        grads, buffers = slope(values, *batches.get(step))
        values.sub_(grads, alpha=rate)
        if live is None and buffers.shape[1]:
            values[:, statistics:] = buffers
    return values.sub_(start)


def takes(model: nn.Module, loss: Loss, weights: Tensor, inputs: Tensor, targets: Tensor) -> bool:
    """Whether torch.func can run the model on these clients' rows; random draws are put back."""
    if chain.known(model, loss):
        return True
    with strict():
        found, key = _taken.setdefault(model, {}), (id(loss), model.training)
        if key not in found:
            try:
                with torch.random.fork_rng(devices=[]):
                    _vmapped(model, loss, weights, None)(weights.expand(len(inputs), -1), inputs.clone(), targets)
                found[key] = loss, True
            except Exception:  # in whatever way torch says so
                found[key] = loss, False
        return found[key][1]


@contextmanager
def strict() -> Iterator[None]:
    """What torch.func knows no rule for it does client by client, and warns of it: an error here, one at a time."""
    with _filters, warnings.catch_warnings():
        warnings.filterwarnings("error", message="There is a performance drop")
        yield


def gradients(model: nn.Module, loss: Loss, base: Tensor, live: Tensor | None) -> Gradients:
    """The function (values, inputs, targets) -> (gradients, buffers), each with a leading client axis.

    With `live`, `values` are the live coordinates and all others stand at `base`. Without, they are
    the whole vector. `buffers` are the running statistics after the forward pass.
    """
    every = _vmapped(model, loss, base, live)
    if live is not None or not chain.known(model, loss):
        return every

    def slope(values: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if len(values) > 1 or not chain.fits(model, inputs, targets):
            return every(values, inputs, targets)
        return chain.gradient(model, values, inputs, targets), values[:, :0]

    return slope


def _vmapped(model: nn.Module, loss: Loss, base: Tensor, live: Tensor | None) -> Gradients:
    layout, model = Layout.of(model), twin(model)  # a call puts the weights into the modules: not for two threads
    others = [name for name, _ in model.named_buffers() if name not in layout.buffers]

    def one(values: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        flat = values if live is None else base.index_copy(0, live, values)
        tensors = layout.tensors(flat)
        # A forward pass may write to buffers: it gets copies of its own.
        changed = {name: tensors[name].detach().clone() for name in layout.buffers}
        counted = {name: model.get_buffer(name).clone() for name in others}
        output = functional_call(model, {**tensors, **changed, **counted}, (inputs,))
        after = [changed[name].reshape(-1).float() for name in layout.buffers]
        return loss(output, targets), torch.cat(after) if after else values[:0]

    return vmap(grad(one, has_aux=True), randomness="different")
