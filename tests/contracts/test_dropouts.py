"""Clients that drop out: releases do not show it, aborts are accounted, the server pays for what is left."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts.parts import Still, Watch, run
from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.spec import Plan
from hush.core.task import Task
from hush.errors import Mistake
from hush.experiment import budget
from hush.experiment.config import parse
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.aggregators import SecureSum
from hush.parts.sampling import Fixed, Once, Poisson
from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, views
from hush.random.seeds import SecretSeed


def gone(count: int):
    """The first clients of every round do not answer."""
    asked: dict[int, int] = {}

    def lost(round: int, client: int) -> bool:
        asked[round] = asked.get(round, 0) + 1
        return asked[round] <= count

    return Simulated(lost=lost)


@pytest.mark.parametrize("integers", [False, True], ids=["continuous", "integers"])
def test_a_lost_client_is_as_one_that_was_never_drawn(integers: bool, task: Task, settings: Settings) -> None:
    """The same sum of the others, with noise of the same deviation: nothing else of the client is left."""
    base = ENTRIES["fl-std-dp"].scheme(replace(settings, noise=1e-3, sampling=Fixed(6, tolerance=0.3, dropout=0.1)))
    scheme = secured(base, task, bits=30) if integers else base
    watch = Watch(inner=gone(1))
    (report,) = run(scheme, task, 1, transport=watch)
    (_, *others), plan = watch.cohorts[0], watch.plans[0]
    quiet = replace(base, stages=base.stages[:-1])
    rows = quiet.client(task.block(np.array(others), SecretSeed.simulated(4)), replace(plan, floor=0.0))
    moved = (report.state.weights.double() - flatten(task.model)) * 6
    assert report.cohort == 5
    assert float((moved - rows.double().sum(0)).norm()) < 0.1 * float(moved.norm())


def test_a_round_in_which_too_few_answered_is_charged_for_what_is_left(task: Task, settings: Settings) -> None:
    """Against the server alone: sigma sqrt(n / floor), by the clients that answered; the models' noise is as ever."""
    sampling = Fixed(12, tolerance=0.25)
    scheme = replace(ENTRIES["fl-std-dp"].scheme(replace(settings, noise=2.0, sampling=sampling)), trainer=Still())
    stated = {}
    for count in (0, 3, 8, 12):
        (report,) = run(scheme, task, 1, transport=gone(count), accountant="pld")
        left = 2.0 * math.sqrt(max(1, 12 - count) / 9)
        assert report.epsilon["server"] == pytest.approx(gaussian_epsilon(2 / left, 1e-5))
        stated[count] = report.epsilon
    assert len({epsilon["model"] for epsilon in stated.values()}) == 1
    assert stated[8]["server"] > stated[3]["server"] > stated[0]["server"]


def test_an_abort_that_nobody_declared_stops_the_run(task: Task, settings: Settings) -> None:
    """Everybody sees it, and the ledger could not. With a declared dropout it is in the slack, and rounds go on."""
    silent = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Fixed(9))), task)
    for sampling in (Fixed(9), Fixed(9, tolerance=0.3)):  # where the sum is aborted, and where it is not
        reliable = replace(silent, sampling=replace(silent.sampling, tolerance=sampling.tolerance))
        with pytest.raises(Mistake, match="only if no client drops out: declare a dropout rate"):
            run(reliable, task, 2, transport=gone(1))
    declared = replace(silent, sampling=replace(silent.sampling, dropout=0.05))
    assert declared.tolerance == pytest.approx(1 / 3)
    first, second = run(declared, task, 2, transport=gone(3))
    assert (first.aborted, second.aborted, first.cohort) == (False, False, 6)
    assert [report.aborted for report in run(declared, task, 2, transport=gone(4))] == [True, True]
    for turns in (Once(3), Once(3, tolerance=0.0)):  # where it is public who answers
        by_turns = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=turns)), task)
        assert run(by_turns, task, 1, transport=gone(1))[0].aborted


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("sampling", [Poisson(0.5, 3, 0.3, 0.2), Poisson(0.3, 4, None, 0.3), Fixed(9, 3, 0.2, 0.15)])
def test_slack_bounds_how_often_one_client_decides(sampling, servers, task: Task, settings: Settings) -> None:
    """Simulated: with the client, which drops out or not as it likes, and without it, an abort comes or does not."""
    scheme = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=sampling)), task, servers=servers)
    draw, clients, trials, decided = np.random.default_rng(0), 30, 20_000, 0
    found = scheme.aggregator
    assert isinstance(found, SecureSum)

    def aborts(drawn: int, left: int) -> bool:
        floor = round((1 - scheme.tolerance) * drawn, 9)
        return drawn >= sampling.floor and left < found.threshold(drawn, floor)

    for _ in range(trials):
        if isinstance(sampling, Fixed):
            others, chosen = sampling.size - 1, draw.random() < sampling.size / clients
        else:
            others, chosen = draw.binomial(clients - 1, sampling.probability), draw.random() < sampling.probability
        left = others - draw.binomial(others, sampling.dropout)
        without = aborts(others, left) if not isinstance(sampling, Fixed) else aborts(others + 1, left + 1)
        decided += chosen and any(aborts(others + 1, left + stays) != without for stays in (0, 1))
    slack = found.slack(scheme.sampling, clients, scheme.tolerance)
    assert decided / trials < slack + 3 * math.sqrt(slack / trials)
    assert slack < 20 * decided / trials + 0.01  # and is no loose bound
    event = scheme.event(Plan(1, flatten(task.model), None, 5.0, 4.0, spare=scheme.tolerance), task)
    assert event is not None
    assert event.slack >= found.slack(scheme.sampling, task.clients, scheme.tolerance) > 0


def test_slack_is_small_where_aborts_are_far_away() -> None:
    """Cohorts of 100, of which a tenth drops out and a third may: delta hardly notices. At the edge it is all."""
    far = SecureSum().slack(Poisson(1 / 60, 3, None, 0.1), 6000, 1 / 3)
    assert 0 < far < 1e-9
    assert SecureSum().slack(Poisson(1 / 60, 3, None, 0.0), 6000, 0.0) == 0
    assert SecureSum().slack(Poisson(1 / 60, 3, 0.0, 0.1), 6000, 0.0) == pytest.approx(1 / 60)


@pytest.mark.parametrize("size", [3, 10, 12])
def test_colluding_clients_are_rounded_up(size: int, task: Task, settings: Settings) -> None:
    """A tenth of 3 is one client, which leaves sqrt(2/3) of the noise; the view is between server and upload."""
    scheme = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, noise=2.0, sampling=Fixed(size))), task, bits=30)
    ledger = Ledger()
    (report,) = run(scheme, task, 1, ledger=ledger, accountant="pld")
    helpers = math.ceil(size / 10)
    (event,) = ledger.events
    assert event.colluding == pytest.approx(2.0 * math.sqrt((size - helpers) / size), rel=1e-3)
    assert report.epsilon["colluding"] == pytest.approx(gaussian_epsilon(2 / event.colluding, 1e-5))
    assert report.epsilon["server"] < report.epsilon["colluding"] <= report.epsilon["upload"]
    nobody = replace(scheme, aggregator=replace(scheme.aggregator, corrupt=0.0))
    assert "colluding" not in run(nobody, task, 1)[0].epsilon
    plain = ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Fixed(size)))
    assert "colluding" not in run(plain, task, 1)[0].epsilon


@pytest.mark.parametrize("name", ["fl-std-dp", "fl-top-dp", "two-bit-dp", "hush"])
def test_what_is_released_does_not_show_a_dropout(name: str, task: Task, settings: Settings) -> None:
    """One client that always drops out, with the others reliable: the deviation of each release is that without it.

    It used to be lower by one share, or the round was aborted and left the model as it was.
    """
    sampling = Poisson(0.5, tolerance=0.3)
    scheme = ENTRIES[name].scheme(replace(settings, ratio=1.0, noise=3.0, sampling=sampling))
    scheme = replace(scheme, trainer=Still(), average=0.0)
    flaky = Simulated(lost=lambda round, client: client == 0)
    sizes: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(6):
        watch, before = Watch(inner=flaky), flatten(task.model)
        for report, cohort in zip(run(scheme, task, 12, seed, transport=watch), watch.cohorts, strict=True):
            total = watch.totals[report.round - 1]
            assert not report.aborted
            assert total.count == len(cohort) - (0 in cohort)
            sizes[0 in cohort].append(float((report.state.weights - before).norm()))
            before = report.state.weights
    with_it, without = (np.array(sizes[key]) for key in (True, False))
    assert min(len(with_it), len(without)) > 20
    if name != "hush":  # whose momentum makes rounds hang together: it is looked at in experiments/dropouts
        assert np.mean(with_it) == pytest.approx(np.mean(without), rel=0.02)
    assert torch.isfinite(before).all()


def test_rounds_whose_books_were_lost_are_charged_for_a_single_share(task: Task, settings: Settings) -> None:
    """11 of 12 dropped out, which only the books knew: a ledger that goes on without them states no less."""
    scheme = replace(ENTRIES["fl-std-dp"].scheme(replace(settings, noise=2.0, sampling=Fixed(12))), trainer=Still())
    ledger = Ledger()
    first = run(scheme, task, 3, ledger=ledger, transport=gone(11))[-1]
    again = run(scheme, task, 1, ledger=ledger)[-1]
    assert again.epsilon["server"] >= first.epsilon["server"]
    assert again.epsilon["server"] <= again.epsilon["upload"]


def test_colluding_clients_never_help_less_than_none(task: Task, settings: Settings) -> None:
    """A ledger with plain rounds before those of a secure sum, and books of before there was such a view."""
    plain = ENTRIES["fl-std-dp"].scheme(replace(settings, noise=2.0, sampling=Fixed(12)))
    ledger = Ledger()
    run(plain, task, 3, ledger=ledger)
    (after,) = run(secured(plain, task), task, 1, ledger=ledger)
    assert after.epsilon["server"] <= after.epsilon["colluding"] <= after.epsilon["upload"]
    state = after.state.participation.state()
    older = Participation.of({name: values for name, values in state.items() if name != "colluding"})
    older.add(ledger.events[-1], np.arange(12))
    found = views([*ledger.events, ledger.events[-1]], older, 1e-5)
    assert found["server"] <= found["colluding"]


@pytest.mark.parametrize("kind", ["tolerance", "secure", "fixed", "once"])
@pytest.mark.parametrize("name", ["fl-std-dp", "two-bit-dp", "fl-top-dp", "hush", "dp-fedavg"])
def test_a_budget_is_kept_with_a_tolerance(name: str, kind: str, task: Task, settings: Settings) -> None:
    """What is released is worth what the budget's multiplier is, whatever the noise is made of."""
    sampling = {
        "tolerance": Poisson(0.5, tolerance=0.3),
        "secure": Poisson(0.5, 3, dropout=0.01),
        "fixed": Fixed(8, tolerance=0.25),
        "once": Once(2, tolerance=0.3),
    }[kind]
    base = ENTRIES[name].scheme(replace(settings, noise=1.0, sampling=sampling))
    if kind == "secure":
        base = replace(base, aggregator=SecureSum())
    factor = budget._factor(parse({"scheme": {"name": name}}, "test"), base, task)
    sized = ENTRIES[name].scheme(replace(settings, noise=2.0 * factor, sampling=sampling))
    sized = secured(sized, task) if kind == "secure" else sized
    ledger = Ledger()
    run(sized, task, 2, ledger=ledger)
    for event in ledger.events:
        assert event.noise == pytest.approx(2.0, rel=2e-3)
        assert event.noise >= 2.0 * (1 - 1e-9)
