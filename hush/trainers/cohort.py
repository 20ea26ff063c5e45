"""A block of clients at once: where, by which engine, and what of it only once."""

import copy
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from hush import workers
from hush.errors import Mistake
from hush.spec import Members
from hush.task import Loss, Task
from hush.trainers import lockstep, prefix, vmapped
from hush.trainers.traits import Traits, rowwise, traits
from hush.weights import flatten

Kind = Literal["lockstep", "vmap"]
Batches = Sequence[tuple[Tensor, Tensor]]

# Weights from which a model is worth one client at a time, where clients cannot share a forward pass.
LARGE = 2**17
# A measured block overrules the usual choice if it is so many times faster. Far from 1, so that two runs agree.
CLEARLY = 3.0


@dataclass(frozen=True)
class Engine:
    """How clients are trained, not what comes out: that is the same up to rounding.

    lockstep: a chunk of clients goes through the layers together; the weights that do not train are one copy,
    and each layer takes its step in the backward pass. vmap: any model, all its weights once per client.
    Without a kind the model decides, and a measured first block may overrule it. memory: bytes for what frozen
    layers gave.
    """

    kind: Kind | None = None
    device: str = "cpu"
    memory: int = 2**30

    def __post_init__(self) -> None:
        if self.kind not in (None, "lockstep", "vmap"):
            raise Mistake(f"engine={self.kind!r} is not known: choose lockstep or vmap, or leave it out")
        if self.memory < 0:
            raise Mistake(f"memory={self.memory} must not be negative: bytes for what frozen layers gave")
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise Mistake(f"device={self.device!r} cannot be used here: choose cpu ({_line(error)})") from None


def block(task: Task, live: Tensor | None) -> int:
    """How many clients a block has by default."""
    found = _cut(task, live)
    if found is None:
        return lockstep.chunk_of(task.layout.size, live is not None)
    # Cheap to train, but what the front gives may still be missing: some blocks for each worker.
    return min(25, lockstep.chunk_of(task.layout.size - found.start, live is not None))


def descend(
    task: Task,
    weights: Tensor,
    live: Tensor | None,
    clients: Members,
    order: Tensor | None,
    size: int,
    steps: int,
    rate: float,
    engine: Engine,
) -> Tensor:
    """The updates of the live coordinates (all, if None) after `steps` steps of SGD, one row per client.

    `order` holds the positions of each batch among the client's own rows: (clients, steps, size); None is
    all rows in every step.
    """
    model, split = task.model, task.split
    like, found = traits(model, task.train.inputs), _cut(task, live)
    starts = split.starts[torch.from_numpy(clients)].unsqueeze(1)
    here = torch.arange(size).expand(len(clients), 1, size) if order is None else order
    rows = split.rows[starts.unsqueeze(2) + here]
    targets = task.train.targets[rows]
    if found is None:
        inputs = task.train.inputs.index_select(0, rows.flatten()).view(*rows.shape, *task.train.inputs.shape[1:])
    else:
        inputs = _features(task, found, weights, clients, order, rows, steps, engine)
        model, weights = found.back, weights[found.start :]
        like = replace(like, rowwise=rowwise(model))
        live = None if live is None else live - found.start
    batches = [(inputs[:, min(s, inputs.shape[1] - 1)], targets[:, min(s, targets.shape[1] - 1)]) for s in range(steps)]
    device = torch.device(engine.device)
    if device.type != "cpu":
        model, weights = _there(model, device), weights.to(device)
        live = None if live is None else live.to(device)
        batches = [(x.to(device), y.to(device)) for x, y in batches]
    case = _Case(model, task.loss, weights, live, batches, rate, like)
    return _run(engine.kind or choose(task), case).cpu()


def _cut(task: Task, live: Tensor | None) -> prefix.Cut | None:
    like = traits(task.model, task.train.inputs)
    return prefix.cut(task.model, live) if like.plain and not like.random else None


def _features(
    task: Task,
    found: prefix.Cut,
    weights: Tensor,
    clients: Members,
    order: Tensor | None,
    rows: Tensor,
    steps: int,
    engine: Engine,
) -> Tensor:
    """The inputs of the back, for every client and step: of all its rows where that is less work."""
    if order is None:
        return torch.stack(prefix.features(task, found, weights, clients.tolist(), engine.memory)).unsqueeze(1)
    members = [int(k) for k in clients]
    few = max(len(task.split.rows_of(k)) for k in members) <= steps * rows.shape[2]
    if few:
        held = prefix.features(task, found, weights, members, engine.memory)
        return torch.stack([mine[positions] for mine, positions in zip(held, order, strict=True)])
    run = prefix.front(found, weights)
    fresh = [run(task.train.inputs[mine.flatten()]) for mine in rows]
    whole = torch.stack(fresh)
    return whole.view(*rows.shape, *whole.shape[2:])


@dataclass(frozen=True)
class _Case:
    """What an engine gets."""

    model: nn.Module
    loss: Loss
    weights: Tensor
    live: Tensor | None
    batches: Batches
    rate: float
    like: Traits


def _run(kind: Kind, case: _Case) -> Tensor:
    if kind == "vmap":
        return vmapped.train(case.model, case.loss, case.weights, case.live, case.batches, case.rate)
    if not case.like.plain:
        raise Mistake("engine='lockstep' needs a model that calls each layer once and has no BatchNorm: leave it out")
    return lockstep.train(case.model, case.loss, case.weights, case.live, case.batches, case.rate, case.like.rowwise)


_kinds: WeakKeyDictionary[Task, Kind] = WeakKeyDictionary()
_lock = threading.Lock()


def choose(task: Task) -> Kind:
    """The engine for a task: by the model, unless a measured block shows the other to be clearly faster."""
    with _lock, workers.alone():  # one thread measures, the others wait for what it finds
        if task not in _kinds:
            _kinds[task] = _choose(task)
        return _kinds[task]


def _choose(task: Task) -> Kind:
    like, weights = traits(task.model, task.train.inputs), flatten(task.model)
    if like.random or not like.plain:
        return "vmap"
    # As many clients as vmap has memory for, two steps, on a few rows of each.
    clients = np.arange(max(1, min(task.clients, 100, 2**22 // len(weights))))
    size = min(10, int(task.split.sizes_of(clients).min()))
    rows = torch.stack([task.split.rows_of(k)[:size] for k in clients.tolist()])
    batches = [(task.train.inputs[rows], task.train.targets[rows])] * 2
    case = _Case(task.model, task.loss, weights, None, batches, 1e-3, like)
    usual: Kind
    other: Kind
    usual, other = ("lockstep", "vmap") if like.rowwise or len(weights) >= LARGE else ("vmap", "lockstep")
    return other if _seconds(usual, case) > CLEARLY * _seconds(other, case) else usual


def _seconds(kind: Kind, case: _Case) -> float:
    """CPU seconds of a block."""
    trials = []
    for _ in range(2):  # the first one warms up
        began = time.thread_time()
        try:
            _run(kind, case)
        except RuntimeError:  # a model that vmap cannot take
            return math.inf
        trials.append(time.thread_time() - began)
    return min(trials)


def _there(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the model on the device; its trained weights come with each call."""
    return copy.deepcopy(model).to(device)


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
