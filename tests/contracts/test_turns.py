"""The contracts of a scheme whose noise counts on turns: what others show with cohorts at random, shown with Once."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from contracts.parts import Still, Watch, run, wide
from contracts.test_bounds import before_noise
from contracts.test_resume import assert_goes_on
from contracts.test_secure import assert_same, losing, trained
from hush.catalogue.entries import ENTRIES, scheme
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation import messages
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed, Once, Poisson
from hush.parts.stages import AdaptiveClip, Clip, CorrelatedNoise, Quantise, Rotate
from hush.privacy.accountants import gaussian_epsilon

N, SIGMA, FOUR = 910, 3.731, Once(4)


def by_turns(settings: Settings, sampling: Once = FOUR) -> Scheme:
    """hush-trusted for the 12 clients of the small task, in 4 cohorts of 3."""
    return ENTRIES["hush-trusted"].scheme(replace(settings, sampling=sampling, noise=SIGMA))


def test_the_noise_follows_the_turns(settings: Settings) -> None:
    """Its rounds and passes are those of the sampling; without one the entry has its own."""
    for sampling in (Once(4), Once(3, passes=2)):
        stages = by_turns(settings, sampling).stages
        assert stages == (settings.clip, CorrelatedNoise(SIGMA, sampling.rounds, sampling.passes))
    usual = ENTRIES["hush-trusted"].usual
    for found in (
        scheme("hush-trusted", noise=2.0),
        ENTRIES["hush-trusted"].scheme(Settings(noise=2.0, clip=Clip(1.0))),
    ):
        assert found.sampling == usual["sampling"]
        assert found.source == CorrelatedNoise(2.0, usual["rounds"])


@pytest.mark.parametrize("sampling", [Fixed(3), Poisson(0.3)])
def test_other_sampling_is_refused(sampling: Fixed | Poisson, settings: Settings) -> None:
    with pytest.raises(Mistake, match=rf"sampling={sampling.kind} has no turns.*: take once"):
        ENTRIES["hush-trusted"].scheme(replace(settings, sampling=sampling))


def test_a_bound_that_moves_is_refused(task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match=r"this bound moves: take Clip\(c\)"):
        run(by_turns(replace(settings, clip=AdaptiveClip())), task, 1)


def test_blocks_of_one_are_loopback(task: Task, settings: Settings) -> None:
    """The same weights and bytes; each client sends its numbers once, and those of round 1 get none."""
    local, bytewise = (run(by_turns(settings), task, 4, transport=t) for t in (Simulated(block=1), Loopback()))
    for t, (one, other) in enumerate(zip(local, bytewise, strict=True), 1):
        assert torch.equal(one.state.weights, other.state.weights)
        assert (one.bytes, one.epsilon) == (other.bytes, other.epsilon)
        assert one.bytes["up"]["payload"] == {"mean": pytest.approx(4 * N * t / 4), "max": 4 * N}
        assert one.bytes["down"]["payload"]["mean"] == pytest.approx(4 * N * (t - 1) / 4)
    seven = run(by_turns(settings), task, 4, transport=Simulated(block=7))[-1].state.weights
    moved = local[-1].state.weights - flatten(task.model)
    assert (seven - local[-1].state.weights).norm() <= 1e-5 * moved.norm()


def test_a_client_rebuilds_the_weights(task: Task, settings: Settings) -> None:
    watch, turns = Watch(), by_turns(settings)
    run(turns, task, 4, transport=watch)
    for plan in watch.plans:
        message = messages.pack_plan(plan.to([0]), turns.coordinates)
        found = messages.unpack_plan(message.data, flatten(task.model), plan.live, turns.coordinates, turns.seated)
        assert torch.equal(found.weights, plan.weights)


@pytest.mark.parametrize("passes", [1, 2])
def test_what_it_costs_and_whom_it_hides_from(passes: int, task: Task, settings: Settings) -> None:
    """A Gaussian release for each of a client's own rounds; the server is trusted. The event is written first."""
    watch = Watch()
    reports = run(
        by_turns(settings, Once(4, passes)), task, 4 * passes, transport=watch, ledger=watch.ledger, accountant="pld"
    )
    spent = [gaussian_epsilon(math.sqrt(1 + t // 4) / SIGMA, 1e-5) for t in range(4 * passes)]
    assert [report.epsilon["model"] for report in reports] == pytest.approx(spent)
    assert {report.epsilon[view] for report in reports for view in ("server", "upload")} == {"none"}
    assert [len(held) for held in watch.held] == list(range(1, 4 * passes + 1))
    for event in watch.ledger.events:
        assert (event.noise, event.server, event.share) == (SIGMA, 0.0, 0.0)
        assert (event.rate, event.sampling, event.slack) == (1.0, "once", 0.0)
    assert all(plan.floor == 0 for plan in watch.plans)  # it relies on nobody's share
    assert np.array_equal(np.sort(np.concatenate(watch.cohorts[:4])), np.arange(12))
    assert watch.cohorts[:4] == watch.cohorts[-4:]


def test_a_broken_upload_says_nothing(task: Task, settings: Settings) -> None:
    """One client moves the sum by the bound at most, whatever it has learned."""
    turns = by_turns(settings)
    bound = turns.specs(N)[-2].l2
    assert bound == pytest.approx(settings.clip.bound, rel=1e-5)
    sent, _ = before_noise(turns, torch.tensor([[math.nan] * N, [1e30] * N, [0.0] * N]))
    assert (sent.double().norm(dim=1) <= bound).all()
    assert not sent[0].any()


def test_lost_clients_take_no_noise_with_them(task: Task, settings: Settings) -> None:
    """The noise is the server's: however many stay, it is the same; without anybody it is all there is."""
    turns = replace(by_turns(settings), trainer=Still())
    whole, some, none = (
        run(turns, task, 4, transport=Simulated(lost=lambda round, client, k=k: client < k)) for k in (0, 5, 12)
    )
    assert whole[0].cohort == 3
    for one, other, third in zip(whole, some, none, strict=True):
        assert torch.equal(one.state.weights, other.state.weights)
        assert torch.equal(one.state.weights, third.state.weights)


def test_an_aborted_round_leaves_the_others_as_they_are(task: Task, settings: Settings) -> None:
    """It releases nothing and is paid for; the noise of later rounds does not depend on it."""
    turns = secured(replace(by_turns(settings), trainer=Still()), task, bits=24)
    watch = Watch(inner=Simulated(lost=lambda round, client: round == 2))
    whole, broken = run(turns, task, 4), run(turns, task, 4, transport=watch, ledger=watch.ledger)
    assert [report.aborted for report in broken] == [False, True, False, False]
    assert torch.equal(broken[1].state.weights, broken[0].state.weights)
    for t in (2, 3):
        moved = [(reports[t].state.weights - reports[t - 1].state.weights) for reports in (whole, broken)]
        assert moved[0].norm() > 1e-3
        torch.testing.assert_close(moved[0], moved[1], rtol=0, atol=1e-5 * float(whole[-1].state.weights.abs().max()))
    assert [event.round for event in watch.ledger.events] == [1, 2, 3, 4]


@pytest.mark.parametrize("whole", [False, True], ids=["floats", "integers"])
def test_resume(whole: bool, task: Task, settings: Settings) -> None:
    turns = by_turns(settings, Once(4 if not whole else 2, passes=1 if not whole else 2))
    assert_goes_on(secured(turns, task) if whole else turns, task)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_secure_sum_of_turns(servers, task: Task, settings: Settings) -> None:
    """Cohorts of 6, of which one is lost in round 2 and two in round 3, which is aborted; simulated is full."""
    base = by_turns(settings, Once(2, passes=2, tolerance=0.2))
    short, full = (secured(base, task, servers=servers, full=whole) for whole in (False, True))
    assert [type(stage) for stage in short.stages] == [Clip, Rotate, Quantise, CorrelatedNoise]
    assert short.source == base.source
    lost = losing(short, task, {2: 1, 3: 2})
    found = trained(short, task, Simulated(4, lost), 4)
    assert [report.cohort for report in found[0]] == [6, 5, 0, 6]
    assert found[0][-1].epsilon["server"] == "none"
    assert_same(found, trained(full, task, Loopback(lost), 4))


@pytest.mark.parametrize("whole", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("sampling", [Once(3), Once(2, passes=2)], ids=["once", "twice"])
def test_deviation(sampling: Once, whole: bool, settings: Settings) -> None:
    """Of what clients that say nothing leave in the model: after each round as the proof has it, and no less."""
    task = wide(lambda: nn.Linear(1000, 100), 10)
    turns = replace(by_turns(settings, sampling), trainer=Still())
    turns = secured(turns, task, bits=24) if whole else turns
    stated = SIGMA * settings.clip.bound * turns.source.correlation.deviations
    for report, deviation in zip(run(turns, task, sampling.rounds), stated, strict=True):
        left = (report.state.weights.double() - flatten(task.model)) * 10 / sampling.cohorts
        assert float(left.std()) == pytest.approx(deviation, rel=0.01)
