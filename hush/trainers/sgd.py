"""Plain stochastic gradient descent at the clients (the first paper's Algorithms 2 and 5)."""

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hush.errors import Mistake
from hush.rng import SecretSeed
from hush.spec import Members
from hush.task import Task
from hush.trainers.balance import Balance, downsample, labels
from hush.trainers.cohort import Engine, descend
from hush.trainers.traits import seeded, traits


@dataclass(frozen=True)
class Sgd:
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
        """The updates of the live coordinates, one row per client."""
        random = traits(task.model, task.train.inputs).random
        kept = None
        if self.balance == "downsample":
            kept = [self._kept(task, int(client), secret, round) for client in clients]
        sizes = task.split.sizes_of(clients).tolist() if kept is None else [len(rows) for rows in kept]
        groups: dict[tuple[int, bool], list[int]] = {}
        for place, count in enumerate(sizes):
            # Clients whose batches have the same sizes train together, each alone if the model draws random
            # numbers, so that its draws do not depend on the block.
            key = (place, False) if random else (self._used(count), self._whole(count))
            groups.setdefault(key, []).append(place)
        if len(groups) == 1 and not random and sizes[0]:
            return self._train(task, weights, live, clients, kept, secret, round, engine)
        updates = weights.new_zeros(len(clients), weights.numel() if live is None else live.numel())
        for _, places in sorted(groups.items()):
            if not sizes[places[0]]:
                continue
            members, some = clients[places], None if kept is None else [kept[place] for place in places]
            draw = int(secret.generator("dropout", round, int(members[0])).integers(2**63)) if random else 0
            with seeded(draw) if random else nullcontext():
                updates[places] = self._train(task, weights, live, members, some, secret, round, engine)
        return updates

    def _train(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        kept: list[Tensor] | None,
        secret: SecretSeed,
        round: int,
        engine: Engine,
    ) -> Tensor:
        """Clients whose batches have the same sizes: all rows of each, or drawn ones. `kept`: of these rows alone."""
        sizes = task.split.sizes_of(clients).tolist() if kept is None else [len(rows) for rows in kept]
        if self._whole(sizes[0]):
            order, size, steps = None if kept is None else torch.stack(kept).unsqueeze(1), sizes[0], self._passes
        else:
            pairs = zip(clients.tolist(), sizes, strict=True)
            drawn = [self._order(client, count, secret, round) for client, count in pairs]
            if kept is not None:
                drawn = [rows[places] for rows, places in zip(kept, drawn, strict=True)]
            order = torch.stack(drawn)
            assert self.batch is not None
            size = self.batch
            steps = self._passes * math.ceil(order.shape[2] / size)
        trained = None if self.free else live
        found = descend(task, weights, trained, clients, order, size, steps, self.rate, engine)
        return found if trained is live else found[:, live]

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

    def _kept(self, task: Task, client: int, secret: SecretSeed, round: int) -> Tensor:
        """Positions among the client's rows with as many of each class."""
        classes = labels(task.train.targets[task.split.rows_of(client)])
        rng = secret.generator("downsampling", round, client)
        return torch.from_numpy(downsample(np.arange(len(classes)), classes, rng))

    def _order(self, client: int, count: int, secret: SecretSeed, round: int) -> Tensor:
        """Positions among the client's `count` rows: (steps, batch), or (epochs, count)."""
        rng = secret.generator("batch", round, client)
        order = rng.permuted(np.tile(np.arange(count), (self._passes, 1)), axis=1)
        return torch.from_numpy(order[:, : self._used(count)].copy())
