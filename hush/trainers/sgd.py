"""Plain stochastic gradient descent at the clients (the first paper's Algorithms 2 and 5)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from hush.errors import Mistake
from hush.rng import SecretSeed
from hush.spec import Members
from hush.task import Task
from hush.trainers.gradients import gradients


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
    ) -> Tensor:
        """The updates of the live coordinates, one row per client."""
        width = weights.numel() if live is None else live.numel()
        updates = weights.new_empty(len(clients), width)
        sizes = task.split.sizes[torch.from_numpy(clients)].clamp(max=self.batch)
        # Clients whose batches have one size train together; each alone if dropout draws, so that its
        # draws do not depend on the block.
        alone = any(isinstance(module, _DropoutNd) and module.p > 0 for module in task.model.modules())
        groups = torch.arange(len(clients)) if alone else sizes
        for group in sorted(set(groups.tolist())):
            rows = (groups == group).nonzero().squeeze(1)
            size = int(sizes[rows[0]])
            updates[rows] = self._train(task, weights, live, clients[rows.numpy()], size, secret, round)
        return updates

    def _train(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        size: int,
        secret: SecretSeed,
        round: int,
    ) -> Tensor:
        trained = None if self.free else live
        start = weights if trained is None else weights[trained]
        values = start.expand(len(clients), -1).clone()
        batches = torch.stack([self._batches(task, int(k), size, secret, round) for k in clients])
        slope = gradients(task, weights, trained)
        with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
            draw = secret.generator("dropout", round, int(clients[0])).integers(2**63)
            torch.manual_seed(int(draw))
            for step in range(self.steps):
                rows = batches[:, step]
                grads, buffers = slope(values, task.train.inputs[rows], task.train.targets[rows])
                values -= self.rate * grads
                if trained is None and buffers.shape[1]:
                    values[:, task.layout.parameters :] = buffers
        values -= start
        return values if trained is live else values[:, live]

    def _batches(self, task: Task, client: int, size: int, secret: SecretSeed, round: int) -> Tensor:
        """Row numbers of each step's batch: (steps, size)."""
        rows = task.split.rows_of(client)
        if len(rows) == size:
            return rows.expand(self.steps, -1)
        rng = secret.generator("batch", round, client)
        order = rng.permuted(np.tile(np.arange(len(rows)), (self.steps, 1)), axis=1)
        return rows[torch.from_numpy(order[:, :size].copy())]
