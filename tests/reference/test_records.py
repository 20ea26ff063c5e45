"""DP-SGD equals its slow twin: the same batches, the same noise, the same steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.data.sparse import Sparse
from hush.models.weights import flatten, glorot
from hush.parts.trainers.dpsgd import Dpsgd
from hush.random.seeds import PublicSeed, SecretSeed
from reference import records

SEED, ROUND = 5, 3
BASE = Dpsgd(rate=0.5, steps=3, batch=6, clip=1.5, noise=0.4, share=0.3)


def binary(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).to(output.dtype))


def table(model: nn.Module, sparse: bool = False) -> Task:
    """60 records of 64 numbers, three in ten of class 1, over 4 clients: one has fewer records than a batch."""
    g = torch.Generator().manual_seed(2)
    inputs = torch.randn(60, 64, generator=g) * (torch.rand(60, 64, generator=g) < 0.2)
    targets = (torch.rand(60, generator=g) < 0.3).long()
    split = Split(torch.randperm(60, generator=g), torch.tensor([0, 4, 20, 40, 60]))
    return Task(glorot(model, PublicSeed(0)), binary, Samples(Sparse.of(inputs) if sparse else inputs, targets), split)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 1))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 3, 3), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 1)
    )


def twin(task: Task, trainer: Dpsgd, live: Tensor | None = None) -> Tensor:
    rows = []
    for number in range(task.clients):
        client = records.Client(
            task, number, ROUND, SEED, trainer.rate, trainer.steps, trainer.batch, trainer.clip, trainer.noise,
            trainer.sampling, trainer.balance, trainer.share or 0.5, trainer.divisor,
        )  # fmt: skip
        rows.append(records.dpsgd(client, flatten(task.model).double(), None if live is None else live.tolist()))
    return torch.stack(rows)


def assert_same(fast: Tensor, slow: Tensor) -> None:
    assert ((fast.double() - slow).norm(dim=1) <= 1e-5 * slow.norm(dim=1)).all()
    assert (slow.norm(dim=1) > 1e-3).all()


@pytest.mark.parametrize(
    ("sampling", "balance"),
    [(sampling, balance) for sampling in ("poisson", "fixed") for balance in ("none", "downsample", "weights")]
    + [("poisson", "rates")],
)
@pytest.mark.parametrize("model", [mlp, convolutional])
def test_equal(model, sampling: str, balance: str) -> None:
    task, trainer = table(model()), replace(BASE, sampling=sampling, balance=balance)
    fast = trainer.fit(task.block(np.arange(4), SecretSeed.simulated(SEED)), Plan(ROUND, flatten(task.model)))
    assert_same(fast, twin(task, trainer))


@pytest.mark.parametrize(
    ("sampling", "balance"), [("poisson", "none"), ("poisson", "downsample"), ("fixed", "downsample")]
)
def test_equal_with_the_size_at_hand(sampling: str, balance: str) -> None:
    """Divided by |B'|, of which several are there; and by 1 where it is 0."""
    task, trainer = table(mlp()), replace(BASE, sampling=sampling, balance=balance, divisor="drawn")
    drawn = [
        len(b)
        for k in range(4)
        for b in trainer._batches(task.block(np.array([k]), SecretSeed.simulated(SEED)), 0, ROUND)
    ]
    assert len(set(drawn)) > 1
    assert (0 in drawn) == (balance == "downsample")
    fast = trainer.fit(task.block(np.arange(4), SecretSeed.simulated(SEED)), Plan(ROUND, flatten(task.model)))
    assert_same(fast, twin(task, trainer))


@pytest.mark.parametrize("balance", ["none", "weights"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("live", [None, torch.arange(0, 893, 3), torch.arange(700, 893)])
def test_equal_with_live_coordinates(live: Tensor | None, sparse: bool, balance: str) -> None:
    task, trainer = table(mlp(), sparse), replace(BASE, balance=balance)
    assert len(flatten(task.model)) == 893
    fast = trainer.fit(task.block(np.arange(4), SecretSeed.simulated(SEED)), Plan(ROUND, flatten(task.model), live))
    assert_same(fast, twin(table(mlp()), trainer, live))


def test_the_setting_is_a_test() -> None:
    """Gradients below and above the bound, a client below the batch, and classes of unequal sizes in the batches."""
    task = table(mlp())
    client = records.Client(task, 1, ROUND, SEED, 0.5, 3, 6, 1.5, 0.4, balance="downsample", share=0.3)
    norms = [float(records.gradient(client, flatten(task.model).double(), r).norm()) for r in client.D]
    assert min(norms) < BASE.clip < max(norms)
    assert int(task.split.sizes.min()) < BASE.batch < int(task.split.sizes.max())
    rng = SecretSeed.simulated(SEED).generator("records", ROUND, 1)
    B = records.batch(client, rng)
    assert 0 < len(records.downsampling(client, B, rng)) < len(B)
