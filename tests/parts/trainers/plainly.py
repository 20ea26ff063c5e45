"""SGD as one would write it on a page: one client after the other, by autograd and nothing else, in float64."""

import numpy as np
import torch
from torch import Tensor

from hush.core.task import Task
from hush.models.weights import flatten
from hush.parts.trainers import Sgd
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed

LIVE = {"all": None, "few": 37, "many": 3, "last": -10, "first": 1}


def live_of(task: Task, which: str) -> Tensor | None:
    """The live coordinates of these names: none left out, every so many, the last ten, the first five."""
    n, step = task.layout.parameters, LIVE[which]
    if step is None:
        return None
    if which == "last":
        return torch.arange(n - 10, n)
    return torch.arange(5) if which == "first" else torch.arange(0, n, step)


def batches(trainer: Sgd, held: Tensor, secret: SecretSeed, round: int, client: int) -> list[Tensor]:
    """The rows of each step of a client that holds these."""
    size = len(held) if trainer.batch is None else min(trainer.batch, len(held))
    if size == len(held):
        return [held] * (trainer.steps or trainer.epochs)
    order = trainer._order(Draws(secret, (client,)), 0, len(held), round)
    if trainer.steps is not None:
        return [held[step] for step in order]
    return [held[epoch[first : first + size]] for epoch in order for first in range(0, len(held), size)]


def plain(task: Task, trainer: Sgd, live: Tensor | None, clients: np.ndarray, secret: SecretSeed, round: int) -> Tensor:
    """The updates of the live coordinates, one row per client."""
    rows = []
    start = flatten(task.model).double()
    for client in clients.tolist():
        w = start.clone()
        held = task.split.rows_of(client)
        if trainer.balance == "downsample":
            held = held[trainer._kept(task.block(np.array([client]), secret), 0, round)]
        for batch in batches(trainer, held, secret, round, client) if len(held) else []:
            w.requires_grad_()
            views = task.layout.views(w)
            still = {name: p.double() for name, p in task.model.named_parameters() if not p.requires_grad}
            output = torch.func.functional_call(task.model, {**still, **views}, (task.train.inputs[batch].double(),))
            (slope,) = torch.autograd.grad(task.loss(output, task.train.targets[batch]), w)
            mask = torch.ones_like(w) if live is None or trainer.free else torch.zeros_like(w).index_fill(0, live, 1)
            w = (w - trainer.rate * mask * slope).detach()
        rows.append((w - start) if live is None else (w - start)[live])
    return torch.stack(rows)
