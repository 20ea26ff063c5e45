"""What a model is like, found once by looking at it and running it on two rows."""

import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hush.weights import twin

# Layers that treat every row of a batch by itself and the same way each time.
ROWWISE = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.Softplus,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d,
    nn.Identity,
)


@dataclass(frozen=True)
class Traits:
    """rowwise: each row is treated by itself. random: a pass draws random numbers. plain: it can be taken
    apart, since no layer is called twice in a pass and no pass changes a buffer."""

    rowwise: bool
    random: bool
    plain: bool


_known: WeakKeyDictionary[nn.Module, Traits] = WeakKeyDictionary()
_lock = threading.Lock()


def traits(model: nn.Module, inputs: Tensor) -> Traits:
    """The traits of a model for inputs like these."""
    with _lock:
        if model not in _known:
            _known[model] = _look(model, inputs[:2])
        return _known[model]


def rowwise(module: nn.Module) -> bool:
    """Whether the module is known to treat each row by itself, the same way each time."""
    if type(module) is nn.Sequential:
        return all(rowwise(child) for child in module) and not _hooked(module)
    if type(module) is nn.Flatten:
        return module.start_dim == 1
    return type(module) in ROWWISE and not _hooked(module)


def _look(model: nn.Module, inputs: Tensor) -> Traits:
    calls: dict[nn.Module, int] = {}

    def count(module: nn.Module, *_: object) -> None:
        calls[module] = calls.get(module, 0) + 1

    copied = twin(model)
    for module in copied.modules():
        module.register_forward_hook(count)
    before = dict(model.named_buffers())
    after = {name: buffer.clone() for name, buffer in before.items()}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        state = torch.get_rng_state()
        functional_call(copied, after, (inputs,))
        random = not torch.equal(state, torch.get_rng_state())
    once = all(calls.get(module, 1) == 1 for module in copied.modules())
    still = all(torch.equal(before[name], after[name]) for name in before)
    return Traits(rowwise(model), random, once and still)


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
