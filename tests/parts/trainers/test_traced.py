"""A frozen body in a forward of one's own runs once per sample, or the log says what to do."""

import logging

import numpy as np
import pytest
import torch
from models.cases import CASES, CLIENTS, ROWS, WIDTH, Case, Frozen, encoder
from models.cases import task as made
from torch import Tensor, nn

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.models.weights import flatten
from hush.parts.coordinates import Only
from hush.parts.trainers import Sgd, traced
from hush.parts.trainers.cohort import choose
from hush.random.seeds import PublicSeed, SecretSeed

SECRET, EVERYONE = SecretSeed.simulated(1), np.arange(CLIENTS)


class Counted(nn.Module):
    """How many rows went through; a branch on what it computes, which nothing can follow."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.rows = inner, [0]  # in a list, which copies of the module share by a memo

    def __deepcopy__(self, memo: dict) -> "Counted":
        copied = Counted.__new__(Counted)
        memo[id(self)] = copied
        nn.Module.__init__(copied)
        copied.inner, copied.rows, copied.training = self.inner, self.rows, self.training
        return copied

    def forward(self, x: Tensor) -> Tensor:
        self.rows[0] += len(x)
        y = self.inner(x)
        return y if float(y.sum()) > 0 else y * 1.0


def trained(model: nn.Module, kind: str | None = None, only: Only | None = None) -> Tensor:
    task = made(Case(lambda: model, CASES["frozen forward"].loss, "classes", "any"))
    live = None if only is None else only.draw(task.problem, PublicSeed(0), 0, None)
    trainer, block = Sgd(0.2, 4, None), task.block(EVERYONE, SECRET)
    return trainer.fit(block, Plan(1, flatten(model), live), Engine(kind))


def fresh(inner: nn.Module | None = None, **given: bool) -> tuple[Frozen, Counted]:
    torch.manual_seed(5)
    body = Counted(inner or nn.Sequential(nn.Linear(WIDTH, 30), nn.Tanh(), nn.Linear(30, WIDTH)))
    return Frozen(body, **given), body


@pytest.mark.parametrize("kind", ["lockstep", "vmap", "loop"])
def test_once_per_sample(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    model, body = fresh()
    fast = trained(model, kind)
    once = body.rows[0]
    again, other = fresh(skip=False)
    traced._known[again] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traced, "cut", lambda *_: None)
        slow = trained(again, "loop")
    assert (fast - slow).norm() < 1e-5 * slow.norm()
    assert other.rows[0] >= 4 * CLIENTS * ROWS  # four steps
    assert once < 2 * CLIENTS * ROWS + 20  # once, and what looking at it takes
    assert not caplog.records


@pytest.mark.parametrize("inner", ["transformer", "dropout in eval"])
def test_bodies_of_any_kind(inner: str) -> None:
    """What they do with a row is tried, not known from a list."""

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = encoder() if inner == "transformer" else nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()

        def forward(self, x: Tensor) -> Tensor:
            rows = x.unflatten(1, (2, 4))
            return self.layer(rows.repeat(1, 1, 2))[:, 0] if inner == "transformer" else self.layer(rows).flatten(1)

    torch.manual_seed(5)
    model = Frozen(Rows())
    assert traced.cut(model, torch.rand(4, WIDTH), None) is not None
    task = made(Case(lambda: model, CASES["frozen forward"].loss, "classes", "any"))
    assert choose(task.problem, task.population) in ("lockstep", "vmap")  # that of the head


def test_layers_that_train_and_are_not_live() -> None:
    """Their weights are in front in the flat vector, and stay."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.sin(self.body(x)))

    model = Two()
    live = torch.arange(WIDTH * WIDTH + WIDTH, WIDTH * WIDTH + WIDTH + 3 * WIDTH + 3)
    found = traced.cut(model, torch.rand(4, WIDTH), live)
    assert found is not None
    assert found.start == WIDTH * WIDTH + WIDTH
    for kind in ("lockstep", "vmap", "loop"):
        fast = trained(model, kind, Only("head"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(traced, "cut", lambda *_: None)
            slow = trained(model, "loop", Only("head"))
        assert (fast - slow).norm() < 1e-5 * slow.norm()


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y - y.mean(0)


class Lengths(Frozen):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[: len(x)])


@pytest.mark.parametrize(
    "model",
    [lambda: Frozen(skip=True), lambda: Frozen(Mixing()), Lengths],
    ids=["beside", "mixes", "lengths"],
)
def test_what_cannot_be_cut_is_said(model, caplog: pytest.LogCaptureFixture) -> None:
    """Rows that go beside the body, a body that mixes rows, code that cannot be followed: all in every step."""
    with caplog.at_level(logging.WARNING, "hush"):
        assert traced.cut(whole := model(), torch.rand(4, WIDTH), None) is None
        assert traced.cut(whole, torch.rand(4, WIDTH), None) is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("body does not train and still runs in every step: with nn.Sequential(body, the rest)")
    assert "\n" not in line


def test_adapters_are_not_a_body(caplog: pytest.LogCaptureFixture) -> None:
    """Frozen weights between live ones run in every step, and nobody can help it."""
    case = CASES["lora"]
    task = made(case)
    live = case.only.draw(task.problem, PublicSeed(0), 0, None)
    assert traced.cut(task.model, task.train.inputs, live) is None
    assert not caplog.records
