"""The loop: what stops it, what it refuses, and what it reports."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from hush.catalogue import ENTRIES, Knobs
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.metrics import evaluate
from hush.privacy.ledger import Ledger
from hush.rounds import State, rounds
from hush.sampling import Fixed, Poisson
from hush.steps import Average
from hush.task import Task
from hush.weights import flatten


def normed(make) -> Task:
    return make(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10)))


def poisoned(task: Task) -> Task:
    """Client 3 holds a row of NaN, and has no more rows than a batch."""
    inputs = task.train.inputs.clone()
    inputs[task.split.rows_of(3)[0]] = math.nan
    return replace(task, train=Samples(inputs, task.train.targets))


@pytest.mark.parametrize("name", ["fl-std", "fl-top", "fl-bas-2"])
def test_nan_stops_the_run(name: str, task: Task, knobs: Knobs) -> None:
    """One bad record is enough; the state keeps the weights of the last good round."""
    state = State.first(task)
    scheme = ENTRIES[name].scheme(replace(knobs, sampling=Fixed(12)))
    with pytest.raises(Mistake, match=r"round 1: .*no longer finite.*lower the training rate"):
        list(rounds(scheme, poisoned(task), rounds=3, state=state))
    assert state.round == 0
    assert torch.equal(state.weights, flatten(task.model))


def test_weights_that_overflow_stop_a_private_run(task: Task, knobs: Knobs) -> None:
    """What was released before the weights were looked at is in the ledger."""
    scheme = replace(ENTRIES["fl-std-dp"].scheme(knobs), step=Average(rate=1e41))
    ledger = Ledger()
    with pytest.raises(Mistake, match=r"round 1: .*no longer finite"):
        list(rounds(scheme, task, rounds=3, ledger=ledger))
    assert len(ledger.events) == 1


def test_a_client_of_nan_does_not_stop_a_private_run(task: Task, knobs: Knobs) -> None:
    scheme = ENTRIES["fl-std-dp"].scheme(replace(knobs, sampling=Fixed(12)))
    *_, report = rounds(scheme, poisoned(task), rounds=2, accountant="rdp")
    assert report.state.weights.isfinite().all()


@pytest.mark.parametrize("name", [name for name in ENTRIES if name != "fl-std"])
def test_batch_norm_is_refused(name: str, make, knobs: Knobs) -> None:
    why = "without noise" if name.endswith("-dp") else "do not travel"
    with pytest.raises(Mistake, match=rf"buffers .*{why}.*replace BatchNorm by GroupNorm"):
        next(rounds(ENTRIES[name].scheme(knobs), normed(make), rounds=1))


def test_batch_norm_trains_with_fl_std(make, knobs: Knobs) -> None:
    """The mean of the clients' statistics is what the next round begins with."""
    task = normed(make)
    knobs = replace(knobs, sampling=Fixed(4))
    # a batch of one row has no variance
    sizes = task.split.sizes
    keep = [task.split.rows_of(k) for k in range(task.clients) if sizes[k] > 1]
    task = replace(task, split=type(task.split).of(keep))
    *_, report = rounds(ENTRIES["fl-std"].scheme(knobs), task, rounds=2)
    before, after = dict(task.model.named_buffers()), dict(report.model.named_buffers())
    assert not torch.equal(before["2.running_mean"], after["2.running_mean"])
    assert report.state.weights.isfinite().all()
    assert torch.equal(before["2.running_mean"], torch.zeros(6))


def test_group_norm_is_welcome(make, knobs: Knobs) -> None:
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.GroupNorm(2, 6), nn.Linear(6, 10)))
    *_, report = rounds(ENTRIES["fl-top-dp"].scheme(knobs), task, rounds=1, accountant="rdp")
    assert not torch.equal(report.state.weights, flatten(task.model))


def test_the_model_of_a_report(task: Task, knobs: Knobs) -> None:
    """A copy with the round's weights; the task's own model stays at w_0."""
    start = flatten(task.model)
    *_, report = rounds(ENTRIES["fl-std"].scheme(knobs), task, rounds=1)
    assert torch.equal(flatten(report.model), report.state.weights)
    assert torch.equal(flatten(task.model), start)


def test_it_learns(task: Task, knobs: Knobs) -> None:
    scheme = ENTRIES["fl-std"].scheme(replace(knobs, sampling=Fixed(12)))
    *_, report = rounds(scheme, task, rounds=15)
    assert evaluate(task, report.state.weights).accuracy > 0.5
    assert evaluate(task, flatten(task.model)).accuracy < 0.3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sampling": Fixed(13)}, "cohort=13 is larger than the population of 12"),
        ({"ratio": 1e-6}, "raise it"),
    ],
)
def test_wrong_settings(change: dict, sentence: str, task: Task, knobs: Knobs) -> None:
    with pytest.raises(Mistake, match=sentence):
        next(rounds(ENTRIES["fl-top"].scheme(replace(knobs, **change)), task, rounds=1))


def test_no_rounds(task: Task, knobs: Knobs) -> None:
    with pytest.raises(Mistake, match="rounds=0 must be at least 1"):
        next(rounds(ENTRIES["fl-std"].scheme(knobs), task, rounds=0))


def test_top_k_without_public_data(task: Task, knobs: Knobs) -> None:
    with pytest.raises(Mistake, match="needs a public batch"):
        next(rounds(ENTRIES["fl-top"].scheme(knobs), replace(task, public=None), rounds=1))


def test_an_aborted_vote_stops_the_run(task: Task, knobs: Knobs) -> None:
    knobs = replace(knobs, sampling=Poisson(0.4, floor=12), vote=1.0)
    with pytest.raises(Mistake, match=r"vote on the coordinates failed.*larger cohorts"):
        next(rounds(ENTRIES["fl-top-dp"].scheme(knobs), task, rounds=1))


def test_reports_of_earlier_rounds_are_still_true(task: Task, knobs: Knobs) -> None:
    """Collected reports, each asked for its model at the end, give different models."""
    one, two = rounds(ENTRIES["fl-std"].scheme(knobs), task, rounds=2)
    assert one.state.round == 1
    assert not torch.equal(flatten(one.model), flatten(two.model))


def test_parameters_without_gradient_neither_train_nor_travel(task: Task, knobs: Knobs) -> None:
    model = copy.deepcopy(task.model)
    first = next(model.parameters())
    first.requires_grad_(False)
    frozen = replace(task, model=model)
    scheme = ENTRIES["fl-std"].scheme(knobs)
    *_, report = rounds(scheme, frozen, rounds=1)
    assert report.state.weights.numel() == sum(p.numel() for p in model.parameters()) - first.numel()
    trained = report.model
    assert torch.equal(next(trained.parameters()), first)
    assert not torch.equal(list(trained.parameters())[-1], list(model.parameters())[-1])
