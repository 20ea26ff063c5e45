"""One regularised solve in place of steps, for models that are linear in what trains."""

import math
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from hush.core.engine import Engine
from hush.core.protocols import Parts, Trainer
from hush.core.spec import Plan
from hush.core.task import Block, Problem, Registered
from hush.core.updates import Grouped, Updates
from hush.errors import Mistake
from hush.models.entry import FirstLayer, entry, whole
from hush.models.traits import rowwise, traits
from hush.parts.trainers import span
from hush.parts.trainers.grams import grams


@dataclass(frozen=True)
class Ridge(Trainer):
    """The update rate * R' (X X' + gamma I)^-1 X of a linear layer W that takes the rows X.

    R is the residual of each row: minus the gradient of its loss for the layer's outputs; of a softmax, the target
    minus the probabilities. One solve of as many equations as a client has rows: where steps of gradient descent repeat
    what similar rows say, it says it once. A bias is a column of ones.

    Guarantee: none by itself. With a large `rate` a later clip scales every update to its bound.
    """

    settings: ClassVar[tuple[str, ...]] = ("rate", "ridge")

    gamma: float
    rate: float = 100.0

    def __post_init__(self) -> None:
        for name, value in (("ridge", self.gamma), ("rate", self.rate)):
            if not 0 < value < math.inf:
                raise Mistake(f"{name}={value} must be positive and finite")

    @property
    def ridge(self) -> float:
        """What the settings call `gamma`."""
        return self.gamma

    def check(self, scheme: Parts, task: Registered) -> None:
        """One linear layer that takes the rows, and nothing else that trains."""
        _layer(task.model)
        inputs = task.rows.inputs
        if traits(task.model, inputs).random:
            raise Mistake("ridge is for a model that draws no random numbers: leave Dropout out of it")
        if isinstance(inputs, Tensor) and not whole(task.model, inputs):
            raise Mistake("ridge is for a linear layer that takes a whole row: begin the model with nn.Flatten()")

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """The updates of the live coordinates, one row per client."""
        return self.updates(block, plan, engine).rows()

    def updates(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Updates:
        """The updates of the live coordinates, of each client."""
        if plan.trained is not None:
            raise Mistake("ridge solves for all weights of a linear layer: take a scheme that trains all of them")
        groups: dict[int, list[int]] = {}
        for place, count in enumerate(block.sizes.tolist()):
            groups.setdefault(count, []).append(place)
        if len(groups) == 1:
            return self._solved(block, plan, engine.memory)
        parts = tuple((places, self._solved(block.pick(places), plan, engine.memory)) for places in groups.values())
        return Grouped(parts, len(block), (plan.weights if plan.live is None else plan.live).numel())

    def compact(self, block: Block, plan: Plan, engine: Engine = Engine()) -> int:
        """Updates lie in the span of the rows."""
        return span.together(int(block.sizes.max()), _taken(block.problem).first.in_features)

    def _solved(self, block: Block, plan: Plan, memory: int) -> Updates:
        """Of clients with as many rows each."""
        found = _taken(block.problem)
        first = found.first
        weight = plan.weights[: first.weight.numel()].view_as(first.weight)
        bias = None if first.bias is None else plan.weights[first.weight.numel() :]
        rows = span.rows_of(block)
        x = block.data.inputs.index_select(0, rows.flatten()).flatten(1).view(*rows.shape, -1).to(weight.dtype)
        residual = _residuals(found, block, x, rows, weight, bias)
        gram = grams(block, x, bias is not None, memory)
        # In float64, where gamma is not lost beside long rows. No client's rows may stop the others: where there is
        # no solution, as of rows too long for a number, it is zero.
        system = gram + self.gamma * torch.eye(rows.shape[1], dtype=torch.float64)
        solved, failed = torch.linalg.solve_ex(system, residual.double())
        wrong = (failed != 0) | ~solved.isfinite().all(-1).all(-1)
        solved = solved.masked_fill(wrong[:, None, None], 0.0).to(weight.dtype)
        return span.Span(x, solved.mul_(self.rate), gram, bias is not None).at(plan.live if plan.joint else None)


def _residuals(found: FirstLayer, block: Block, x: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Minus the gradient of each row's loss for the outputs of the layer, of clients with as many rows each."""
    output = span.outputs_of(x, weight, bias)
    # The loss of each client by itself: a mean over rows of several would let one of them move the others' updates.
    targets = block.data.targets[rows]
    if rowwise(found.rest):
        return span.slopes_of(found, block.problem.loss, targets)(output) * -rows.shape[1]
    leaf = output.requires_grad_()
    lines = zip(leaf.unbind(), targets, strict=True)
    losses = [block.problem.loss(found.rest(own.clone()), which) for own, which in lines]  # a layer may work in place
    (slope,) = torch.autograd.grad(torch.stack(losses).sum(), leaf)
    return slope * -rows.shape[1]  # the loss is a mean over the rows


def _taken(problem: Problem) -> FirstLayer:
    """The parts of a problem's model, found once."""
    if problem not in _known:
        _known[problem] = _layer(problem.model)
    return _known[problem]


_known: WeakKeyDictionary[Problem, FirstLayer] = WeakKeyDictionary()


def _layer(model: nn.Module) -> FirstLayer:
    found, trained = entry(model), sum(p.numel() for p in model.parameters() if p.requires_grad)
    if found is None or not found.alone or trained != sum(p.numel() for p in found.first.parameters()):
        raise Mistake(
            "ridge is for a model whose one trained layer is linear and takes the rows: give steps in its place"
        )
    return found
