"""Which linear layers have a closed form for a record's gradient, found by running the model on one record."""

import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from hush.core.task import Problem
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models.losses import Loss
from hush.models.traits import draws, hooked, seeded
from hush.models.weights import Layout, twin
from hush.parts.trainers.vmapped import strict


@dataclass(frozen=True)
class PassTraits:
    """What a pass of one record is like.

    closed: the places of nn.Linear layers that are called once, on one vector, and whose parameters are used nowhere
    else. loop: torch.func cannot take the model. inputs, outputs: how many numbers come in, and are made on the way.
    """

    closed: tuple[str, ...]
    loop: bool
    inputs: int
    outputs: int


_known: WeakKeyDictionary[Problem, dict[tuple[bool, ...], PassTraits]] = WeakKeyDictionary()
_lock = threading.Lock()


def known(problem: Problem, data: Samples) -> PassTraits:
    """The look of a problem, taken once for each mode of its model."""
    model = problem.model
    mode = (*(m.training for m in model.modules()), *(p.requires_grad for p in model.parameters()))
    with draws, _lock:
        found = _known.setdefault(problem, {})
        if mode not in found:
            found[mode] = look(model, problem.loss, data)
        return found[mode]


def look(model: nn.Module, loss: Loss, data: Samples) -> PassTraits:
    """Run the model on the first record, by autograd and by torch.func."""
    _refuse(model)
    x, y, copied = data.inputs[:1], data.targets[:1], twin(model)
    calls: Counter[str] = Counter()
    vectors: set[str] = set()
    outputs = 0

    def count(place: str, module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        nonlocal outputs
        calls[place] += 1
        if len(given) == 1 and isinstance(given[0], Tensor) and given[0].dim() == 2 and len(given[0]) == 1:
            vectors.add(place)
        outputs += out.numel() if isinstance(out, Tensor) else 0

    layers = {place: m for place, m in copied.named_modules() if type(m) is nn.Linear and not hooked(m)}
    for place, module in copied.named_modules():
        module.register_forward_hook(partial(count, place))
    state = {name: buffer.clone() for name, buffer in copied.named_buffers()}
    state |= {name: p.detach().requires_grad_(p.requires_grad) for name, p in copied.named_parameters()}
    with seeded(0), torch.enable_grad():
        uses = _uses(loss(functional_call(copied, state, (x.clone(),)), y))
    loop = not _taken(model, loss, x, y)
    closed = []
    for place, layer in layers.items():
        # A name that is not there is tied to another parameter; one that is neither weight nor bias is not known here.
        own = {f"{place}.{name}" if place else name for name, _ in layer.named_parameters()}
        plain = {name for name, _ in layer.named_parameters()} <= {"weight", "bias"} and own <= set(state)
        if plain and not loop and calls[place] == 1 and place in vectors and all(uses[id(state[n])] <= 1 for n in own):
            closed.append(place)
    return PassTraits(tuple(closed), loop, x.numel(), outputs)


def _refuse(model: nn.Module) -> None:
    for place, module in model.named_modules():
        if isinstance(module, _BatchNorm):
            raise Mistake(
                f"the model has BatchNorm ({place or 'itself'}), which mixes the records of a batch, so that no"
                " record's part can be bounded: replace it by GroupNorm"
            )
    if buffers := Layout.of(model).buffers:
        raise Mistake(f"the model has buffers that training changes ({buffers[0]}): set track_running_stats=False")


def _uses(value: Tensor) -> Counter[int]:
    """How often each parameter was used on the way to the value, by identity: the edges of the graph that lead to it.

    A layer's parameters may be used beside its own call (a decoder that takes the encoder's weights), which no count
    of calls shows.
    """
    found: Counter[int] = Counter()
    seen: set[Any] = set()
    waiting: list[Any] = [value.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if hasattr(following, "variable"):
                found[id(following.variable)] += 1
            else:
                waiting.append(following)
    return found


def _taken(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> bool:
    """Whether torch.func can run the model."""
    copied = twin(model)
    state = {name: p.detach() for name, p in copied.named_parameters()}

    def one(state: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        buffers = {name: buffer.clone() for name, buffer in copied.named_buffers()}
        return loss(functional_call(copied, {**state, **buffers}, (x.unsqueeze(0),)), y.unsqueeze(0))

    try:
        with seeded(0), strict():
            vmap(grad(one), in_dims=(None, 0, 0), randomness="different")(state, x.clone(), y)
    except Exception:  # in whatever way torch says so
        return False
    return True
