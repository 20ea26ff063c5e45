"""Which weights train and travel."""

import itertools
import math
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.protocols import Coordinates, Parts, Stage, Trainer, named
from hush.core.spec import Plan
from hush.core.task import Block, Problem, Registered
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models.traits import seeded, traits
from hush.models.weights import Layout, flatten
from hush.parts.stages import Clip, Noise
from hush.parts.trainers import alone
from hush.parts.trainers.vmapped import gradients, takes
from hush.random.seeds import PublicSeed

SHOWN = 12  # names that a sentence lists


@dataclass(frozen=True)
class RandomK(Coordinates):
    """K = floor(ratio * n) coordinates drawn from the public seed; `fresh` draws a new set each round."""

    settings: ClassVar[tuple[str, ...]] = ("ratio",)

    ratio: float
    fresh: bool
    derivable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    @property
    def fixed(self) -> bool:
        """One set for the whole training."""
        return not self.fresh

    def check(self, scheme: Parts, task: Registered) -> None:
        """At least one coordinate."""
        self.count(task.layout)

    def count(self, layout: Layout) -> int:
        """K = floor(ratio * n)."""
        return _count(self.ratio, layout.parameters)

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The round's set, or the one set."""
        size = problem.layout.parameters
        rng = seed.generator("coordinates", round if self.fresh else 0)
        chosen = rng.choice(size, self.count(problem.layout), replace=False, shuffle=False)
        return torch.from_numpy(chosen).sort().values


@dataclass(frozen=True)
class TopK(Coordinates):
    """The K = floor(ratio * n) coordinates of largest accumulated |gradient| on one public batch.

    `steps` (T_init) SGD iterations from w_0 on the batch; the weights move as SGD moves them (Alg. 1, U 4).
    """

    settings: ClassVar[tuple[str, ...]] = ("ratio", "probe", "select")

    ratio: float
    rate: float
    steps: int
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = True
    probes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def check(self, scheme: Parts, task: Registered) -> None:
        """At least one coordinate, and a public batch."""
        self.count(task.layout)
        _public(task.problem)

    def count(self, layout: Layout) -> int:
        """K = floor(ratio * n)."""
        return _count(self.ratio, layout.parameters)

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The same set for every client and round."""
        batch = _public(problem)
        scores = accumulate(
            problem,
            flatten(problem.model),
            batch.inputs[:].unsqueeze(0),
            batch.targets.unsqueeze(0),
            self.rate,
            self.steps,
        )
        return largest(scores, self.count(problem.layout))[0]


@dataclass(frozen=True)
class Only(Coordinates):
    """The weights of the named layers; of the last one that has any, without names.

    A name is a parameter's or that of a part of the model: "9" means "9.weight" and "9.bias". It may be a pattern:
    "*lora*" means all whose names have lora in them, "blocks.?.norm" the norms of the first ten blocks. What stands in
    front of them is frozen, so a simulation runs it once per sample.
    """

    layers: tuple[str, ...] | str = ()
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.layers, str):  # Only("*lora*")
            object.__setattr__(self, "layers", (self.layers,))

    def check(self, scheme: Parts, task: Registered) -> None:
        """Every name is one of the model's."""
        self._known(task.layout)

    def count(self, layout: Layout) -> int:
        """The weights of these layers."""
        return sum(high - low for low, high in self._spans(layout))

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The same set for every client and round."""
        self._known(problem.layout)
        return torch.cat([torch.arange(low, high) for low, high in self._spans(problem.layout)])

    def _known(self, layout: Layout) -> None:
        for layer in self.layers:
            if not any(_within(name, layer) for name in layout.names):
                more = f", ... ({len(layout.names)} in all)" if len(layout.names) > SHOWN else ""
                names = ", ".join(layout.names[:SHOWN]) + more
                raise Mistake(f"layer {layer!r} has no weights that train: choose from {names}")

    def _spans(self, layout: Layout) -> list[tuple[int, int]]:
        sizes = {n: s.numel() for n, s in zip(layout.names, layout.shapes, strict=True) if n not in layout.buffers}
        layers = self.layers or (list(sizes)[-1].rpartition(".")[0],)
        ends = dict(zip(sizes, itertools.accumulate(sizes.values()), strict=True))
        return [(ends[n] - sizes[n], ends[n]) for n in sizes if any(_within(n, layer) for layer in layers)]


@dataclass(frozen=True)
class Vote(Coordinates):
    """The K coordinates that a noisy vote of one cohort chose (U 3.2.3).

    Before the first round each client of a cohort sends a 0/1 vector with ones at its own top K, as in
    TopK but on its own data. Such a vector has norm sqrt(K); noise is added in shares. The set cannot be
    derived, so it travels down with the weights.

    Guarantee: the vote is a Gaussian mechanism of multiplier `noise`, with an event of its own.
    """

    settings: ClassVar[tuple[str, ...]] = ("ratio", "probe", "select")

    ratio: float
    rate: float
    steps: int
    batch: int
    noise: float
    fixed: ClassVar[bool] = True
    derivable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_ratio(self.ratio)

    def check(self, scheme: Parts, task: Registered) -> None:
        """At least one coordinate; noise on the updates too, and cohorts at random that are not hidden in a sum."""
        self.count(task.layout)
        if not scheme.private:
            raise Mistake("a noisy vote does not protect updates without noise: add Clip and Noise, or take TopK")
        if scheme.sampling.turns is not None:
            name = f"{named(scheme.sampling)}(...)"
            raise Mistake(f"a vote on the coordinates would be one turn more for each client: take TopK with {name}")
        if scheme.secure:
            raise Mistake("a vote on the coordinates is not held in integers: take TopK with a public batch")

    def count(self, layout: Layout) -> int:
        """K = floor(ratio * n)."""
        return _count(self.ratio, layout.parameters)

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The coordinates with the most votes."""
        if votes is None:
            raise Mistake("Vote draws its coordinates from a vote that was not held: the round of the vote aborted")
        size = problem.layout.parameters
        return largest(votes[:size].unsqueeze(0), self.count(problem.layout))[0]

    def election(self, layout: Layout) -> tuple[Trainer, tuple[Stage, ...]]:
        """The ballot, its exact bound and its noise."""
        count = self.count(layout)
        return Ballot(count, self.rate, self.steps, self.batch), (Clip(math.sqrt(count)), Noise(self.noise))


@dataclass(frozen=True)
class Ballot(Trainer):
    """A client's vote: ones at its own `count` coordinates of largest accumulated |gradient|."""

    count: int
    rate: float
    steps: int
    batch: int

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """One 0/1 row per client."""
        problem, weights = block.problem, plan.weights
        votes = weights.new_zeros(len(block), weights.numel())
        for place in range(len(block)):  # clients may have different numbers of rows
            rows = block.rows(place)
            chosen = block.draws.generator(place, "ballot").permutation(len(rows))[: self.batch]
            rows = rows[torch.from_numpy(chosen)]
            inputs, targets = block.data.inputs[rows].unsqueeze(0), block.data.targets[rows].unsqueeze(0)
            scores = accumulate(problem, weights, inputs, targets, self.rate, self.steps)
            votes[place, largest(scores[:, : problem.layout.parameters], self.count)[0]] = 1.0
        return votes


def accumulate(problem: Problem, weights: Tensor, inputs: Tensor, targets: Tensor, rate: float, steps: int) -> Tensor:
    """The sum of |gradient| per coordinate over SGD iterations on one batch, one row per client."""
    fits = takes(problem.model, problem.loss, weights, inputs[:1, :2], targets[:1, :2])
    slope = (gradients if fits else alone.gradients)(problem.model, problem.loss, weights, None)
    values = weights.expand(len(inputs), -1).clone()
    scores = torch.zeros_like(values)
    # Dropout, if the model has any, is the same for everybody who derives the set.
    with seeded(0) if traits(problem.model, inputs[0]).random else nullcontext():
        for _ in range(steps):
            grads, _ = slope(values, inputs, targets)
            scores += grads.abs()
            values -= rate * grads
    return scores


def largest(scores: Tensor, count: int) -> Tensor:
    """The sorted coordinates of the `count` largest scores of each row; ties go to the smaller one."""
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices
    return order[:, :count].sort(dim=1).values


def _public(problem: Problem) -> Samples:
    if problem.public is None:
        raise Mistake("TopK needs a public batch to choose its coordinates: name one, or let clients vote")
    return problem.public


def _within(name: str, layer: str) -> bool:
    """Whether a parameter is the one of this name or pattern, or in the part of the model that is."""
    return layer == "" or fnmatchcase(name, layer) or fnmatchcase(name, f"{layer}.*")


def _check_ratio(ratio: float) -> None:
    if not 0 < ratio <= 1:
        raise Mistake(f"ratio={ratio} must be in (0, 1]: the fraction of the weights that travels")


def _count(ratio: float, size: int) -> int:
    count = math.floor(ratio * size + 1e-9)
    if count < 1:
        raise Mistake(f"ratio={ratio} of {size} weights is less than one weight: raise it")
    return count
