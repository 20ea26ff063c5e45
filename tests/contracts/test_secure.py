"""Every scheme whose uploads add up, in integers: the simulated secure sum is the whole protocol, to the bit,
where both train the same blocks."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts.parts import TURNS, Says, Watch, run
from contracts.test_resume import assert_goes_on
from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.rounds import Report
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import AdaptiveClip
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed

SUMMED = [name for name in ENTRIES if name not in ("two-bit", "standalone", "centralized", *TURNS)]
SEED = 4
Lost = Callable[[int, int], bool]


def losing(scheme: Scheme, task: Task, counts: dict[int, int]) -> Lost:
    """The first so many of a round's cohort drop out before they send their numbers."""
    secret = SecretSeed.simulated(SEED)
    gone = {
        round: set(scheme.sampling.draw(task.clients, secret, round)[:count].tolist())
        for round, count in counts.items()
    }
    return lambda round, client: client in gone.get(round, ())


def trained(scheme: Scheme, task: Task, transport: Simulated | Loopback, total: int = 3) -> tuple[list[Report], Ledger]:
    ledger = Ledger()
    return run(scheme, task, total, SEED, transport=transport, ledger=ledger), ledger


def assert_same(one: tuple[list[Report], Ledger], other: tuple[list[Report], Ledger]) -> None:
    """Weights, bytes of each phase, aborts with their reasons, refusals, clip and what is paid."""
    for a, b in zip(one[0], other[0], strict=True):
        assert torch.equal(a.state.weights, b.state.weights)
        assert (a.bytes, a.cohort, a.clip) == (b.bytes, b.cohort, b.clip)
        assert (a.aborted, a.reason, a.refused) == (b.aborted, b.reason, b.refused)
    last, again = one[0][-1].state.traffic, other[0][-1].state.traffic
    assert np.array_equal(last.counts, again.counts)
    assert last.phases.keys() == again.phases.keys()
    assert all(np.array_equal(last.phases[name], again.phases[name]) for name in last.phases)
    assert one[1].events == other[1].events


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("name", SUMMED)
def test_simulated_is_full(name: str, servers, task: Task, settings: Settings) -> None:
    """All of 8 clients in the first round, 6 in the second, and 5 in the third, which is aborted; one by one on both
    sides, so that the very same products are taken, and here through packed plans."""
    base = ENTRIES[name].scheme(replace(settings, steps=1, sampling=Fixed(8, tolerance=0.25, dropout=0.1)))
    short, whole = (secured(base, task, servers=servers, full=full) for full in (False, True))
    lost = losing(short, task, {2: 2, 3: 3})
    simulated = trained(short, task, Simulated(1, lost, exact=True))
    reports = simulated[0]
    assert [report.cohort for report in reports] == [8, 6, 0]
    what = "masked their numbers" if servers == 1 else "sent both halves"
    assert [r.reason for r in reports] == [
        None,
        None,
        f"round 3: 5 clients {what}, and 6 are needed: nothing is opened",
    ]
    assert not torch.equal(reports[0].state.weights, flatten(task.model))
    assert not torch.equal(reports[1].state.weights, reports[0].state.weights)
    assert torch.equal(reports[2].state.weights, reports[1].state.weights)
    assert_same(simulated, trained(whole, task, Loopback(lost)))


OTHERS = {
    "adaptive": {"clip": AdaptiveClip(0.3), "sampling": Fixed(8)},
    "poisson": {"sampling": Poisson(0.6)},
    "both": {"clip": AdaptiveClip(0.3), "sampling": Poisson(0.6, tolerance=0.2)},
}


@pytest.mark.parametrize("kind", ["skellam", "gaussian"])
@pytest.mark.parametrize("other", OTHERS)
def test_simulated_is_full_with_other_parts(other: str, kind, task: Task, settings: Settings) -> None:
    """A bound that moves with the count in the sum; cohorts of any size, of which those below three are aborted."""
    base = ENTRIES["fl-top-dp"].scheme(replace(settings, steps=1, **OTHERS[other]))
    short, whole = (secured(base, task, kind=kind, full=full) for full in (False, True))
    simulated = trained(short, task, Simulated(1, exact=True))
    assert_same(simulated, trained(whole, task, Loopback()))
    clips = [report.clip for report in simulated[0]]
    assert len(set(clips)) == (1 if other == "poisson" else 3)
    assert not torch.equal(simulated[0][-1].state.weights, flatten(task.model))


def test_the_adaptive_bound_moves_as_it_does_without(task: Task, settings: Settings) -> None:
    """With little noise: the count comes through rotation, rounding and the modulus."""
    base = ENTRIES["fl-std-dp"].scheme(
        replace(settings, noise=0.05, clip=AdaptiveClip(0.3, weight=1.0), sampling=Fixed(12))
    )
    plain, whole = (run(scheme, task, 4, SEED) for scheme in (base, secured(base, task, rounding=0.001)))
    for one, other in zip(plain, whole, strict=True):
        assert other.clip == pytest.approx(one.clip, rel=0.02)
    assert plain[-1].clip != pytest.approx(0.3, rel=0.1)
    moved = [report.state.weights - flatten(task.model) for report in (plain[-1], whole[-1])]
    assert float((moved[0] - moved[1]).norm()) < 0.5 * float(moved[0].norm())


@pytest.mark.parametrize("name", ["fl-top", "fl-std", "fl-cs", "qsgd", "top-k-ef", "fl-standard"])
def test_whole_numbers_train_as_others_do(name: str, task: Task, settings: Settings) -> None:
    """Without noise, 32 bits lose next to nothing of a round."""
    base = ENTRIES[name].scheme(replace(settings, sampling=Fixed(8)))
    plain, whole = (run(scheme, task, 1, SEED)[0].state.weights for scheme in (base, secured(base, task)))
    assert float((plain - whole).norm()) < 1e-5 * float((plain - flatten(task.model)).norm())


@pytest.mark.parametrize("name", ["fl-sign", "two-bit-dp", "fl-sign-dp"])
def test_codes_are_added_as_ever(name: str, task: Task, settings: Settings) -> None:
    base = ENTRIES[name].scheme(replace(settings, sampling=Fixed(8)))
    plain, whole = (run(scheme, task, 2, SEED)[-1].state.weights for scheme in (base, secured(base, task)))
    assert torch.equal(plain, whole)


@pytest.mark.parametrize("name", ["fl-top-dp", "fl-std", "fl-standard-dp", "two-bit-dp"])
def test_simulated_is_full_in_blocks(name: str, task: Task, settings: Settings) -> None:
    """Seven clients at a time on both sides, by one thread and by two: the same bits."""
    base = ENTRIES[name].scheme(replace(settings, sampling=Fixed(10)))
    short, whole = (secured(base, task, full=full) for full in (False, True))
    simulated = trained(short, task, Simulated(7, workers=1, exact=True), 2)
    assert_same(simulated, trained(whole, task, Simulated(7, workers=2), 2))


@pytest.mark.parametrize("name", ["fl-top-dp", "fl-std", "fl-standard-dp", "two-bit-dp"])
def test_blocks_of_any_size(name: str, task: Task, settings: Settings) -> None:
    """1, 7 and 100 clients at a time: the same cohort and bytes, and sums that differ by the rounding of products.

    Its error of 1e-5 of a step or less moves a number across the edge of its rounding now and then: one of 9,100 here,
    or none; two are let pass.
    """
    scheme = secured(ENTRIES[name].scheme(replace(settings, sampling=Fixed(10))), task)
    found = []
    for length in (1, 7, 100):
        watch = Watch(inner=Simulated(length))
        (report,) = run(scheme, task, 1, SEED, transport=watch)
        found.append((watch.totals[0].body.double(), report.bytes, watch.cohorts, report.epsilon))
    first, *others = found
    for other in others:
        assert other[1:] == first[1:]
        assert (other[0] - first[0]).norm() <= 1e-5 * first[0].norm() + math.sqrt(2)


@pytest.mark.parametrize("name", ["fl-top-dp", "fl-std", "two-bit-dp"])
def test_what_follows_training_does_not_know_the_block(name: str, task: Task, settings: Settings) -> None:
    """The same rows in blocks of 1, 7 and 100: rounding, coins and noise are each row's own, to the bit."""
    base = ENTRIES[name].scheme(replace(settings, sampling=Fixed(10)))
    width = 91 if name == "fl-top-dp" else 910
    row = torch.linspace(-1, 1, width) * (0.4 / width**0.5)  # within the bound: the clip leaves it alone
    scheme = secured(replace(base, trainer=Says(row)), task)
    first = trained(scheme, task, Simulated(1), 2)
    for transport in (Simulated(7, workers=2), Simulated(100)):
        assert_same(first, trained(scheme, task, transport, 2))


@pytest.mark.parametrize("servers", [1, 2])
def test_secrets_that_cannot_be_repeated(servers, task: Task, settings: Settings) -> None:
    """As in a deployment: keys, cohorts, noise from the system, and the round opens all the same."""
    base = ENTRIES["fl-top-dp"].scheme(replace(settings, sampling=Fixed(6)))
    scheme = secured(base, task, full=True, servers=servers)
    found = [run(scheme, task, 2, SEED, secret=SecretSeed.system()) for _ in range(2)]
    assert not any(report.aborted or report.refused for reports in found for report in reports)
    assert not torch.equal(found[0][-1].state.weights, found[1][-1].state.weights)


def test_nobody_answers(task: Task, settings: Settings) -> None:
    scheme = secured(ENTRIES["fl-top-dp"].scheme(replace(settings, sampling=Fixed(6, dropout=0.1))), task)
    for full in (False, True):
        scheme = replace(scheme, aggregator=replace(scheme.aggregator, full=full))
        (report,), ledger = trained(scheme, task, Simulated(lost=lambda round, client: True), 1)
        assert report.reason == "round 1: 0 clients masked their numbers, and 4 are needed: nothing is opened"
        assert torch.equal(report.state.weights, flatten(task.model))
        assert len(ledger.events) == 1  # and is paid


@pytest.mark.parametrize(
    ("name", "change", "other"),
    [
        ("fl-top-dp", {}, {"full": True}),
        ("fl-std-dp", {"clip": AdaptiveClip(0.3), "sampling": Poisson(0.6)}, {"kind": "gaussian"}),
        ("top-k-ef", {}, {"servers": 2}),
    ],
    ids=["full", "adaptive", "memory"],
)
def test_resume(name: str, change: dict, other: dict, task: Task, settings: Settings) -> None:
    assert_goes_on(secured(ENTRIES[name].scheme(replace(settings, **change)), task, **other), task)


def test_bytes_of_the_phases(task: Task, settings: Settings) -> None:
    """Payload is the masked numbers, of bits each; the phases hold all that is not the plan."""
    for servers, carrier in ((1, "mask"), (2, "numbers")):
        scheme = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Fixed(12))), task, servers=servers)
        spec = scheme.specs(910)[-1]
        (report,), _ = trained(scheme, task, Simulated(), 1)
        payload = report.bytes["up"]["payload"]
        assert payload["mean"] == payload["max"] == spec.form.length(spec.size)
        phases = report.bytes["phases"]
        assert list(phases) == (
            ["advertise", "share", "mask", "consent", "unmask"] if servers == 1 else ["numbers", "seeds"]
        )
        up = sum(part["up"]["mean"] for part in phases.values())
        assert up == payload["mean"] + report.bytes["up"]["protocol"]["mean"]
        assert phases[carrier]["up"]["max"] > payload["max"]
        plain = run(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Fixed(12))), task, 1, SEED)[0]
        named = 5 + 12  # of the cohort: version, how many, and the number of each
        down = sum(part["down"]["mean"] for part in phases.values())
        assert report.bytes["down"]["payload"] == plain.bytes["down"]["payload"]
        assert report.bytes["down"]["protocol"]["mean"] == plain.bytes["down"]["protocol"]["mean"] + down + named
