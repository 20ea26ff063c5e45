"""Canary records: with a wrong label, in the training or left out of it."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hush.audit.bounds import Floats
from hush.audit.canaries import FEWEST
from hush.audit.onerun import Coins, Scored
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.models.outputs import outputs
from hush.models.weights import loaded
from hush.random.seeds import PublicSeed


@dataclass(frozen=True, eq=False)
class CanaryRecords:
    """Some records of a task that get a wrong label, or are taken away: by a coin. `task` is what is trained on."""

    task: Task
    rows: Tensor
    labels: Tensor
    included: Coins

    attack: ClassVar[str] = "canary records"
    assumes: ClassVar[str | None] = "how many records a client has left does not show who is away"
    watched: ClassVar[bool] = False

    @property
    def note(self) -> str:
        """For the card."""
        return (
            f"{len(self.rows)} records are canaries of the audit: one half has a wrong label, the other half is left"
            " out of the training"
        )

    def trained(self, task: Task) -> Task:
        """What is trained on: the task with these records in it."""
        return self.task

    def trainer(self, scheme: Scheme) -> None:
        """The scheme's own: the records are in the task."""

    def scored(self, seen: Floats, weights: Tensor) -> Scored:
        """By the last weights."""
        return Scored(self.scores(weights), self.included)

    @classmethod
    def of(cls, task: Task, count: int, seed: int) -> "CanaryRecords":
        """So many, of clients that keep at least one record."""
        targets = task.train.targets
        classes = torch.from_numpy(np.unique(targets.numpy()))
        if targets.is_floating_point() or targets.dim() != 1 or len(classes) < 2:
            raise Mistake("canary records need labels of two classes or more: this task has others")
        if task.split.shared:
            raise Mistake("a canary is one record of one client, and rows of this split have several: audit without")
        rng, split = PublicSeed(seed).generator("canary records"), task.split
        owner = torch.repeat_interleave(torch.arange(len(split)), split.sizes)
        order = torch.from_numpy(rng.permutation(len(owner)))
        kept, chosen = split.sizes.clone(), list[int]()
        for place in order.tolist():
            if len(chosen) < count and int(kept[owner[place]]) > 1:
                kept[owner[place]] -= 1
                chosen.append(place)
        if len(chosen) < count or count < FEWEST:
            raise Mistake(f"canaries={count} must be from {FEWEST} to the {len(chosen)} records that clients can spare")
        places = torch.tensor(chosen)
        rows = split.rows[places]
        shift = torch.from_numpy(rng.integers(1, len(classes), count))
        labels = classes[(torch.searchsorted(classes, targets[rows]) + shift) % len(classes)]
        included = rng.random(count) < 0.5
        changed = targets.clone()
        changed[rows[included]] = labels[included]
        gone = torch.zeros(len(owner), dtype=torch.bool)
        gone[places[~torch.from_numpy(included)]] = True
        parts = [split.rows[s:e][~gone[s:e]] for s, e in zip(split.starts[:-1], split.starts[1:], strict=True)]
        left = replace(Split.of(parts), shared=split.shared)
        trained = Task(
            task.model,
            task.loss,
            Samples(task.train.inputs, changed),
            left,
            task.test,
            task.public,
            task.metrics,
            task.featured,
        )
        return cls(trained, rows, labels, included)

    def scores(self, weights: Tensor) -> Floats:
        """The negative loss of each canary."""
        model = loaded(self.task.model, weights).eval()
        found = torch.cat(list(outputs(model, self.task.train.rows(self.rows).inputs)))
        with torch.no_grad():
            losses = [self.task.loss(found[n : n + 1], self.labels[n : n + 1]) for n in range(len(self.labels))]
        return -torch.stack(losses).double().numpy()
