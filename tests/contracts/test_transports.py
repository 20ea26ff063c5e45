"""Local and Loopback are one: the same weights and the same bytes."""

from dataclasses import replace

import pytest
import torch

from contracts.parts import run
from hush.catalogue import ENTRIES, Entry, Knobs
from hush.rounds import Report
from hush.sampling import Fixed, Poisson
from hush.scheme import Scheme
from hush.stages import AdaptiveClip
from hush.task import Task
from hush.transports import Local, Loopback
from hush.weights import flatten

SAMPLINGS = {"fixed": Fixed(5), "poisson": Poisson(0.4)}


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_blocks_of_one_are_loopback(entry: Entry, sampling: str, task: Task, knobs: Knobs) -> None:
    scheme = entry.scheme(replace(knobs, sampling=SAMPLINGS[sampling]))
    local, bytewise = (run(scheme, task, 2, transport=t) for t in (Local(block=1), Loopback()))
    for one, other in zip(local, bytewise, strict=True):
        assert torch.equal(one.state.weights, other.state.weights)
        assert one.bytes == other.bytes
        assert one.epsilon == other.epsilon
    assert (local[-1].state.traffic.counts == bytewise[-1].state.traffic.counts).all()
    assert not torch.equal(local[-1].state.weights, flatten(task.model))


@pytest.mark.parametrize("other", [{"vote": 0.5}, {"clip": AdaptiveClip(0.3)}], ids=["vote", "adaptive"])
def test_blocks_of_one_are_loopback_with_other_parts(other: dict, task: Task, knobs: Knobs) -> None:
    scheme = ENTRIES["fl-top-dp"].scheme(replace(knobs, **other))
    local, bytewise = (run(scheme, task, transport=t)[-1] for t in (Local(block=1), Loopback()))
    assert torch.equal(local.state.weights, bytewise.state.weights)
    assert local.clip == bytewise.clip
    assert (local.state.traffic.counts == bytewise.state.traffic.counts).all()


def test_blocks_agree(entry: Entry, task: Task, knobs: Knobs) -> None:
    """One, 7 and 100 clients at a time: the same cohorts and noise, sums that differ in rounding only."""
    scheme = entry.scheme(replace(knobs, sampling=Fixed(10)))
    start = flatten(task.model)
    one, seven, hundred = (run(scheme, task, 2, transport=Local(block=b))[-1] for b in (1, 7, 100))
    moved = one.state.weights - start
    for other in (seven, hundred):
        assert other.bytes == one.bytes
        assert (other.state.weights - one.state.weights).norm() <= 1e-5 * moved.norm()


def dropping(scheme: Scheme, task: Task, lost: int) -> tuple[list[Report], list[Report]]:
    """The same run over both, in which the first `lost` of 12 clients do not answer in round 2."""

    def gone(round: int, client: int) -> bool:
        return round == 2 and client < lost

    local, bytewise = (run(scheme, task, transport=t) for t in (Local(1, gone), Loopback(gone)))
    return local, bytewise


def test_dropouts_cost_the_same_bytes(entry: Entry, task: Task, knobs: Knobs) -> None:
    """The plan went to all 12; the 9 that the round relies on have answered."""
    scheme = entry.scheme(replace(knobs, sampling=Fixed(12, tolerance=0.25)))
    local, bytewise = dropping(scheme, task, lost=3)
    assert not any(report.aborted for report in (*local, *bytewise))
    assert torch.equal(local[-1].state.weights, bytewise[-1].state.weights)
    assert (local[-1].state.traffic.counts == bytewise[-1].state.traffic.counts).all()
    assert local[1].cohort == 9


@pytest.mark.parametrize("name", ["fl-std", "fl-top-dp"])
def test_an_aborted_round_costs_the_same_bytes(name: str, task: Task, knobs: Knobs) -> None:
    """Those that stayed have uploaded, whether or not the round counts."""
    scheme = ENTRIES[name].scheme(replace(knobs, sampling=Fixed(12, tolerance=0.25)))
    local, bytewise = dropping(scheme, task, lost=4)
    assert [r.aborted for r in local] == [r.aborted for r in bytewise] == [False, True, False]
    assert torch.equal(local[-1].state.weights, bytewise[-1].state.weights)
    assert (local[-1].state.traffic.counts == bytewise[-1].state.traffic.counts).all()
