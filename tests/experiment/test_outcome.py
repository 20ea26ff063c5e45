"""A result is held against a guess, and the clip is tried on the server's own rows."""

from dataclasses import replace

import pytest
import torch

from hush.core.state import State
from hush.core.task import Task
from hush.data.samples import Samples
from hush.experiment import config
from hush.experiment.outcome import clipping, outcome
from hush.experiment.resolving import build
from hush.experiment.statement import planned
from hush.random.seeds import PublicSeed


def built(name="fl-top-dp", clip=0.5, rounds=2, **scheme):
    given = {"name": name, "clip": clip, "noise": 1.0, **scheme}
    if name == "fl-top-dp":
        given["ratio"] = 0.2
    tables = {"data": {"name": "digits"}, "model": {"name": "linear"}, "scheme": given, "run": {"rounds": rounds}}
    return build(config.parse(tables, "test"))


def begun(experiment):
    """The state before the first round, with the coordinates that train."""
    state = State.first(experiment.task)
    live = experiment.scheme.coordinates.draw(experiment.task.problem, PublicSeed(0), 0, None)
    return replace(state, live=live)


@pytest.mark.parametrize(
    ("name", "clip", "said"),
    [
        ("fl-top-dp", 100.0, "nobody"),
        ("fl-top-dp", 1e-6, "everybody"),
        ("fl-standard-dp", 1e3, "nobody"),
        ("fl-standard-dp", 1e-6, "everybody"),
    ],
)
def test_a_bound_that_clips_nobody_or_everybody_is_found(name, clip, said):
    experiment = built(name, clip)
    found = clipping(experiment, begun(experiment))
    assert (found["first"], found["last"], found["bound"], found["tuned"]) == (said, said, clip, False)
    assert found["trials"] >= 8


@pytest.mark.parametrize("name", ["fl-top-dp", "fl-standard-dp"])
def test_a_bound_between_clips_some(name):
    """The last weights are far along: by the first, some norms are above a bound that is in their midst."""
    state, low, high, found = begun(built(name, 1e3)), 1e-6, 1e3, "none tried"
    for _ in range(40):  # bisection by the only answer it gives
        middle = (low * high) ** 0.5
        found = clipping(built(name, middle), state)["first"]
        if found == "some":
            break
        low, high = (middle, high) if found == "everybody" else (low, middle)
    assert found == "some"


def test_the_trial_reads_no_row_of_a_client():
    experiment = built(clip=0.01)
    task = experiment.task
    other = Samples(torch.full_like(task.train.inputs, 1e6), task.train.targets)
    strange = replace(experiment, task=Task(task.model, task.loss, other, task.split, task.test, task.public))
    state = begun(experiment)
    assert clipping(strange, state) == clipping(experiment, state) is not None


def test_an_adaptive_bound_is_the_one_of_the_state():
    experiment = built(clip="adaptive")
    state = begun(experiment)
    assert clipping(experiment, replace(state, clip=1e-6))["last"] == "everybody"
    assert clipping(experiment, replace(state, clip=1e-6))["adaptive"]
    assert not clipping(built("fl-top-dp", 1e-6), state)["adaptive"]
    assert clipping(experiment, replace(state, clip=1e3))["last"] == "nobody"


def test_schemes_without_a_bound_have_no_trial():
    experiment = build(config.parse({"data": {"name": "digits"}, "scheme": {"name": "fl-std"}}, "test"))
    assert clipping(experiment, State.first(experiment.task)) is None


def test_the_result_is_that_of_the_rounds_so_far(tmp_path):
    from hush.experiment import directory

    experiment = built(rounds=2)
    path = tmp_path / "run"
    directory.open_directory(path, experiment.config, resume=False)
    rows = list(directory.execute(experiment, path))
    state = replace(State.first(experiment.task), round=1)
    found = outcome(experiment, state, path)
    assert found.clipping is None  # the run is not over then
    assert (found.result["round"], found.result["value"]) == (1, rows[0]["accuracy"])
    counts = torch.bincount(experiment.task.test.targets)
    assert found.result["guess"] == pytest.approx(float(counts.max() / counts.sum()))


def test_what_is_known_beforehand_is_warned_of_beforehand():
    tables = {
        "data": {"name": "digits", "clients": 40},
        "model": {"name": "linear"},
        "scheme": {"name": "fl-top-dp", "ratio": 0.2, "clip": 1.0, "epsilon": 12.0, "delta": 0.05},
        "sampling": {"cohort": 20},
        "run": {"rounds": 2},
    }
    few, delta, large = planned(build(config.parse(tables, "test")))
    assert few.startswith("40 clients are few")
    assert delta.startswith("delta 0.05 is not below 1/40")
    assert large.startswith("epsilon is 12.00 against whoever receives the models")
    assert planned(build(config.parse({"data": {"name": "digits"}, "scheme": {"name": "fl-std"}}, "test"))) == []
