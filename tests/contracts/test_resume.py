"""A run goes on from an earlier state as if it had never stopped."""

import copy
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contracts.parts import run
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.rounds import State
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake
from hush.experiment.checkpoint import load_state, save_state
from hush.federation.simulated import rounds
from hush.parts.sampling import Poisson
from hush.parts.stages import AdaptiveClip
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed


def halfway(scheme: Scheme, task: Task) -> tuple[State, Ledger]:
    """Copies of what two rounds leave, the state by way of the disk."""
    ledger = Ledger()
    *_, report = rounds(scheme, task, rounds=2, seed=4, ledger=ledger, accountant="rdp")
    with tempfile.TemporaryDirectory() as folder:
        save_state(Path(folder) / "state", report.state, {})
        return load_state(Path(folder) / "state")[0], copy.deepcopy(ledger)


def assert_goes_on(scheme: Scheme, task: Task) -> None:
    whole = run(scheme, task, 4)
    state, ledger = halfway(scheme, task)
    rest = run(scheme, task, 4, state=state, ledger=ledger)
    assert [report.round for report in rest] == [3, 4]
    for one, other in zip(whole[2:], rest, strict=True):
        assert torch.equal(one.state.weights, other.state.weights)
        assert (one.bytes, one.epsilon, one.clip, one.cohort) == (
            other.bytes,
            other.epsilon,
            other.clip,
            other.cohort,
        )
    assert torch.equal(torch.cat(list(whole[-1].models)), torch.cat(list(rest[-1].models)))


def test_resume(entry: Entry, task: Task, settings: Settings) -> None:
    assert_goes_on(entry.scheme(settings), task)


def test_resume_of_clients_that_are_alone(task: Task, settings: Settings) -> None:
    assert_goes_on(ENTRIES["standalone"].scheme(settings), task)


@pytest.mark.parametrize(
    "other",
    [{"vote": 0.5}, {"clip": AdaptiveClip(0.3)}, {"sampling": Poisson(0.3)}],
    ids=["vote", "adaptive", "poisson"],
)
def test_resume_with_other_parts(other: dict, task: Task, settings: Settings) -> None:
    assert_goes_on(ENTRIES["fl-top-dp"].scheme(replace(settings, **other)), task)


def test_a_repeated_round_is_paid_once(task: Task, settings: Settings) -> None:
    """The ledger was ahead of the state, as after a kill: the same noise again is the same release."""
    scheme, ledger = ENTRIES["fl-top-dp"].scheme(settings), Ledger()
    whole = run(scheme, task, 4, ledger=ledger)
    state, _ = halfway(scheme, task)
    rest = run(scheme, task, 4, state=state, ledger=ledger, replay=True)
    assert [event.round for event in ledger.events] == [1, 2, 3, 4]
    assert rest[-1].epsilon == whole[-1].epsilon
    assert torch.equal(rest[-1].state.weights, whole[-1].state.weights)


def test_a_second_training_on_one_ledger_is_paid_again(task: Task, settings: Settings) -> None:
    """Equal events of another training are other releases, whatever the seed."""
    scheme, ledger = ENTRIES["fl-top-dp"].scheme(settings), Ledger()
    run(scheme, task, 2, ledger=ledger)
    run(replace(scheme, trainer=replace(scheme.trainer, rate=0.5)), task, 2, ledger=ledger)
    assert [event.round for event in ledger.events] == [1, 2, 1, 2]


def test_noise_that_cannot_be_repeated_is_paid_again(task: Task, settings: Settings) -> None:
    """A deployment's resumed round draws other noise: another release, even with replay."""
    scheme, ledger, secret = ENTRIES["fl-top-dp"].scheme(settings), Ledger(), SecretSeed.system()
    first = run(scheme, task, 1, ledger=ledger, secret=secret)
    again = run(scheme, task, 1, ledger=ledger, secret=secret, replay=True)
    assert not torch.equal(first[0].state.weights, again[0].state.weights)
    assert [event.round for event in ledger.events] == [1, 1]


def test_a_private_run_does_not_go_on_without_its_ledger(task: Task, settings: Settings) -> None:
    """The rounds before were released too: forgetting their events would lower epsilon."""
    scheme = ENTRIES["fl-top-dp"].scheme(settings)
    state, _ = halfway(scheme, task)
    with pytest.raises(Mistake, match="ledger"):
        run(scheme, task, 4, state=state)
