"""Local training: which rows, which weights, what is reported."""

import math

import numpy as np
import pytest
import torch
from parts.trainers.plainly import batches, plain
from torch import nn

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.weights import flatten
from hush.parts.trainers import Sgd
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(1)
LIVE = torch.arange(0, 910, 7)
EVERYONE = np.arange(12)


def test_rows_are_clients(task: Task) -> None:
    """A block of clients, in any order, trains as each one alone."""
    trainer, start = Sgd(0.2, 3, 5), flatten(task.model)
    together = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE))
    backwards = trainer.fit(task.block(EVERYONE[::-1].copy(), SECRET), Plan(1, start, LIVE))
    torch.testing.assert_close(together, backwards.flip(0), rtol=1e-4, atol=1e-7)
    for client in EVERYONE:
        alone = trainer.fit(task.block(np.array([client]), SECRET), Plan(1, start, LIVE))
        torch.testing.assert_close(together[client], alone[0], rtol=1e-4, atol=1e-7)


def test_frozen_weights_matter(task: Task) -> None:
    """With the others frozen the live ones move otherwise than with all free, after the first step."""
    start = flatten(task.model)
    one = [Sgd(0.5, 1, 5, free).fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE)) for free in (False, True)]
    torch.testing.assert_close(*one, rtol=1e-5, atol=1e-6)
    many = [Sgd(0.5, 5, 5, free).fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE)) for free in (False, True)]
    assert (many[0] - many[1]).norm() > 0.01 * many[0].norm()
    whole = Sgd(0.5, 5, 5).fit(task.block(EVERYONE, SECRET), Plan(1, start))
    torch.testing.assert_close(many[1], whole[:, LIVE])


def test_batches() -> None:
    """Where there are more rows than the batch holds: distinct ones, anew each step and round."""
    trainer = Sgd(0.2, 4, 5)
    drawn = trainer._order(Draws(SECRET, (11,)), 0, 9, 1)
    assert drawn.shape == (4, 5)
    for batch in drawn.tolist():
        assert len(set(batch)) == 5
        assert set(batch) <= set(range(9))
    assert len({tuple(sorted(batch)) for batch in drawn.tolist()}) > 1
    assert not torch.equal(drawn, trainer._order(Draws(SECRET, (11,)), 0, 9, 2))
    assert not torch.equal(drawn, trainer._order(Draws(SECRET, (10,)), 0, 9, 1))
    assert torch.equal(drawn, trainer._order(Draws(SECRET, (11,)), 0, 9, 1))


@pytest.mark.parametrize("kind", ["lockstep", "vmap"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("live", [None, LIVE, torch.arange(900, 910)])
@pytest.mark.parametrize("size", [1, 4, 5, None])
def test_epochs(size: int | None, live: torch.Tensor | None, free: bool, kind: str, task: Task) -> None:
    """Clients of one to twenty rows, each with as many steps as it has batches."""
    trainer = Sgd(0.2, None, size, free, epochs=2)
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model), live), Engine(kind))
    slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
    assert slow.norm(dim=1).min() > 1e-4
    assert ((fast.double() - slow).norm(dim=1) < 1e-5 * slow.norm(dim=1)).all()


def test_an_epoch_takes_every_row_once() -> None:
    trainer, held = Sgd(0.2, None, 4, epochs=3), torch.arange(30, 41)
    found = batches(trainer, held, SECRET, 1, 7)
    assert [len(batch) for batch in found] == [4, 4, 3] * 3
    epochs = [torch.cat(found[first : first + 3]) for first in (0, 3, 6)]
    for epoch in epochs:
        assert torch.equal(epoch.sort().values, held)
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 3
    assert not torch.equal(trainer._order(Draws(SECRET, (7,)), 0, 11, 1), trainer._order(Draws(SECRET, (7,)), 0, 11, 2))
    assert not torch.equal(trainer._order(Draws(SECRET, (7,)), 0, 11, 1), trainer._order(Draws(SECRET, (8,)), 0, 11, 1))


def test_epochs_of_all_rows_are_steps(task: Task) -> None:
    start = flatten(task.model)
    found = Sgd(0.2, None, None, epochs=3).fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE))
    assert torch.equal(found, Sgd(0.2, 3, None).fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE)))
    assert torch.equal(found, Sgd(0.2, 3, 20).fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE)))


def test_inputs_are_left_alone(task: Task) -> None:
    start = flatten(task.model)
    before = start.clone()
    Sgd(0.2, 3, 5, free=True).fit(task.block(EVERYONE, SECRET), Plan(1, start, LIVE))
    assert torch.equal(start, before)
    assert torch.equal(flatten(task.model), before)


def test_dropout_repeats_by_name(make) -> None:
    """Masks are drawn from the secret seed, differ between clients, and leave torch's own generator alone."""
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 10)))
    trainer, start, one = Sgd(0.2, 2, 5), flatten(task.model), np.array([4])
    torch.manual_seed(5)
    first = trainer.fit(task.block(one, SECRET), Plan(1, start))
    state = torch.get_rng_state()
    torch.manual_seed(6)
    assert torch.equal(first, trainer.fit(task.block(one, SECRET), Plan(1, start)))
    assert not torch.equal(first, trainer.fit(task.block(one, SECRET), Plan(2, start)))
    torch.manual_seed(5)
    assert torch.equal(state, torch.get_rng_state())


def test_batch_statistics_come_back(make) -> None:
    """The running mean after one step is 0.1 of the batch's own: no gradient moved it."""
    task = make(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)))
    update = Sgd(0.2, 1, 5).fit(task.block(np.array([3]), SECRET), Plan(1, flatten(task.model)))[0]
    place = task.layout.parameters
    rows = task.train.inputs[task.split.rows_of(3)].flatten(1)
    torch.testing.assert_close(update[place : place + 64], 0.1 * rows.mean(0), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"rate": 0.0}, "rate=0.0 must be positive"),
        ({"rate": math.nan}, "rate=nan must be positive"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"batch": 0}, "batch=0 must be at least 1"),
        ({"steps": None, "epochs": 0}, "epochs=0 must be at least 1"),
        ({"epochs": 2}, "steps=1 and epochs=2: give one of them, and None for the other"),
        ({"steps": None}, "steps=None and epochs=None: give one of them"),
    ],
)
def test_refused(wrong: dict, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        Sgd(**{"rate": 0.1, "steps": 1, "batch": 1, **wrong})


def rare(inputs: str = "dense") -> Task:
    """Six clients with 0 to 5 rows of the rarer class among 12, of rows that are dense or mostly zero."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(72, 9, generator=draw) * (torch.rand(72, 9, generator=draw) < 0.4)
    y = torch.cat([(torch.arange(12) < k).long()[torch.randperm(12, generator=draw)] for k in range(6)])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2))
    train = (x, y) if inputs == "dense" else Samples(Sparse.of(x), y)
    split = [range(12 * k, 12 * k + 12) for k in range(6)]
    return Task(model, nn.functional.cross_entropy, train, split, (x, y))


@pytest.mark.parametrize("inputs", ["dense", "sparse"])
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("free", [False, True])
def test_downsampling(inputs: str, batch: int | None, free: bool) -> None:
    """The paper's footnote 10, beside the page's SGD on the rows that are kept; a client alone has the same."""
    task, everyone = rare(inputs), np.arange(6)
    trainer, live = Sgd(0.3, 4, batch, free, balance="downsample"), torch.arange(0, 50, 3)
    found = trainer.fit(task.block(everyone, SECRET), Plan(2, flatten(task.model), live))
    expected = plain(task if inputs == "dense" else rare(), trainer, live, everyone, SECRET, 2)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-6)
    assert not found[0].any()  # nobody of the rarer class: nothing moves
    for client in everyone:
        alone = trainer.fit(task.block(np.array([client]), SECRET), Plan(2, flatten(task.model), live))
        torch.testing.assert_close(found[client], alone[0], rtol=1e-4, atol=1e-7)


def test_downsampling_keeps_all_of_the_rarer_class_and_as_many_others() -> None:
    task, trainer = rare(), Sgd(0.3, 4, None, balance="downsample")
    for client in range(6):
        kept = trainer._kept(task.block(np.array([client]), SECRET), 0, 1)
        labels = task.train.targets[task.split.rows_of(client)[kept]]
        assert len(kept.unique()) == len(kept) == 2 * client
        assert int(labels.sum()) == client
    draws = {tuple(sorted(trainer._kept(task.block(np.array([3]), SECRET), 0, round).tolist())) for round in range(20)}
    assert len(draws) > 10  # anew in each round


def test_downsampling_needs_two_classes() -> None:
    task = rare()
    task.train.targets[0] = 2
    with pytest.raises(Mistake, match="not the classes 0 and 1"):
        Sgd(0.3, 4, None, balance="downsample").fit(task.block(np.arange(6), SECRET), Plan(1, flatten(task.model)))
    with pytest.raises(Mistake, match="choose none or downsample"):
        Sgd(0.3, 4, None, balance="rates")
