"""Slow twin of DP-SGD, written from the second paper's Algorithms 6 and 7.

One record after the other, an ordinary copy of the model, `.backward()`, float64. Where the paper's print and its
proof differ, the proof: the noise has deviation S sigma. The paper divides by |B'|; hush by its public expected size,
unless told to do as the paper. The draws are named as hush names them, and made here by other means.
"""

import copy
import hashlib
import json
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hush.core.task import Task
from hush.random.seeds import SecretSeed
from reference.normal import normals


@dataclass(frozen=True)
class Client:
    """One client in one round: D = its rows, eta, T_gd, |B|, S and sigma as in the paper."""

    task: Task
    number: int
    t: int
    seed: int
    eta: float
    T_gd: int
    B: int
    S: float
    sigma: float
    sampling: str = "poisson"
    balance: str = "none"
    share: float = 0.5
    divisor: str = "public"

    @property
    def D(self) -> list[int]:
        return self.task.split.rows_of(self.number).tolist()

    def label(self, r: int) -> int:
        return int(self.task.train.targets[r])

    def class_share(self, r: int) -> float:
        return self.share if self.label(r) == 1 else 1 - self.share


def gradient(c: Client, w: Tensor, r: int) -> Tensor:
    """nabla f(r, w) of one record; with class weights, of its weighted loss."""
    model = copy.deepcopy(c.task.model).double()
    place = 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(w[place : place + p.numel()].reshape(p.shape))
            place += p.numel()
    loss = c.task.loss(model(c.task.train.inputs[r : r + 1].double()), c.task.train.targets[r : r + 1])
    if c.balance == "weights":
        loss = loss / (2 * c.class_share(r))
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def batch(c: Client, rng: np.random.Generator) -> list[int]:
    """Algorithm 6, line 2, as its analysis has it: each record by itself; or |B| of them; or rates by class."""
    if c.sampling == "fixed":
        return [c.D[i] for i in rng.choice(len(c.D), min(c.B, len(c.D)), replace=False, shuffle=False)]
    coins = [rng.random() for _ in c.D]
    if c.balance == "rates":
        return [r for r, coin in zip(c.D, coins, strict=True) if coin < c.B / len(c.D) / (2 * c.class_share(r))]
    return [r for r, coin in zip(c.D, coins, strict=True) if coin < c.B / len(c.D)]


def downsampling(c: Client, B: list[int], rng: np.random.Generator) -> list[int]:
    """Algorithm 7."""
    C_1, C_2 = [r for r in B if c.label(r) == 0], [r for r in B if c.label(r) == 1]
    s_min = min(len(C_1), len(C_2))
    B_1 = rng.choice(np.array(C_1, dtype=np.int64), s_min, replace=False, shuffle=False).tolist()
    B_2 = rng.choice(np.array(C_2, dtype=np.int64), s_min, replace=False, shuffle=False).tolist()
    return B_1 + B_2


def noise(c: Client, size: int, step: int) -> Tensor:
    """Standard normal numbers of this client in this iteration."""
    name = json.dumps(["hush-1", "normal", c.seed, "dpsgd", c.t, step])
    return torch.tensor(normals(hashlib.sha256(name.encode()).digest(), c.number, size), dtype=torch.float64)


def dpsgd(c: Client, w: Tensor, live: list[int] | None = None) -> Tensor:
    """Algorithm 6: the update at the live coordinates, or at all; the others stay."""
    start = w
    live = list(range(len(w))) if live is None else live
    rng = SecretSeed.simulated(c.seed).generator("records", c.t, c.number)
    batches = []
    for _ in range(c.T_gd):
        B = batch(c, rng)
        batches.append(downsampling(c, B, rng) if c.balance == "downsample" else B)
    for step, B in enumerate(batches):
        total = torch.zeros(len(live), dtype=torch.float64)
        for r in B:
            g = gradient(c, w, r)[live]
            total += g / max(1.0, float(g.norm()) / c.S)
        divisor = 2 * c.share * c.B if c.balance == "downsample" else c.B
        if c.divisor == "drawn":
            divisor = len(B) if B else 1
        w = w.clone()
        w[live] -= c.eta / divisor * (total - c.S * c.sigma * noise(c, len(live), step))
    return (w - start)[live]
