"""What a model is like, found once by looking at it and running it on two rows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hush.data.sparse import Sparse
from hush.models.weights import twin

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
    """What an engine must know of a model.

    rowwise: each row is treated by itself, the same way each time. random: a pass draws random numbers. plain: it
    can be run layer by layer, since every linear and convolution layer is called just once in a pass, no pass changes
    a buffer, and all is float32. rough: a pass changes its input. still: no pass changes a buffer.
    """

    rowwise: bool
    random: bool
    plain: bool
    rough: bool
    still: bool = field(default=True, repr=False)  # measured engines are remembered by what else there is


_known: WeakKeyDictionary[nn.Module, dict[bool, Traits]] = WeakKeyDictionary()
_lock = threading.Lock()
draws = threading.RLock()  # who draws from torch's own generator; taken before any other lock


def traits(model: nn.Module, inputs: Tensor | Sparse) -> Traits:
    """The traits of a model, in its present mode, for inputs like these."""
    with draws, _lock:
        found = _known.setdefault(model, {})
        if model.training not in found:
            found[model.training] = _look(model, inputs[:2].clone())
        return found[model.training]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Dropout draws from torch's own generator: one thread at a time, from this seed, and put back."""
    with draws, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def rowwise(module: nn.Module) -> bool:
    """Whether the module is known to treat each row by itself, the same way each time."""
    if type(module) is nn.Sequential:
        return all(rowwise(child) for child in module) and not hooked(module)
    if type(module) is nn.Flatten:
        return module.start_dim == 1
    return type(module) in ROWWISE and not hooked(module)


def hooked(module: nn.Module) -> bool:
    """Whether something is to be called beside the module's own forward."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)


def _look(model: nn.Module, inputs: Tensor) -> Traits:
    calls: dict[nn.Module, int] = {}

    def count(module: nn.Module, *_: object) -> None:
        calls[module] = calls.get(module, 0) + 1

    copied = twin(model)
    for module in copied.modules():
        module.register_forward_hook(count)
    before = dict(model.named_buffers())
    after = {name: buffer.clone() for name, buffer in before.items()}
    given = inputs.clone()
    with seeded(0), torch.no_grad():
        state = torch.get_rng_state()
        functional_call(copied, after, (given,))
        random = not torch.equal(state, torch.get_rng_state())
    once = all(calls.get(m, 0) == 1 for m in copied.modules() if isinstance(m, nn.Linear | nn.Conv2d))
    still = all(torch.equal(before[name], after[name]) for name in before)
    single = all(p.dtype is torch.float32 for p in copied.parameters())
    return Traits(rowwise(model), random, once and still and single, not torch.equal(given, inputs), still)
