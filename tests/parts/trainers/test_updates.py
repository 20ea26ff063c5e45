"""Updates in a form that adds up fast: the very training of a plain loop, its norms and its sums."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from parts.trainers.plainly import LIVE, live_of, plain
from parts.trainers.test_sparse import EVERYONE, MODELS, SECRET, TRAINERS, sparsely
from torch import nn

from hush.core.spec import Plan
from hush.core.task import Task
from hush.core.updates import Rows
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.models.losses import Weighted, binary
from hush.models.weights import flatten
from hush.parts.trainers import Sgd
from hush.parts.trainers.layered import Layered
from hush.parts.trainers.span import Span

NAMES = ("linear", "one layer", "mlp", "ReLU, no biases")


def task_of(name: str, make) -> Task:
    """Dense rows for the linear model, sparse ones for the others."""
    if name == "linear":
        return make(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    return sparsely(make(MODELS[name]()))


def yes_or_no(task: Task, model: nn.Module, loss) -> Task:
    """Whether a digit is even, by one logit."""
    even = Samples(task.train.inputs, (task.train.targets % 2 == 0).long())
    return Task(model, loss, even, task.split)


@pytest.mark.parametrize("which", LIVE)
@pytest.mark.parametrize("how", TRAINERS)
@pytest.mark.parametrize("name", NAMES)
def test_as_a_plain_loop(name: str, how: str, which: str, make) -> None:
    task = task_of(name, make)
    live, start = live_of(task, which), flatten(task.model)
    factors = torch.linspace(0.2, 1.0, len(EVERYONE), dtype=torch.float64)
    for trainer in (TRAINERS[how], replace(TRAINERS[how], free=True)):
        slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
        found = trainer.updates(task.block(EVERYONE, SECRET), Plan(1, start, live))
        assert (found.sum() - slow.sum(0)).norm() < 1e-5 * slow.norm()
        assert (found.scaled(factors).sum() - factors @ slow).norm() < 1e-5 * slow.norm()
        torch.testing.assert_close(found.norms(), slow.norm(dim=1), rtol=1e-4, atol=0)
        assert (found.scaled(factors).rows().double() - factors.unsqueeze(1) * slow).norm() < 1e-5 * slow.norm()


LOSSES = {"binary": binary, "weighted": Weighted(binary, (0.7, 2.0))}


@pytest.mark.parametrize("balance", ["none", "downsample"])
@pytest.mark.parametrize("loss", LOSSES)
def test_clients_with_few_rows_beside_others(loss: str, balance, make) -> None:
    """Rows of zeros that fill up change nothing; a client whose rows are all of one class moves nothing."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
    task = yes_or_no(sparsely(make(model)), model, LOSSES[loss])
    trainer, start = Sgd(0.3, 6, None, balance=balance), flatten(model)
    block = task.block(EVERYONE, SECRET)
    assert len(set(block.sizes.tolist())) > 3
    assert trainer.compact(block, Plan(1, start))
    found = trainer.updates(block, Plan(1, start))
    assert isinstance(found, Layered)
    apart = torch.cat([trainer.fit(task.block(EVERYONE[k : k + 1], SECRET), Plan(1, start)) for k in EVERYONE])
    assert (found.rows() - apart).norm() < 1e-5 * apart.norm()
    assert (found.sum() - apart.double().sum(0)).norm() < 1e-5 * apart.norm()
    still = apart.norm(dim=1) == 0
    assert bool((found.norms()[still] == 0).all())
    assert bool(still.any()) == (balance == "downsample")


@pytest.mark.parametrize("name", NAMES)
def test_no_norm_is_below_that_of_what_is_sent(name: str, make) -> None:
    """In float64, of the rows as they would travel: a clip by these norms holds its bound."""
    task = task_of(name, make)
    for seed in range(10):
        weights = flatten(task.model) + 0.3 * torch.randn(task.problem.layout.size, generator=torch.manual_seed(seed))
        found = TRAINERS["all rows"].updates(task.block(EVERYONE, SECRET), Plan(1, weights))
        assert not isinstance(found, Rows)
        sent = torch.linalg.vector_norm(found.rows(), dim=1, dtype=torch.float64)
        assert bool((found.norms() >= sent).all())


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_not_finite_stop_nobody_else(name: str, make) -> None:
    task = task_of(name, make)
    inputs, place = task.train.inputs, int(task.split.rows_of(3)[0])
    if isinstance(inputs, Sparse):
        values = inputs.values.index_fill(0, inputs.starts[place], float("inf"))
        inputs = Sparse(inputs.starts, inputs.columns, values, inputs.width)
    else:
        inputs = inputs.index_fill(0, torch.tensor(place), float("inf"))
    task = Task(task.model, task.loss, Samples(inputs, task.train.targets), task.split)
    found = TRAINERS["all rows"].updates(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model)))
    norms = found.norms()
    assert np.flatnonzero(~norms.isfinite()).tolist() == [3]
    whole = found.scaled(torch.where(norms.isfinite(), 1.0, 0.0).double()).sum()
    others = TRAINERS["all rows"].updates(task.block(np.delete(EVERYONE, 3), SECRET), Plan(1, flatten(task.model)))
    assert (whole - others.sum()).norm() < 1e-5 * others.sum().norm()


def test_a_span_makes_no_row(make, monkeypatch) -> None:
    """Neither norms nor the sum of a linear layer's updates ask for one."""
    task = task_of("linear", make)
    some = np.flatnonzero(task.sizes == task.sizes[0])
    found = TRAINERS["all rows"].updates(task.block(some, SECRET), Plan(1, flatten(task.model)))
    assert isinstance(found, Span)
    monkeypatch.setattr(Span, "rows", None)
    assert found.scaled(0.5 / found.norms()).sum().norm() > 0
