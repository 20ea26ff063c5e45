"""Large linear layers that stay in the span of their rows: the updates, their norms and sums, against rows."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from parts.trainers.plainly import plain
from torch import nn

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.core.task import Task
from hush.core.updates import Rows
from hush.data.samples import Samples
from hush.models.weights import flatten
from hush.parts.trainers import Sgd, lockstep, products
from hush.parts.trainers.history import LARGE
from hush.parts.trainers.mixed import Mixed
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(1)
EVERYONE = np.arange(12)


def large() -> nn.Module:
    """Two large layers, one with a bias, behind a convolution and its pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(512, 512),
        nn.Tanh(),
        nn.Linear(512, 512, bias=False),
        nn.Tanh(),
        nn.Linear(512, 10),
    )


@pytest.fixture(autouse=True)
def chunks(monkeypatch) -> None:
    """Of the clients not all are in one."""
    monkeypatch.setattr(lockstep, "chunk_of", lambda weights, shared: 4)


def many(task) -> np.ndarray:
    """The clients with more rows than a batch of 5, which train together."""
    found = np.flatnonzero(task.split.sizes_of(EVERYONE) > 5)
    assert len(found) > 4
    return found


def updates(task, trainer: Sgd, clients: np.ndarray):
    return trainer.updates(task.block(clients, SECRET), Plan(1, flatten(task.model)), Engine("lockstep"))


@pytest.mark.parametrize("trainer", [Sgd(0.3, 3, 5), Sgd(0.3, None, 4, epochs=1)])
def test_as_a_plain_loop(trainer: Sgd, make) -> None:
    torch.manual_seed(3)
    task = make(large())
    slow = plain(task, trainer, None, EVERYONE, SECRET, 1)
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model)), Engine("lockstep"))
    assert ((fast.double() - slow).norm(dim=1) / slow.norm(dim=1)).max() < 1e-5


def test_norms_and_sums(make) -> None:
    """A norm is never less than that of the row, and hardly more; a sum is that of the rows times their factors."""
    torch.manual_seed(3)
    task, trainer = make(large()), Sgd(0.3, 3, 5)
    found, rows = updates(task, trainer, many(task)), updates(task, trainer, many(task)).rows()
    assert isinstance(found, Mixed)
    assert {one.place.stop - one.place.start for one in found.outer} == {LARGE}
    assert [one.clients.start for one in found.outer] == [0, 0, 4, 4]
    exact = rows.double().norm(dim=1)
    assert (found.norms() >= exact).all()
    assert (found.norms() <= exact * 1.0001).all()
    factors = torch.rand(len(rows), dtype=torch.float64) + 0.5
    total = (rows.double() * factors.unsqueeze(1)).sum(0)
    assert (found.scaled(factors).sum() - total).norm() < 1e-6 * total.norm()
    assert (found.sum() - rows.double().sum(0)).norm() < 1e-6 * total.norm()
    halves = factors.new_full(factors.shape, 0.5)
    assert torch.equal(found.scaled(factors).scaled(halves).sum(), found.scaled(factors * 0.5).sum())
    assert torch.equal(found.scaled(halves).norms(), found.norms() * 0.5)
    assert torch.equal(found.scaled(halves).rows(), rows * 0.5)


def test_a_client_that_is_left_out(make) -> None:
    """Whose update is not finite: its norm is not, and times 0 it adds nothing."""
    torch.manual_seed(3)
    task, trainer = make(large()), Sgd(0.3, 3, 5)
    clients, inputs = many(task), task.train.inputs.clone()
    inputs[task.split.rows_of(int(clients[2]))] = torch.inf
    task = Task(task.model, task.loss, Samples(inputs, task.train.targets), task.split)
    found = updates(task, trainer, clients)
    finite = found.norms().isfinite()
    assert (~finite).nonzero().flatten().tolist() == [2]
    others = updates(task, trainer, np.delete(clients, 2)).sum()
    assert (found.scaled(finite.double()).sum() - others).norm() < 1e-5 * others.norm()


def test_many_rows(make) -> None:
    """With many steps each client has weights of its own."""
    torch.manual_seed(3)
    task, trainer = make(large()), Sgd(0.2, 20, 5)
    found = updates(task, trainer, many(task))
    assert isinstance(found, Rows)
    slow = plain(task, trainer, None, many(task), SECRET, 1)
    assert ((found.rows().double() - slow).norm(dim=1) / slow.norm(dim=1)).max() < 1e-5


def test_blocks(make) -> None:
    """Sums of many clients at a time where their rows are few, else as before."""
    task = make(large())
    block, plan = task.block(EVERYONE, SECRET), Plan(1, flatten(task.model))
    assert Sgd(0.3, 3, 5).compact(block, plan) == lockstep.TOGETHER
    assert Sgd(0.3, 20, 5).compact(block, plan) is None
    assert Sgd(0.3, 3, 5).compact(block, plan, Engine("vmap")) is None
    assert Sgd(0.3, 3, 5, free=True).compact(block, Plan(1, plan.weights, torch.arange(9))) is None


@pytest.mark.parametrize("there", [True, False])
def test_products(there: bool, monkeypatch) -> None:
    monkeypatch.setattr(products, "_linear", products._linear if there else None)
    torch.manual_seed(3)
    x, w, b, g = torch.randn(7, 40), torch.randn(30, 40), torch.randn(30), torch.randn(7, 30)
    pairs = [
        (products.outputs(x, w, b), F.linear(x.double(), w.double(), b.double())),
        (products.outputs(x.t().contiguous().t(), w), x.double() @ w.double().t()),
        (products.inputs(g, w), g.double() @ w.double()),
        (products.weights(g, x), g.double().t() @ x.double()),
        (products.weights(g[:0], x[:0]), torch.zeros(30, 40)),
    ]
    for fast, slow in pairs:
        assert fast.shape == slow.shape
        assert (fast - slow).abs().max() < 1e-5
