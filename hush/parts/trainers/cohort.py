"""A block of clients at once: where, by which engine, and what of it only once."""

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from hush.core.engine import Engine, EngineKind
from hush.core.task import Block, Population, Problem
from hush.core.updates import Rows, Updates
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models import workers
from hush.models.losses import Loss
from hush.models.traits import Traits, draws, rowwise, traits
from hush.models.weights import Layout, flatten
from hush.parts.trainers import alone, chain, lockstep, memory, prefix, span, sparse, traced, vmapped
from hush.parts.trainers.batches import Batches, cut
from hush.parts.trainers.mixed import Mixed

# Weights from which a model is worth one client at a time, where clients cannot share a forward pass.
LARGE = 2**17
# A measured block overrules the usual choice if it is so many times faster.
CLEARLY = 3.0


def together(problem: Problem, data: Samples, live: Tensor | None) -> int:
    """How many clients a block has by default."""
    size = problem.layout.size
    if sparse.trainable(problem, data) is not None:  # one client after the other; a block is what their updates take
        return min(25, lockstep.chunk_of(size if live is None else len(live), shared=False))
    found = _cut(problem, data, live)
    if found is None:
        return lockstep.chunk_of(size, live is not None)
    # Cheap to train, but what the front gives may still be missing: some blocks for each worker.
    return min(25, lockstep.chunk_of(size - found.start, live is not None))


def compact(problem: Problem, data: Samples, rows: int, steps: int) -> int | None:
    """How many clients with so many rows in a step are best added up, where not all of their updates need be made."""
    like = traits(problem.model, data.inputs)
    if sparse.trainable(problem, data) is not None or not (like.plain and like.rowwise) or like.random:
        return None
    found = _cut(problem, data, None)
    return lockstep.compact(problem.model if found is None else found.back, rows, steps)


def descend(
    block: Block,
    weights: Tensor,
    live: Tensor | None,
    order: Tensor | None,
    size: int,
    steps: int,
    rate: float,
    engine: Engine,
) -> Updates:
    """The updates of the live coordinates (all, if None) after `steps` steps of SGD.

    `order` holds positions among the client's own rows: (clients, passes, rows), where each pass is cut in batches
    of `size`; None is all rows in every step.
    """
    problem, data, split, device = block.problem, block.data, block.population.split, torch.device(engine.device)
    model = problem.model
    starts = split.starts[torch.from_numpy(block.places)].view(-1, 1, 1)
    rows = split.rows[starts + (torch.arange(size).view(1, 1, -1) if order is None else order)]
    few = sparse.trainable(problem, data)
    if few is not None and engine.kind != "vmap" and device.type == "cpu":
        return Rows(sparse.train(few, problem.loss, data, weights, live, rows, size, steps, rate))
    like, found = traits(model, data.inputs), _cut(problem, data, live)
    source: _Plain | _Front = _Plain(data, rows, size)
    if found is not None:
        source = _Front(block, found, weights, order, rows, size, engine.memory)
        model, weights = found.back, weights[found.start :]
        live = None if live is None else live - found.start
        like = replace(like, rowwise=rowwise(model), rough=True)  # its first layer may work in place
    again = rows.shape[1] == 1 and rows.shape[2] <= size
    batches = Batches(len(block), steps, source.gather, again, like.rough, device)
    if device.type != "cpu":
        model, weights = _there(model, device), weights.to(device)
        live = None if live is None else live.to(device)
    case = _Case(model, problem.loss, weights, live, batches, rate, like)
    if engine.kind != "lockstep":
        updates = _run(engine.kind or choose(problem, block.population), case)
    else:
        try:
            updates = _run("lockstep", case)
        except (AttributeError, IndexError, TypeError) as error:  # what `choose` would have found out
            raise Mistake(f"engine='lockstep' cannot take this model apart ({error}): leave it out") from error
    return updates if device.type == "cpu" else Rows(updates.rows().cpu())


@dataclass(frozen=True)
class _Plain:
    """The clients' rows as they are; `rows`: (clients, passes, rows), cut in batches of `size`."""

    data: Samples
    rows: Tensor
    size: int

    def gather(self, step: int, who: slice) -> tuple[Tensor, Tensor]:
        """The inputs and targets of these clients in this step."""
        rows, data = cut(self.rows[who], self.size, step), self.data
        inputs = data.inputs.index_select(0, rows.flatten()).view(*rows.shape, *data.inputs.shape[1:])
        return inputs, data.targets[rows]


@dataclass(frozen=True)
class _Front:
    """What the front gives for the clients' rows: for all of a client's at once, where a round uses as many."""

    block: Block
    found: prefix.Cut
    weights: Tensor
    order: Tensor | None
    rows: Tensor
    size: int
    memory: int

    @cached_property
    def held(self) -> dict[int, Tensor]:
        """By client; those with many rows are not there."""
        used = self.rows.shape[1] * self.rows.shape[2]
        few = self.block.places[(self.block.sizes <= used).numpy()].tolist()
        found = prefix.features(self.block.population, self.found, self.weights, few, self.memory)
        return dict(zip(few, found, strict=True))

    @cached_property
    def run(self) -> Callable[[Tensor], Tensor]:
        """What takes rows through the front."""
        return prefix.front(self.found, self.weights)

    def gather(self, step: int, who: slice) -> tuple[Tensor, Tensor]:
        """The inputs of the back and the targets of these clients in this step."""
        rows, data = cut(self.rows[who], self.size, step), self.block.data
        members = self.block.places[who].tolist()
        if self.order is None:
            return torch.stack([self.held[client] for client in members]), data.targets[rows]
        run, inputs = self.run, []
        for client, mine, place in zip(members, rows, cut(self.order[who], self.size, step), strict=True):
            inputs.append(self.held[client][place] if client in self.held else run(data.inputs[mine]))
        return torch.stack(inputs), data.targets[rows]


def _cut(problem: Problem, data: Samples, live: Tensor | None) -> prefix.Cut | None:
    like = traits(problem.model, data.inputs)
    if like.random or not like.still:
        return None
    found = prefix.cut(problem.model, live) if like.plain else None
    return found or traced.cut(problem.model, data.inputs, live)


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


def _run(kind: EngineKind, case: _Case) -> Updates:
    if kind != "lockstep":
        slope = (vmapped if kind == "vmap" else alone).gradients(case.model, case.loss, case.weights, case.live)
        statistics = Layout.of(case.model).parameters
        return Rows(vmapped.train(slope, statistics, case.weights, case.live, case.batches, case.rate))
    if not case.like.plain:
        raise Mistake("engine='lockstep' needs a model that calls each layer once and has no BatchNorm: leave it out")
    terms = case.weights, case.live, case.batches, case.rate, case.like.rowwise
    rows, outer = lockstep.train(case.model, case.loss, *terms)
    return Mixed(rows, outer) if outer else Rows(rows)


_kinds: WeakKeyDictionary[Problem, EngineKind] = WeakKeyDictionary()
_lock = threading.Lock()


def choose(problem: Problem, held: Population) -> EngineKind:
    """The engine for a problem: by the model, unless a measured block shows the other to be clearly faster."""
    with draws, _lock:  # one thread measures, the others wait for what it finds
        if problem not in _kinds:
            with workers.alone():
                _kinds[problem] = _choose(problem, held)
        return _kinds[problem]


def _name(problem: Problem, held: Population) -> str:
    """The model, its input and what computes, in words."""
    shapes = [tuple(shape) for shape in problem.layout.shapes]
    inputs = held.data.inputs
    rows, like = int(held.split.sizes_of(np.arange(1))[0]), traits(problem.model, inputs)
    return f"{problem.model} {shapes} {tuple(inputs.shape[1:])} {rows} {like} {torch.__version__}"


def _choose(problem: Problem, held: Population) -> EngineKind:
    if sparse.trainable(problem, held.data) is not None or span.takes(problem, held.data) is not None:
        return "lockstep"
    like, weights = traits(problem.model, held.data.inputs), flatten(problem.model)
    if not like.random and like.plain and chain.known(problem.model, problem.loss):
        return "lockstep"  # the same products as vmap's, and less of them where few weights are live
    # As many clients as vmap has memory for, two steps, on a few rows of each.
    clients = np.arange(max(1, min(len(held), 100, 2**22 // len(weights))))
    size = min(10, int(held.split.sizes_of(clients).min()))
    rows = torch.stack([held.split.rows_of(k)[:size] for k in clients.tolist()]).unsqueeze(1)
    model, source = problem.model, _Plain(held.data, rows, size)
    found = None if like.plain and prefix.cut(model, None) else _cut(problem, held.data, None)
    if found is not None:
        given = prefix.front(found, weights)(held.data.inputs[rows.flatten()])
        places = torch.arange(len(given)).view(rows.shape)
        source = _Plain(Samples(given, held.data.targets[rows.flatten()]), places, size)
        model, weights, like = found.back, weights[found.start :], replace(like, rowwise=False, rough=True)
    parameters = Layout.of(model).parameters
    batches = Batches(len(clients), 2, source.gather, True, like.rough, torch.device("cpu"))
    few = torch.arange(0, parameters, max(1, parameters // 100))
    case = _Case(model, problem.loss, weights, None, batches, 1e-2, like)
    if not vmapped.takes(model, problem.loss, weights, *batches.get(0, slice(0, 2))):
        first = _Plain(source.data, source.rows[:2], size)
        two = Batches(len(first.rows), 2, first.gather, True, like.rough, torch.device("cpu"))
        return "lockstep" if _right(replace(case, batches=two), "loop", few) else "loop"
    if like.random or not like.plain or not _right(case, "vmap", few):
        return "vmap"
    # Remembered on this machine: the engines round differently, and a run that is repeated is to have the same bits.
    known = memory.recall(_name(problem, held), ("lockstep", "vmap"), lambda: _faster(case))
    return "lockstep" if known == "lockstep" else "vmap"


def _right(case: _Case, other: EngineKind, few: Tensor) -> bool:
    """Whether lockstep can run the model layer by layer, and gives what the other engine does."""
    if case.like.random or not case.like.plain:
        return False
    for live in (None, few):
        try:
            ours = _run("lockstep", replace(case, live=live)).rows()
        except Exception:  # a model that cannot be run layer by layer, in whatever way it says so
            return False
        theirs = _run(other, replace(case, live=live)).rows()
        if (ours - theirs).norm() > 1e-3 * theirs.norm():
            return False  # its layers do something that is not known here
    return True


def _faster(case: _Case) -> EngineKind:
    usual: EngineKind
    other: EngineKind
    usual, other = ("lockstep", "vmap") if case.like.rowwise or case.weights.numel() >= LARGE else ("vmap", "lockstep")
    return other if _seconds(usual, case) > CLEARLY * _seconds(other, case) else usual


def _seconds(kind: EngineKind, case: _Case) -> float:
    """CPU seconds of a block."""
    began = time.thread_time()
    _run(kind, case)
    return time.thread_time() - began


def _there(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the model on the device; its trained weights come with each call."""
    return copy.deepcopy(model).to(device)
