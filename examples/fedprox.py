"""FedProx (Li et al. 2020), a trainer of one's own: `hush run examples/fedprox.py:scheme --data digits`."""

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.func import functional_call

import hush


@dataclass(frozen=True)
class FedProx(hush.Trainer):
    """`steps` iterations w <- w - rate (grad f(batch; w) + mu (w - w_t)): SGD on f(w) + mu/2 |w - w_t|^2.

    The plan has w_t, the update is w - w_t, and `live` are the coordinates that train and travel.
    """

    rate: float
    steps: int
    batch: int | None
    mu: float

    def fit(self, block, plan, engine=None):
        model = copy.deepcopy(block.problem.model)  # blocks train in threads
        return torch.stack([self._update(model, block, place, plan) for place in range(len(block))])

    def check(self, scheme, task):
        if task.layout.buffers:
            raise hush.Mistake("FedProx does not train the running statistics of a BatchNorm: take another model")

    def _update(self, model, block, place, plan):
        live = slice(None) if plan.live is None else plan.live
        rows, update = block.rows(place), torch.zeros_like(plan.weights[live])
        if not len(rows):
            return update
        # The client's own draws: they do not depend on who else is in the block.
        draws = block.draws.generator(place, "batch", plan.round)
        orders = draws.permuted(np.tile(np.arange(len(rows)), (self.steps, 1)), axis=1)[:, : self.batch]
        for order in torch.from_numpy(orders):
            samples = block.data.rows(rows[order])
            w = plan.weights.clone()
            w[live] += update
            w.requires_grad_()
            found = functional_call(model, block.problem.layout.views(w), (samples.inputs,))
            (gradient,) = torch.autograd.grad(block.problem.loss(found, samples.targets), w)
            update -= self.rate * (gradient[live] + self.mu * update)
        return update


def scheme(settings, mu=0.1):
    """All weights travel both ways; nothing is protected."""
    trainer = FedProx(settings.rate, settings.steps, settings.batch, mu)
    return hush.Scheme(trainer, settings.cohorts())


def private(settings):
    """All weights travel both ways; each client is protected (clipped, noise in shares)."""
    return replace(scheme(settings), stages=(settings.clip, hush.Noise(settings.multiplier())))
