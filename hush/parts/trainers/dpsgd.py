"""Stochastic gradient descent that protects each record (the second paper's Algorithms 6 and 7)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.protocols import Parts, Sampling, Trainer
from hush.core.spec import Lengths, Plan
from hush.core.task import Block, Registered
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models import single
from hush.models.traits import seeded, traits
from hush.parts.trainers.balance import Balance, Places, downsample, labels
from hush.parts.trainers.clipped import ClippedRecords
from hush.parts.trainers.once import known
from hush.privacy.events import Event, Level

Divisor = Literal["public", "drawn"]
UNBOUNDED = 2.0**100  # a clip that clips no gradient


@dataclass(frozen=True)
class Dpsgd(Trainer):
    """`steps` iterations w <- w - rate/d * (sum of clipped gradients + N(0, (S sigma)^2)).

    clip, noise   S, the norm that a record's gradient is cut to, and sigma.
    sampling      poisson: each of the client's |D_k| records is in a batch with probability min(1, batch/|D_k|), by
    itself.
                  fixed: `batch` records without replacement (all, where there are no more).
    balance       how two classes, 0 and the rarer 1, get equal say. `share` is the public share of class 1.
                  downsample: within a batch both classes are cut to the size of the smaller one (Algorithm 7).
                  weights: a record's loss counts 1/(2 share), or 1/(2 (1 - share)), before it is clipped.
                  rates: class 1 comes with probability batch/(2 share |D_k|), class 0 with batch/(2 (1 - share) |D_k|).
    divisor       public: d is the expected size of a batch, whatever was drawn: `batch`, or 2 share batch with
                  downsampling. drawn: d is the size of the batch at hand after balancing, as in Algorithm 6, and 1
                  for an empty one. That size is a fact about the records that no noise covers: see `uncovered`.

    Guarantee: with Poisson batches, each iteration is a Gaussian mechanism of multiplier noise/reach for adding or
    removing one record, which is in the batch with at most `probability`. With fixed batches the same holds for
    replacing one record, which moves the sum twice as far. An empty batch gets its noise like any other. The numbers of
    the clients' records, `share` and the model are public. With a drawn divisor what is released is a noisy sum over a
    size that depends on the records: the guarantee stands only on the assumption that the sizes reveal nothing of them,
    but for fixed batches without downsampling, whose size follows from the number of records.
    """

    settings: ClassVar[tuple[str, ...]] = ("rate", "steps", "batch", "clip", "balance", "share", "batches", "divisor")

    rate: float
    steps: int
    batch: int
    clip: float
    noise: float
    sampling: Literal["poisson", "fixed"] = "poisson"
    balance: Balance = "none"
    share: float | None = None
    divisor: Divisor = "public"
    level: ClassVar[Level] = "record"

    def __post_init__(self) -> None:
        for name in ("rate", "clip", "noise"):
            if not 0 < getattr(self, name) < math.inf:
                raise Mistake(f"{name}={getattr(self, name)} must be positive and finite")
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise Mistake(f"{name}={getattr(self, name)} must be at least 1")
        if self.sampling not in ("poisson", "fixed"):
            raise Mistake(f"sampling={self.sampling!r} is not known: draw batches by poisson or fixed")
        if self.balance not in ("none", "downsample", "weights", "rates"):
            raise Mistake(f"balance={self.balance!r} is not known: choose none, downsample, weights or rates")
        if self.balance == "rates" and self.sampling == "fixed":
            raise Mistake("balance='rates' needs sampling='poisson': a fixed batch has no rate for each class")
        if self.divisor not in ("public", "drawn"):
            raise Mistake(f"divisor={self.divisor!r} is not known: choose public or drawn")
        if self.share is None and self.balance != "none":
            raise Mistake(f"balance={self.balance!r} needs the public share of the rarer class: give share")
        if self.share is not None and not 0 < self.share <= 0.5:
            raise Mistake(f"share={self.share} must lie above 0 and up to 0.5: the public share of the rarer class")
        # Float32 would turn such noise to nothing, or to infinity.
        for divisor in (self.expected,) if self.divisor == "public" else (self.expected, 1.0):
            moved = self.deviation(divisor)
            if not 2.0**-120 < moved < 2.0**120:
                raise Mistake(f"noise={self.noise} at clip={self.clip} moves weights by {moved:g}: scale the rate")

    @property
    def reach(self) -> int:
        """How far one record, added or removed, moves a clipped sum, in units of S.

        2 with downsampling: a record of the smaller class brings a partner of the other class into the batch, and
        one of the larger class may take another's place there. Either way two clipped gradients change.
        """
        return 2 if self.balance == "downsample" else 1

    @property
    def expected(self) -> float:
        """The expected size of a batch after balancing, by the public share."""
        return 2 * (self.share or 0.5) * self.batch if self.balance == "downsample" else float(self.batch)

    @property
    def uncovered(self) -> str | None:
        """What is used of the records that no noise covers, in words."""
        if self.divisor == "public" or (self.sampling == "fixed" and self.balance != "downsample"):
            return None
        balanced = " after balancing" if self.balance == "downsample" else ""
        return f"the size of each batch{balanced}, by which its noisy sum is divided"

    def deviation(self, divisor: float) -> float:
        """How far the noise of one iteration moves a weight."""
        return self.rate / divisor * self.clip * self.noise

    def probability(self, sizes: Tensor) -> Tensor:
        """The largest probability of a record to be in a batch, for clients with so many records."""
        wanted = self.batch / (2 * (self.share or 0.5)) if self.balance == "rates" else float(self.batch)
        return (wanted / sizes.double()).clamp(max=1.0)

    def event(self, round: int, sampling: Sampling, task: Registered, label: str = "update") -> Event:
        """What a round releases of one record, where clients are drawn by `sampling`."""
        return Event(
            round,
            noise=self.noise,
            share=self.noise,
            rate=sampling.rate(task.clients),
            sampling=sampling.kind,
            label=label,
            level="record",
            steps=self.steps,
            batch=float(self.probability(task.sizes).max()),
            reach=self.reach,
            batches=self.sampling,
        )

    def shortest(self) -> "Dpsgd":
        """One iteration: each is a release of its own."""
        return replace(self, steps=1)

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse, before anything is charged, what bounds no record's part: some models, shared rows; wrong labels.

        And a loss of which a record's part depends on the others, which no record by itself has.
        """
        known(task.problem, task.rows)
        single.check(task.problem, task.rows)
        if task.shared:
            raise Mistake(
                "rows that several clients hold are charged once for each of them, which Dpsgd does not count:"
                " give each row to one client, or protect clients by Clip and Noise"
            )
        if self.balance != "none":
            labels(task.rows.targets)

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """The updates of the live coordinates, one row per client; gradients, norms and noise are over these alone."""
        if engine.device != "cpu":
            raise Mistake(f"device={engine.device!r} is not for records: DP-SGD runs on the CPU")
        problem, data = block.problem, block.data
        records = ClippedRecords(problem.model, problem.loss, data, plan.live, known(problem, data))
        if not traits(problem.model, data.inputs).random:
            return self._train(records, block, plan)
        updates = []
        for place in range(len(block)):  # each by itself, so that its draws do not depend on the block
            with seeded(int(block.draws.generator(place, "dropout", plan.round).integers(2**63))):
                updates.append(self._train(records, block.pick([place]), plan))
        return torch.cat(updates)

    def lengths(self, block: Block, plan: Plan) -> Lengths:
        """The norms of the records' gradients at these weights, as the clip meets them."""
        problem, data, norms = block.problem, block.data, []
        records = ClippedRecords(problem.model, problem.loss, data, plan.live, known(problem, data))
        with seeded(0):
            for one in torch.cat(
                [block.rows(place) for place in range(len(block))]
            ).tolist():  # one takes little memory
                row = torch.tensor([one])
                found = plan.weights.new_zeros(1, plan.weights.numel() if plan.live is None else plan.live.numel())
                records.add(found, plan.weights, data, row, [1], UNBOUNDED, [1.0], self._scales(data, row))
                norms.append(torch.linalg.vector_norm(found, dtype=torch.float64))
        return Lengths(torch.stack(norms), self.clip)

    def _train(self, records: ClippedRecords, block: Block, plan: Plan) -> Tensor:
        weights, live, data = plan.weights, plan.live, block.data
        draws = [self._batches(block, place, plan.round) for place in range(len(block))]
        moved = weights.new_zeros(len(block), weights.numel() if live is None else live.numel())
        for step in range(self.steps):
            batches = [draw[step] for draw in draws]
            if step == 0:  # all clients are at the same weights: one pass serves them
                self._descend(records, data, weights, batches, moved)
            else:
                for place, batch in enumerate(batches):
                    self._descend(records, data, _at(weights, live, moved[place]), [batch], moved[place, None])
            if self.divisor == "public":
                block.draws.add_normals(moved, self.deviation(self.expected), "dpsgd", plan.round, step)
                continue
            for place, batch in enumerate(batches):
                noise = block.draws.pick([place])
                noise.add_normals(moved[place, None], self.deviation(self._divisor(batch)), "dpsgd", plan.round, step)
        return moved

    def _divisor(self, batch: Tensor) -> float:
        return self.expected if self.divisor == "public" else float(max(1, len(batch)))

    def _descend(
        self, records: ClippedRecords, data: Samples, weights: Tensor, batches: list[Tensor], moved: Tensor
    ) -> None:
        """One iteration without its noise, for clients that are at these weights."""
        rows = torch.cat(batches)
        counts = [len(batch) for batch in batches]
        alphas = [-self.rate / self._divisor(batch) for batch in batches]
        records.add(moved, weights, data, rows, counts, self.clip, alphas, self._scales(data, rows))

    def _scales(self, data: Samples, rows: Tensor) -> Tensor | None:
        """What each of these rows' losses counts, where they are weighed."""
        if self.balance != "weights":
            return None
        share = torch.tensor([1 - (self.share or 0.5), self.share or 0.5], dtype=torch.float64)
        return (0.5 / share)[data.targets[rows]]

    def _batches(self, block: Block, place: int, round: int) -> list[Tensor]:
        """The rows of each iteration's batch."""
        rows, rng = block.rows(place), block.draws.generator(place, "records", round)
        classes = labels(block.data.targets[rows]) if self.balance != "none" else None
        return [rows[torch.from_numpy(self._draw(len(rows), classes, rng))] for _ in range(self.steps)]

    def _draw(self, count: int, classes: Places | None, rng: np.random.Generator) -> Places:
        """Positions among a client's `count` records; `classes` are 0 and 1, needed to balance."""
        if self.sampling == "fixed":
            picked = rng.choice(count, min(self.batch, count), replace=False, shuffle=False)
        else:
            probability: npt.NDArray[np.float64] | float = self.batch / count
            if self.balance == "rates" and classes is not None:
                share = self.share or 0.5
                probability = probability * np.array([0.5 / (1 - share), 0.5 / share])[classes]
            picked = np.flatnonzero(rng.random(count) < probability)
        if self.balance == "downsample" and classes is not None:
            picked = downsample(picked, classes, rng)
        return picked.astype(np.int64)


def _at(weights: Tensor, live: Tensor | None, moved: Tensor) -> Tensor:
    """The weights of a client that has moved so far."""
    return weights + moved if live is None else weights.index_add(0, live, moved)
