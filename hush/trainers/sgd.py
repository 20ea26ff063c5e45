"""Plain stochastic gradient descent at the clients (the first paper's Algorithms 2 and 5)."""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hush.errors import Mistake
from hush.rng import SecretSeed
from hush.spec import Members
from hush.task import Task
from hush.trainers.cohort import Engine, descend
from hush.trainers.traits import seeded, traits


@dataclass(frozen=True)
class Sgd:
    """`steps` iterations w <- w - rate * grad f(batch; w), no momentum; the update is w - w_{t-1}.

    Each batch holds `batch` rows drawn without replacement from the client's own (all of them where it
    has no more). With `free`, every weight trains and only the live ones are reported; without, the
    others stay at the values that the round began with.
    """

    rate: float
    steps: int
    batch: int
    free: bool = False

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise Mistake(f"rate={self.rate} must be positive")
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise Mistake(f"{name}={getattr(self, name)} must be at least 1")

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
        held = task.split.sizes_of(clients)
        groups: dict[tuple[int, bool], list[int]] = {}
        for place, count in enumerate(held.tolist()):
            # Clients whose batches have one size train together, each alone if the model draws random numbers,
            # so that its draws do not depend on the block.
            key = (place, False) if random else (min(count, self.batch), count <= self.batch)
            groups.setdefault(key, []).append(place)
        if len(groups) == 1 and not random:
            return self._train(task, weights, live, clients, secret, round, engine)
        updates = weights.new_empty(len(clients), weights.numel() if live is None else live.numel())
        for _, places in sorted(groups.items()):
            members = clients[places]
            draw = int(secret.generator("dropout", round, int(members[0])).integers(2**63)) if random else 0
            with seeded(draw) if random else nullcontext():
                updates[places] = self._train(task, weights, live, members, secret, round, engine)
        return updates

    def _train(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        secret: SecretSeed,
        round: int,
        engine: Engine,
    ) -> Tensor:
        """Clients whose batches have one size: all rows of each, or as many drawn ones."""
        sizes = task.split.sizes_of(clients)
        size, order = min(int(sizes[0]), self.batch), None
        if int(sizes.max()) > size:
            pairs = zip(clients.tolist(), sizes.tolist(), strict=True)
            order = torch.stack([self._order(client, count, secret, round) for client, count in pairs])
        trained = None if self.free else live
        found = descend(task, weights, trained, clients, order, size, self.steps, self.rate, engine)
        return found if trained is live else found[:, live]

    def _order(self, client: int, count: int, secret: SecretSeed, round: int) -> Tensor:
        """Positions of each step's batch among the client's `count` rows: (steps, batch)."""
        rng = secret.generator("batch", round, client)
        order = rng.permuted(np.tile(np.arange(count), (self.steps, 1)), axis=1)
        return torch.from_numpy(order[:, : self.batch].copy())
