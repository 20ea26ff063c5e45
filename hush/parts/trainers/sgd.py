"""Plain stochastic gradient descent at the clients (the first paper's Algorithms 2 and 5)."""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.protocols import Trainer
from hush.core.spec import Plan
from hush.core.task import Block
from hush.core.updates import Grouped, Rows, Updates
from hush.errors import Mistake
from hush.models.entry import FirstLayer
from hush.models.traits import seeded, traits
from hush.parts.trainers import layered, span, sparse
from hush.parts.trainers.balance import Balance, downsample, labels
from hush.parts.trainers.cohort import compact, descend
from hush.parts.trainers.small import chained
from hush.random.draws import Draws


@dataclass(frozen=True)
class Sgd(Trainer):
    """`steps` iterations w <- w - rate * grad f(batch; w), no momentum; the update is w - w_{t-1}.

    Each batch holds `batch` rows drawn without replacement from the client's own (all of them where it
    has no more, or where batch is None). With `epochs` in place of steps a client takes ceil(rows / batch)
    steps in each of them: its rows in a fresh order, cut in batches, the last of which may be smaller. With
    `free`, every weight trains and only the live ones are reported; without, the others stay at the values
    that the round began with. With `balance` "downsample" a client trains in each round on so many random rows of each
    class, 0 and 1, as it has of the rarer one (the first paper's footnote 10): a client without that class moves
    nothing.

    Guarantee: none by itself. Whatever a client leaves out, its update is one vector that a later clip bounds, so
    downsampling within clients changes nothing for schemes that protect whole clients.
    """

    settings: ClassVar[tuple[str, ...]] = ("rate", "steps", "epochs", "batch", "balance", "share")

    rate: float
    steps: int | None
    batch: int | None
    free: bool = False
    epochs: int | None = None
    balance: Balance = "none"

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise Mistake(f"rate={self.rate} must be positive")
        for name in ("steps", "batch", "epochs"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise Mistake(f"{name}={number} must be at least 1")
        if (self.steps is None) == (self.epochs is None):
            raise Mistake(f"steps={self.steps} and epochs={self.epochs}: give one of them, and None for the other")
        if self.balance not in ("none", "downsample"):
            raise Mistake(f"balance={self.balance!r} is not for plain SGD: choose none or downsample")

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """The updates of the live coordinates, one row per client."""
        return self._grouped(block, plan, self._balanced(block, plan), engine).rows()

    def updates(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Updates:
        """The updates of the live coordinates, of each client."""
        kept, few = self._balanced(block, plan), self._layers(block, plan, engine)
        if few is None:
            return self._grouped(block, plan, kept, engine)
        rows = [block.rows(place) for place in range(len(block))]
        if kept is not None:
            rows = [mine[own] for mine, own in zip(rows, kept, strict=True)]
        # Each client by its own rows, and not by those of who is beside it.
        near = [place for place, mine in enumerate(rows) if self._whole(len(mine)) and layered.takes(block.data, mine)]
        far = sorted(set(range(len(block))) - set(near))
        parts: list[tuple[list[int], Updates]] = []
        if near:
            mine, loss = [rows[place] for place in near], block.problem.loss
            found = layered.train(few, loss, block.data, plan.weights, mine, self._passes, self.rate).at(plan.live)
            if not far:
                return found
            parts.append((near, found))
        some = None if kept is None else [kept[place] for place in far]
        parts.append((far, self._grouped(block.pick(far), plan, some, engine)))
        return Grouped(tuple(parts), len(block), (plan.weights if plan.live is None else plan.live).numel())

    def compact(self, block: Block, plan: Plan, engine: Engine = Engine()) -> int | None:
        """Where the first layer of all these clients stays in the span of their rows."""
        if self._layers(block, plan, engine) is not None:
            return layered.TOGETHER if plan.live is None else None
        line, largest = self._linear(block, plan, engine), int(block.sizes.max())
        if line is not None and largest <= span.MOST:
            return span.together(largest, line.first.in_features)
        if plan.live is not None or not engine.layered:
            return None
        most = self._used(largest)
        rows = most if self.batch is None else min(most, self.batch)
        return compact(block.problem, block.data, rows, self._passes * math.ceil(most / max(1, rows)))

    def _layers(self, block: Block, plan: Plan, engine: Engine) -> FirstLayer | None:
        """The parts of the model, where clients train all of it on sparse rows."""
        if not engine.layered or not (self.free or plan.trained is None):
            return None
        few = sparse.trainable(block.problem, block.data)
        return few if few is not None and chained(few.rest) else None

    def _linear(self, block: Block, plan: Plan, engine: Engine) -> FirstLayer | None:
        """The parts of the model, where its one layer is linear and reads dense rows."""
        if not engine.layered or not (self.free or plan.trained is None):
            return None
        return span.takes(block.problem, block.data)

    def _balanced(self, block: Block, plan: Plan) -> list[Tensor] | None:
        """Of each client the positions of the rows that it trains on, where these are not all."""
        if self.balance == "none":
            return None
        return [self._kept(block, place, plan.round) for place in range(len(block))]

    def _grouped(self, block: Block, plan: Plan, kept: list[Tensor] | None, engine: Engine) -> Updates:
        """Clients whose batches have the same sizes train together."""
        random = traits(block.problem.model, block.data.inputs).random
        if kept is None and not random and bool((block.sizes == block.sizes[0]).all()):
            return self._train(block, plan, kept, engine)
        sizes = block.sizes.tolist() if kept is None else [len(rows) for rows in kept]
        # Clients whose batches have the same sizes train together; within the span of their rows those that are filled
        # up to as many: how a client trains depends on nobody else. Each alone if the model draws random numbers.
        held, line = block.sizes.tolist(), self._linear(block, plan, engine)
        spans = {count: span.filled(count) if line is not None and count <= span.MOST else 0 for count in set(held)}
        pairs, keys = list(zip(sizes, held, strict=True)), {}
        for count, own in set(pairs):
            used = 0 if spans[own] and kept is None and self._whole(count) else self._used(count)
            keys[count, own] = used, self._whole(count), spans[own]
        if len(set(keys.values())) == 1 and not random and sizes[0]:
            return self._train(block, plan, kept, engine)
        groups: dict[tuple[int, bool, int], list[int]] = {}
        for place, pair in enumerate(pairs):
            groups.setdefault((place, False, 0) if random else keys[pair], []).append(place)
        parts = []
        for _, places in sorted(groups.items()):
            if not sizes[places[0]]:
                continue
            some = None if kept is None else [kept[place] for place in places]
            draw = int(block.draws.generator(places[0], "dropout", plan.round).integers(2**63)) if random else 0
            with seeded(draw) if random else nullcontext():
                parts.append((places, self._train(block.pick(places), plan, some, engine)))
        size = (plan.weights if plan.live is None else plan.live).numel()
        return Grouped(tuple(parts), len(block), size)

    def _train(self, block: Block, plan: Plan, kept: list[Tensor] | None, engine: Engine) -> Updates:
        """Clients whose batches have the same sizes: all rows of each, or drawn ones. `kept`: of these rows alone."""
        first = int(block.sizes[0]) if kept is None else len(kept[0])
        if self._whole(first):
            order, size, steps = None if kept is None else torch.stack(kept).unsqueeze(1), first, self._passes
        else:
            sizes = block.sizes.tolist() if kept is None else [len(rows) for rows in kept]
            drawn = [self._order(block.draws, place, count, plan.round) for place, count in enumerate(sizes)]
            if kept is not None:
                drawn = [rows[places] for rows, places in zip(kept, drawn, strict=True)]
            order = torch.stack(drawn)
            assert self.batch is not None
            size = self.batch
            steps = self._passes * math.ceil(order.shape[2] / size)
        trained = None if self.free else plan.trained
        layer = self._linear(block, plan, engine)
        if layer is not None and int(block.sizes[0]) <= span.MOST:
            line = span.train(layer, block, plan.weights, order, size, steps, self.rate, engine.memory)
            return line.at(plan.live)
        found = descend(block, plan.weights, trained, order, size, steps, self.rate, engine)
        if plan.live is None:
            return found
        return Rows(plan.reported(found.rows()) if trained is plan.trained else found.rows()[:, plan.live])

    @property
    def _passes(self) -> int:
        """How often rows are drawn: for each step, or for each epoch."""
        return (self.steps or 0) + (self.epochs or 0)

    def _whole(self, count: int) -> bool:
        """Whether a client with so many rows takes all of them in every step."""
        return self.batch is None or count <= self.batch

    def _used(self, count: int) -> int:
        """How many of a client's rows a pass goes over."""
        return count if self.batch is None or self.epochs is not None else min(count, self.batch)

    def _kept(self, block: Block, place: int, round: int) -> Tensor:
        """Positions among the client's rows with as many of each class."""
        classes = labels(block.data.targets[block.rows(place)])
        rng = block.draws.generator(place, "downsampling", round)
        return torch.from_numpy(downsample(np.arange(len(classes)), classes, rng))

    def _order(self, draws: Draws, place: int, count: int, round: int) -> Tensor:
        """Positions among the client's `count` rows: (steps, batch), or (epochs, count)."""
        rng = draws.generator(place, "batch", round)
        order = rng.permuted(np.tile(np.arange(count), (self._passes, 1)), axis=1)
        return torch.from_numpy(order[:, : self._used(count)].copy())
