"""What stands in front of the first live coordinate runs once per sample."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.federation.simulated import Simulated, rounds
from hush.models.weights import flatten
from hush.parts.coordinates import Only
from hush.parts.sampling import Fixed
from hush.parts.trainers import Sgd, prefix
from hush.random.seeds import PublicSeed, SecretSeed

SECRET = SecretSeed.simulated(1)
EVERYONE = np.arange(12)


def model() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 20), nn.Tanh(), nn.Linear(20, 10))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that went through a front."""
    seen: list[int] = []
    real = prefix.front

    def front(found: prefix.Cut, weights: Tensor):
        run = real(found, weights)
        return lambda rows: (seen.append(len(rows)), run(rows))[1]

    monkeypatch.setattr(prefix, "front", front)
    return seen


def test_cut() -> None:
    whole = model()
    sizes = [sum(p.numel() for p in child.parameters()) for child in whole]
    n = sum(sizes)
    found = prefix.cut(whole, torch.arange(n - 210, n))
    assert (len(found.front), found.start) == (5, n - 210)
    found = prefix.cut(whole, torch.tensor([sizes[0], n - 1]))
    assert (len(found.front), found.start) == (3, sizes[0])
    assert prefix.cut(whole, torch.tensor([0])) is None
    assert prefix.cut(whole, None) is None
    whole[0].requires_grad_(False)  # weights that are frozen from the start are in front, too
    found = prefix.cut(whole, None)
    assert (len(found.front), found.start) == (3, 0)


@pytest.mark.parametrize("stranger", [nn.Dropout(0.5), nn.BatchNorm1d(20, track_running_stats=False)])
def test_only_layers_that_treat_rows_alone(stranger: nn.Module) -> None:
    whole = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), stranger, nn.Linear(20, 10))
    n = sum(p.numel() for p in whole.parameters())
    assert len(prefix.cut(whole, torch.arange(n - 210, n)).front) == 2


def test_once_per_sample(make, counted: list[int]) -> None:
    """Over rounds too, as long as there is memory; without, once per round. The results are the same bits."""
    start, last, many = flatten(model()), [], 3
    for memory in (2**20, 0):
        task = make(model())
        live = Only().draw(task.problem, PublicSeed(0), 0, None)
        counted.clear()
        for round in range(many):
            last.append(
                Sgd(0.2, 4, 5).fit(task.block(EVERYONE, SECRET), Plan(round, start, live), Engine(memory=memory))
            )
        held = sum(len(task.split.rows_of(k)) for k in range(12))
        assert sum(counted) == held * (1 if memory else many)
    for one, other in zip(last[:many], last[many:], strict=True):
        assert torch.equal(one, other)
    plain = Sgd(0.2, 4, 5).fit(make(model()).block(EVERYONE, SECRET), Plan(0, start, live), Engine("vmap"))
    torch.testing.assert_close(last[0], plain, rtol=1e-4, atol=1e-7)


def test_more_rows_than_a_round_needs(make, counted: list[int]) -> None:
    """A client with many rows sends only those of its batches through."""
    task, start = make(model()), flatten(model())
    live = Only().draw(task.problem, PublicSeed(0), 0, None)
    client = np.array([11])
    held = len(task.split.rows_of(11))
    assert held > 2 * 3
    few = Sgd(0.2, 2, 3).fit(task.block(client, SECRET), Plan(1, start, live))
    assert sum(counted) == 2 * 3
    whole = Sgd(0.2, 2, 3).fit(make(model()).block(client, SECRET), Plan(1, start, live), Engine("vmap", memory=0))
    torch.testing.assert_close(few, whole, rtol=1e-4, atol=1e-7)


def test_other_weights_are_other_features(make) -> None:
    task, start = make(model()), flatten(model())
    live = Only().draw(task.problem, PublicSeed(0), 0, None)
    trainer = Sgd(0.2, 4, 5)
    first = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live))
    moved = start.clone()
    moved[: live[0]] *= 1.5
    second = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, moved, live))
    assert not torch.allclose(first, second, rtol=0.01)
    assert torch.equal(second, trainer.fit(make(model()).block(EVERYONE, SECRET), Plan(1, moved, live)))
    assert torch.equal(first, trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live)))


def test_frozen_weights_that_change_are_other_features(make) -> None:
    whole = model()
    whole[0].requires_grad_(False)
    task = make(whole)
    trainer = Sgd(0.2, 4, 5)
    first = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(whole)))
    with torch.no_grad():
        whole[0].weight.mul_(-1)
    second = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(whole)))
    fresh = Task(whole, task.loss, task.train, task.split)
    assert torch.equal(second, trainer.fit(fresh.block(EVERYONE, SECRET), Plan(1, flatten(whole))))
    assert not torch.allclose(first, second, rtol=0.01)


def test_a_hook_on_the_whole(make) -> None:
    whole = model()
    whole.register_forward_hook(lambda module, given, out: out)
    assert prefix.cut(whole, torch.tensor([sum(p.numel() for p in whole.parameters()) - 1])) is None


def test_resumed_with_nothing_kept(make) -> None:
    """What was kept before a stop does not show in the result: a new task object has kept nothing."""
    scheme = Scheme(Sgd(0.2, 4, 5), Fixed(6), Only())

    def go(task: Task, **more):
        return list(rounds(scheme, task, rounds=6, transport=Simulated(workers=2), **more))[-1].state

    whole = go(make(model()))
    half = list(rounds(scheme, make(model()), rounds=3))[-1].state
    assert torch.equal(go(make(model()), state=half).weights, whole.weights)
