"""One solve in place of steps, held against numpy's."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models import helmert
from hush.models.losses import binary
from hush.parts.blocks import Blocks
from hush.parts.trainers import Ridge
from hush.random.seeds import PublicSeed, SecretSeed


def made(model: nn.Module, outputs: int, sparse: bool = False) -> Task:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 15, generator=rng), torch.randint(max(2, outputs), (40,), generator=rng)
    x = torch.where(torch.rand(40, 15, generator=rng) < 0.5, x, 0.0)
    for p in model.parameters():
        if p.requires_grad:
            nn.init.normal_(p, std=0.3, generator=rng)
    loss = binary if outputs == 1 else F.cross_entropy
    split = [[*range(0, 7)], [*range(7, 10)], [*range(10, 17)], [17]]
    return Task(model, loss, (Sparse.of(x) if sparse else x, y), split)


def slow(task: Task, client: int, gamma: float) -> np.ndarray:
    """(X X' + gamma I)^-1 R from the probabilities, in float64, rows of X with a one where there is a bias."""
    rows = task.split.rows_of(client)
    x, y = task.train.inputs[rows].double().numpy(), task.train.targets[rows].numpy()
    first, *rest = [layer for layer in task.model if isinstance(layer, nn.Linear)]
    w = first.weight.detach().double().numpy()
    if first.bias is not None:
        x, w = np.c_[x, np.ones(len(x))], np.c_[w, first.bias.detach().double().numpy()]
    spread = rest[0].weight.detach().double().numpy() if rest else np.eye(len(w))
    z = x @ w.T @ spread.T
    if z.shape[1] == 1:
        residual = y[:, None] - 1 / (1 + np.exp(-z))
    else:
        p = np.exp(z - z.max(1, keepdims=True))
        residual = np.eye(z.shape[1])[y] - p / p.sum(1, keepdims=True)
    a = np.linalg.solve(x @ x.T + gamma * np.eye(len(x)), residual @ spread)
    update = a.T @ x
    return np.r_[update.ravel()] if first.bias is None else np.r_[update[:, :-1].ravel(), update[:, -1]]


MODELS = {
    "helmert": lambda: (nn.Sequential(nn.Flatten(), *helmert.head(15, 4)), 4),
    "bias": lambda: (nn.Sequential(nn.Linear(15, 3)), 3),
    "binary": lambda: (nn.Sequential(nn.Flatten(), nn.Linear(15, 1, bias=False)), 1),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_update_is_that_of_the_slow_twin(name: str, sparse: bool) -> None:
    task = made(*MODELS[name](), sparse=sparse)
    weights = torch.cat([p.detach().flatten() for p in task.model.parameters() if p.requires_grad])
    block = task.block(np.arange(4), SecretSeed.simulated(0))
    found = Ridge(0.5, rate=3.0).fit(block, Plan(1, weights))
    for client in range(4):
        np.testing.assert_allclose(found[client].double().numpy(), 3.0 * slow(task, client, 0.5), rtol=2e-4, atol=2e-5)


def test_a_block_of_it(task: Task) -> None:
    task = made(*MODELS["helmert"]())
    weights = torch.cat([p.detach().flatten() for p in task.model.parameters() if p.requires_grad])
    blocks, mine = Blocks(4, interleave="columns"), task.block(np.arange(4), SecretSeed.simulated(0))
    whole = Ridge(0.5).fit(mine, Plan(2, weights))
    live = blocks.draw(task.problem, PublicSeed(0), 2, None)
    assert torch.equal(Ridge(0.5).fit(mine, Plan(2, weights, live, joint=True)), whole[:, live])


def test_what_it_is_not_for(task: Task) -> None:
    with pytest.raises(Mistake, match="one trained layer is linear and takes the rows"):
        Ridge(1.0).check(None, task)
    with pytest.raises(Mistake, match="ridge=0 must be positive"):
        Ridge(0)
    linear = made(*MODELS["bias"]())
    plan = Plan(1, torch.zeros(48), torch.arange(5))
    with pytest.raises(Mistake, match="for all weights of a linear layer"):
        Ridge(1.0).fit(linear.block(np.arange(2), SecretSeed.simulated(0)), plan)


def test_no_client_moves_another_s_update() -> None:
    """Whatever the loss divides by: alone and beside others a client's update is the same."""
    task = made(*MODELS["bias"]())
    weighed = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 1000.0]))
    task = Task(task.model, weighed, task.train, task.split)
    weights = torch.cat([p.detach().flatten() for p in task.model.parameters()])
    together = Ridge(0.5).fit(task.block(np.array([0, 2]), SecretSeed.simulated(0)), Plan(1, weights))
    alone = Ridge(0.5).fit(task.block(np.array([0]), SecretSeed.simulated(0)), Plan(1, weights))
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)


def test_a_model_that_draws_is_refused() -> None:
    task = made(nn.Sequential(nn.Linear(15, 3), nn.Dropout()), 3)
    with pytest.raises(Mistake, match="draws no random numbers"):
        Ridge(1.0).check(None, task)


def test_no_client_s_rows_stop_the_others() -> None:
    """Long equal rows, beside which gamma is lost in float32, and rows too long for any number: the others go on."""
    task = made(*MODELS["helmert"]())
    rows = task.train.inputs.clone()
    rows[0:7] = 1e5
    alone = Ridge(1e-6).fit(task.block(np.array([2]), SecretSeed.simulated(0)), Plan(1, torch.zeros(45)))
    for long in (1e5, 1e25):
        rows[0:7] = long
        spoilt = Task(task.model, task.loss, (rows, task.train.targets), task.split)
        found = Ridge(1e-6).fit(spoilt.block(np.array([0, 2]), SecretSeed.simulated(0)), Plan(1, torch.zeros(45)))
        torch.testing.assert_close(found[1:], alone, rtol=1e-4, atol=1e-4)


def test_every_weight_of_the_layer_trains() -> None:
    for frozen in ("weight", "bias"):
        layer = nn.Linear(15, 3)
        getattr(layer, frozen).requires_grad_(False)
        with pytest.raises(Mistake, match="one trained layer is linear"):
            Ridge(1.0).check(None, made(nn.Sequential(layer), 3))
