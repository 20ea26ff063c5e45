"""Schemes that protect records: the event first, the noise that it states, views with the record's own probability."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from contracts.parts import Watch, run, wide
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import AdaptiveClip, Clip, Noise, Weigh
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, views
from hush.random.seeds import SecretSeed

SAMPLINGS = {"fixed": Fixed(5), "poisson": Poisson(0.4)}
SIGMA, S = 1.3, 0.7


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("batches", ["poisson", "fixed"])
def test_event_first_and_epsilon_grows(
    record: Entry, sampling: str, batches: str, task: Task, settings: Settings
) -> None:
    settings = replace(settings, sampling=SAMPLINGS[sampling], batches=batches, noise=2.0)
    watch = Watch()
    reports = run(record.scheme(settings), task, 4, transport=watch, ledger=watch.ledger)
    assert [len(held) for held in watch.held] == [1, 2, 3, 4]
    for event in watch.ledger.events:
        assert (event.level, event.steps, event.reach, event.batches) == ("record", settings.steps, 1, batches)
        assert (event.noise, event.share) == (2.0, 2.0)
        assert event.batch == 1.0  # the smallest client has one record
        assert event.rate == pytest.approx(5 / 12 if sampling == "fixed" else 0.4)
    spent = [report.epsilon["model"] for report in reports]
    assert all(0 < before < after for before, after in pairwise(spent))
    # A single upload carries all of its client's noise: it is as safe as what the server sees.
    assert all(report.epsilon["upload"] == report.epsilon["server"] for report in reports)


def test_the_views_know_each_client_s_chance(record: Entry, task: Task, settings: Settings) -> None:
    watch = Watch()
    scheme = record.scheme(settings)
    report = run(scheme, task, transport=watch, ledger=watch.ledger)[-1]
    joined = Participation(task.clients)
    joined.probabilities = np.minimum(1, settings.batch / task.split.sizes.numpy())
    for event, cohort in zip(watch.ledger.events, watch.cohorts, strict=True):
        joined.add(event, cohort)
    assert report.epsilon == views(watch.ledger.events, joined, 1e-5, "rdp")


def test_the_noise_that_the_event_states() -> None:
    """With gradients of zero, what is left is the noise: rate/batch * S sigma at each client (Alg. 6 prints sigma)."""
    task = wide(lambda: nn.Linear(1000, 1000), 4)
    task = Task(task.model, lambda output, target: 0 * output.sum(), task.train, task.split)
    settings = Settings(sampling=Fixed(4), rate=0.5, steps=1, batch=8, clip=Clip(S), noise=SIGMA)
    report = run(ENTRIES["fl-standard-dp"].scheme(settings), task, 1)[0]
    moved = report.state.weights.double() - flatten(task.model)
    # The mean of four clients; float32 weights round what is added to them.
    assert float(moved.std()) == pytest.approx(0.5 / 8 * S * SIGMA / math.sqrt(4), rel=0.01)


def test_signs_are_of_the_noisy_update(task: Task, settings: Settings) -> None:
    watch = Watch()
    sign = ENTRIES["fl-sign-dp"].scheme(settings)
    run(sign, task, 1, transport=watch)
    plan, members, secret = watch.plans[0], np.arange(3), SecretSeed.simulated(9)
    whole = replace(sign, stages=()).client(task.block(members, secret), plan)
    assert torch.equal(sign.client(task.block(members, secret), plan), whole.sign())


def test_a_lost_client_costs_no_privacy_but_stays_charged(record: Entry, task: Task, settings: Settings) -> None:
    ledger = Ledger()
    scheme = record.scheme(replace(settings, sampling=Fixed(12, tolerance=0.5)))
    one, two = run(scheme, task, 2, transport=Simulated(lost=lambda round, client: client < 4), ledger=ledger)
    assert (one.cohort, one.aborted) == (8, False)
    assert two.epsilon["server"] > one.epsilon["server"]
    assert len(ledger.events) == 2


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"stages": (Clip(1.0), Noise(1.0))}, "one ledger holds one of them"),
        ({"stages": (Weigh(),)}, "reveals each client's number of records"),
    ],
)
def test_refused(wrong: dict, sentence: str, task: Task, settings: Settings) -> None:
    scheme = replace(ENTRIES["fl-standard-dp"].scheme(settings), **wrong)
    with pytest.raises(Mistake, match=sentence):
        run(scheme, task, 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"noise": None}, "needs its noise"),
        ({"epochs": 2}, "give steps"),
        ({"batch": None}, "give batch"),
        ({"clip": AdaptiveClip()}, "fixed bound"),
    ],
)
def test_knobs_refused(wrong: dict, sentence: str, record: Entry, settings: Settings) -> None:
    with pytest.raises(Mistake, match=sentence):
        record.scheme(replace(settings, **wrong))


def test_all_data_in_one_place(task: Task, settings: Settings) -> None:
    """centralized is plain training: nothing travels, and nothing is protected."""
    whole = Task(task.model, task.loss, task.train, [list(range(len(task.train)))], task.test)
    report = run(ENTRIES["centralized"].scheme(settings), whole)[-1]
    assert all(value == 0 for way in report.bytes.values() for kind in way.values() for value in kind.values())
    assert set(report.epsilon.values()) == {"none"}
    assert not torch.equal(report.state.weights, flatten(task.model))
