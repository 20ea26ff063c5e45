"""Which weights train and travel."""

import itertools
import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from hush.errors import Mistake
from hush.rng import PublicSeed, SecretSeed
from hush.spec import Members
from hush.stages import Clip, Noise, Stage
from hush.task import Task
from hush.trainers import Engine, Trainer
from hush.trainers.traits import seeded, traits
from hush.trainers.vmapped import gradients
from hush.weights import Layout, flatten


class Coordinates(Protocol):
    """A rule that picks the live coordinates of a round.

    `fixed`: one set for the whole training, so that only these travel down as well. `derivable`: every
    client finds the set from public data and seed, so that the set itself never travels.
    """

    @property
    def fixed(self) -> bool: ...
    @property
    def derivable(self) -> bool: ...

    def check(self, task: Task) -> None:
        """Refuse, before any training, a task that this rule cannot work on."""
        ...

    def count(self, layout: Layout) -> int:
        """How many coordinates are live."""
        ...

    def draw(self, task: Task, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor | None:
        """The sorted live coordinates; None is all of them."""
        ...

    def election(self, layout: Layout) -> tuple[Trainer, tuple[Stage, ...]] | None:
        """The round before the first in which the clients vote on the set, if there is one."""
        ...


def sent_down(coordinates: Coordinates, live: Tensor | None) -> Tensor | slice:
    """Which weights travel down: the live ones where they stay the same, else all."""
    return live if live is not None and coordinates.fixed else slice(None)


@dataclass(frozen=True)
class All:
    """Every weight."""

    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = True

    def check(self, task: Task) -> None:
        """Any task will do."""

    def count(self, layout: Layout) -> int:
        """All of them."""
        return layout.parameters

    def draw(self, task: Task, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor | None:
        """None: all."""
        return None

    def election(self, layout: Layout) -> None:
        """No vote."""


@dataclass(frozen=True)
class RandomK:
    """K = floor(ratio * n) coordinates drawn from the public seed; `fresh` draws a new set each round."""

    ratio: float
    fresh: bool
    derivable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    @property
    def fixed(self) -> bool:
        """One set for the whole training."""
        return not self.fresh

    def check(self, task: Task) -> None:
        """At least one coordinate."""
        self.count(task.layout)

    def count(self, layout: Layout) -> int:
        """K = floor(ratio * n)."""
        return _count(self.ratio, layout.parameters)

    def draw(self, task: Task, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The round's set, or the one set."""
        size = task.layout.parameters
        rng = seed.generator("coordinates", round if self.fresh else 0)
        chosen = rng.choice(size, self.count(task.layout), replace=False, shuffle=False)
        return torch.from_numpy(chosen).sort().values

    def election(self, layout: Layout) -> None:
        """No vote."""


@dataclass(frozen=True)
class TopK:
    """The K = floor(ratio * n) coordinates of largest accumulated |gradient| on one public batch.

    `steps` (T_init) SGD iterations from w_0 on the batch; the weights move as SGD moves them (Alg. 1, U 4).
    """

    ratio: float
    rate: float
    steps: int
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def check(self, task: Task) -> None:
        """At least one coordinate, and a public batch."""
        self.count(task.layout)
        if task.public is None:
            raise Mistake("TopK needs a public batch to choose its coordinates: name one, or let clients vote")

    def count(self, layout: Layout) -> int:
        """K = floor(ratio * n)."""
        return _count(self.ratio, layout.parameters)

    def draw(self, task: Task, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The same set for every client and round."""
        self.check(task)
        assert task.public is not None
        batch = task.public
        scores = accumulate(
            task,
            flatten(task.model),
            batch.inputs[:].unsqueeze(0),
            batch.targets.unsqueeze(0),
            self.rate,
            self.steps,
        )
        return largest(scores, self.count(task.layout))[0]

    def election(self, layout: Layout) -> None:
        """No vote."""


@dataclass(frozen=True)
class Only:
    """The weights of the named layers; of the last one that has any, without names.

    A name is a parameter's or that of a part of the model: "9" means "9.weight" and "9.bias". What stands in
    front of them is frozen, so a simulation runs it once per sample.
    """

    layers: tuple[str, ...] = ()
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = True

    def check(self, task: Task) -> None:
        """Every name is one of the model's."""
        names = task.layout.names
        for layer in self.layers:
            if not any(_within(name, layer) for name in names):
                raise Mistake(f"layer {layer!r} has no weights that train: choose from {', '.join(names)}")

    def count(self, layout: Layout) -> int:
        """The weights of these layers."""
        return sum(high - low for low, high in self._spans(layout))

    def draw(self, task: Task, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The same set for every client and round."""
        self.check(task)
        return torch.cat([torch.arange(low, high) for low, high in self._spans(task.layout)])

    def election(self, layout: Layout) -> None:
        """No vote."""

    def _spans(self, layout: Layout) -> list[tuple[int, int]]:
        sizes = {n: s.numel() for n, s in zip(layout.names, layout.shapes, strict=True) if n not in layout.buffers}
        layers = self.layers or (list(sizes)[-1].rpartition(".")[0],)
        ends = dict(zip(sizes, itertools.accumulate(sizes.values()), strict=True))
        return [(ends[n] - sizes[n], ends[n]) for n in sizes if any(_within(n, layer) for layer in layers)]


@dataclass(frozen=True)
class Vote:
    """The K coordinates that a noisy vote of one cohort chose (U 3.2.3).

    Before the first round each client of a cohort sends a 0/1 vector with ones at its own top K, as in
    TopK but on its own data. Such a vector has norm sqrt(K); noise is added in shares. The set cannot be
    derived, so it travels down with the weights.

    Guarantee: the vote is a Gaussian mechanism of multiplier `noise`, with an event of its own.
    """

    ratio: float
    rate: float
    steps: int
    batch: int
    noise: float
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def check(self, task: Task) -> None:
        """At least one coordinate."""
        self.count(task.layout)

    def count(self, layout: Layout) -> int:
        """K = floor(ratio * n)."""
        return _count(self.ratio, layout.parameters)

    def draw(self, task: Task, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The coordinates with the most votes."""
        if votes is None:
            raise Mistake("Vote draws its coordinates from a vote that was not held: the round of the vote aborted")
        size = task.layout.parameters
        return largest(votes[:size].unsqueeze(0), self.count(task.layout))[0]

    def election(self, layout: Layout) -> tuple[Trainer, tuple[Stage, ...]]:
        """The ballot, its exact bound and its noise."""
        count = self.count(layout)
        return Ballot(count, self.rate, self.steps, self.batch), (Clip(math.sqrt(count)), Noise(self.noise))


@dataclass(frozen=True)
class Ballot:
    """A client's vote: ones at its own `count` coordinates of largest accumulated |gradient|."""

    count: int
    rate: float
    steps: int
    batch: int

    def fit(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        secret: SecretSeed,
        round: int,
        engine: Engine = Engine(),
    ) -> Tensor:
        """One 0/1 row per client."""
        votes = weights.new_zeros(len(clients), weights.numel())
        for row, client in enumerate(clients):  # clients may have different numbers of rows
            rows = task.split.rows_of(int(client))
            chosen = secret.generator("ballot", int(client)).permutation(len(rows))[: self.batch]
            rows = rows[torch.from_numpy(chosen)]
            inputs, targets = task.train.inputs[rows].unsqueeze(0), task.train.targets[rows].unsqueeze(0)
            scores = accumulate(task, weights, inputs, targets, self.rate, self.steps)
            votes[row, largest(scores[:, : task.layout.parameters], self.count)[0]] = 1.0
        return votes


def accumulate(task: Task, weights: Tensor, inputs: Tensor, targets: Tensor, rate: float, steps: int) -> Tensor:
    """The sum of |gradient| per coordinate over SGD iterations on one batch, one row per client."""
    slope = gradients(task.model, task.loss, weights, None)
    values = weights.expand(len(inputs), -1).clone()
    scores = torch.zeros_like(values)
    # Dropout, if the model has any, is the same for everybody who derives the set.
    with seeded(0) if traits(task.model, inputs[0]).random else nullcontext():
        for _ in range(steps):
            grads, _ = slope(values, inputs, targets)
            scores += grads.abs()
            values -= rate * grads
    return scores


def largest(scores: Tensor, count: int) -> Tensor:
    """The sorted coordinates of the `count` largest scores of each row; ties go to the smaller one."""
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices
    return order[:, :count].sort(dim=1).values


def _within(name: str, layer: str) -> bool:
    return name == layer or layer == "" or name.startswith(f"{layer}.")


def _check_ratio(ratio: float) -> None:
    if not 0 < ratio <= 1:
        raise Mistake(f"ratio={ratio} must be in (0, 1]: the fraction of the weights that travels")


def _count(ratio: float, size: int) -> int:
    count = math.floor(ratio * size + 1e-9)
    if count < 1:
        raise Mistake(f"ratio={ratio} of {size} weights is less than one weight: raise it")
    return count
