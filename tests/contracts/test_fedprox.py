"""The worked example of docs/schemes.md: a trainer that hush has never seen, in a file of its own."""

import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from contracts.parts import run
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.errors import Mistake
from hush.experiment import own
from hush.experiment.resolving import Experiment
from hush.experiment.settings import Config, SchemeTable
from hush.experiment.statement import facts
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.registry import from_json
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip
from hush.parts.trainers import Sgd
from hush.privacy.card import card, render
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed

FILE = Path(__file__).parents[2] / "examples" / "fedprox.py"
SETTINGS = Settings(sampling=Fixed(5), rate=0.2, steps=3, batch=5, clip=Clip(0.4), noise=1.2)
OPEN, PRIVATE = (own.entry(f"{FILE}:{name}").scheme(SETTINGS) for name in ("scheme", "private"))
EACH = pytest.mark.parametrize("scheme", [OPEN, PRIVATE], ids=["scheme", "private"])


def updates(trainer, task: Task, live: torch.Tensor | None = None) -> torch.Tensor:
    block = task.block(np.arange(task.clients), SecretSeed.simulated(1))
    return trainer.fit(block, Plan(1, flatten(task.model), live), Engine())


@pytest.mark.parametrize("live", [None, torch.arange(5, 300, 3)], ids=["all", "some"])
@pytest.mark.parametrize("batch", [5, None])
def test_without_its_term_it_is_sgd(batch: int | None, live: torch.Tensor | None, task: Task) -> None:
    plain = updates(Sgd(0.2, 3, batch), task, live)
    torch.testing.assert_close(updates(replace(OPEN.trainer, batch=batch, mu=0.0), task, live), plain)
    assert plain.norm() > 0.1


def test_its_term_keeps_every_client_near(task: Task) -> None:
    norms = [updates(replace(OPEN.trainer, mu=mu), task).norm(dim=1) for mu in (0.0, 0.1, 1.0, 2.0)]
    for less, more in pairwise(norms):
        assert (more < less).all()


def test_one_step_of_the_term(task: Task) -> None:
    """The second step adds -rate mu u to the update u of the first."""
    one, two, near = (
        updates(replace(OPEN.trainer, batch=None, steps=s, mu=m), task) for s, m in [(1, 0), (2, 0), (2, 0.5)]
    )
    torch.testing.assert_close(near, two - 0.2 * 0.5 * one)


def test_running_statistics_are_refused(make) -> None:
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10)))
    with pytest.raises(Mistake, match="running statistics"):
        OPEN.check(task)


@EACH
def test_sessions_give_the_weights_and_bytes_of_a_simulation(scheme: Scheme, task: Task) -> None:
    local, bytewise = (run(scheme, task, 2, transport=t)[-1] for t in (Simulated(1, exact=True), Loopback()))
    assert torch.equal(local.state.weights, bytewise.state.weights)
    assert (local.bytes, local.epsilon) == (bytewise.bytes, bytewise.epsilon)
    assert not torch.equal(local.state.weights, flatten(task.model))


@EACH
def test_resume(scheme: Scheme, task: Task) -> None:
    whole, ledger = run(scheme, task, 3), Ledger()
    state = run(scheme, task, 1, ledger=ledger)[-1].state.copy()
    rest = run(scheme, task, 3, state=state, ledger=copy.deepcopy(ledger))
    assert torch.equal(whole[-1].state.weights, rest[-1].state.weights)
    assert (whole[-1].bytes, whole[-1].epsilon) == (rest[-1].bytes, rest[-1].epsilon)


@EACH
def test_a_secure_sum(scheme: Scheme, task: Task) -> None:
    found = secured(scheme, task)
    found.check(task)
    one, other = (run(each, task, 2)[-1] for each in (scheme, found))
    if scheme.private:
        assert other.epsilon["model"] == pytest.approx(one.epsilon["model"], rel=1e-5)
    else:
        torch.testing.assert_close(other.state.weights, one.state.weights, atol=1e-5, rtol=0)


@EACH
def test_json(scheme: Scheme) -> None:
    assert from_json(scheme.to_json(), type(scheme.trainer)) == scheme


def test_event_and_card(task: Task) -> None:
    ledger = Ledger()
    report = run(PRIVATE, task, 2, ledger=ledger)[-1]
    assert [(event.noise, event.level) for event in ledger.events] == [(1.2, "client")] * 2
    config = Config(scheme=SchemeTable(name=f"{FILE}:private", delta=1e-5, accountant="rdp"))
    found = card(facts(Experiment(config, task, PRIVATE, Engine(), ()), report.state, ledger.events))
    assert "client level" in render(found)
    assert {row["epsilon"] for row in found["adversaries"]} <= set(report.epsilon.values())
