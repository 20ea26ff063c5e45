"""The loop: what stops it, what it refuses, and what it reports."""

import copy
import math
import tracemalloc
from dataclasses import dataclass, replace

import pytest
import torch
from contracts.parts import TURNS, Around
from torch import nn

from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.clients import Order
from hush.core.plain import Average
from hush.core.scheme import Scheme
from hush.core.spec import Total
from hush.core.state import State
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.federation.simulated import Simulated, rounds
from hush.models.metrics import evaluate
from hush.models.weights import flatten
from hush.parts.coordinates import RandomK, Vote
from hush.parts.sampling import Fixed, Once, Poisson
from hush.parts.stages import Clip, CorrelatedNoise, Noise
from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.ledger import Ledger
from hush.privacy.views import Spent
from hush.random.seeds import SecretSeed


def normed(make) -> Task:
    return make(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10)))


def poisoned(task: Task) -> Task:
    """Client 3 holds a row of NaN, and has no more rows than a batch."""
    inputs = task.train.inputs.clone()
    inputs[task.split.rows_of(3)[0]] = math.nan
    return replace(task, train=Samples(inputs, task.train.targets))


@pytest.mark.parametrize("name", ["fl-std", "fl-top", "fl-bas-2"])
def test_nan_stops_the_run(name: str, task: Task, settings: Settings) -> None:
    """One bad record is enough; the state keeps the weights of the last good round."""
    state = State.first(task)
    scheme = ENTRIES[name].scheme(replace(settings, sampling=Fixed(12)))
    with pytest.raises(Mistake, match=r"round 1: .*no longer finite.*lower the training rate"):
        list(rounds(scheme, poisoned(task), rounds=3, state=state))
    assert state.round == 0
    assert torch.equal(state.weights, flatten(task.model))


def test_weights_that_overflow_stop_a_private_run(task: Task, settings: Settings) -> None:
    """What was released before the weights were looked at is in the ledger."""
    scheme = replace(ENTRIES["fl-std-dp"].scheme(settings), step=Average(rate=1e41))
    ledger = Ledger()
    with pytest.raises(Mistake, match=r"round 1: .*no longer finite"):
        list(rounds(scheme, task, rounds=3, ledger=ledger))
    assert len(ledger.events) == 1


def test_a_client_of_nan_does_not_stop_a_private_run(task: Task, settings: Settings) -> None:
    scheme = ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Fixed(12)))
    *_, report = rounds(scheme, poisoned(task), rounds=2, accountant="rdp")
    assert report.state.weights.isfinite().all()


WHOLE = ("fl-std", "fl-standard", "centralized", "standalone")  # all weights, and what goes with them


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in (*WHOLE, *TURNS)])
def test_batch_norm_is_refused(name: str, make, settings: Settings) -> None:
    if ENTRIES[name].level == "record":
        with pytest.raises(Mistake, match=r"BatchNorm .*mixes the records of a batch.*GroupNorm"):
            next(rounds(ENTRIES[name].scheme(settings), normed(make), rounds=1))
        return
    why = "without noise" if ENTRIES[name].private else "do not travel"
    with pytest.raises(Mistake, match=rf"buffers .*{why}.*replace BatchNorm by GroupNorm"):
        next(rounds(ENTRIES[name].scheme(settings), normed(make), rounds=1))


def test_batch_norm_trains_with_fl_std(make, settings: Settings) -> None:
    """The mean of the clients' statistics is what the next round begins with."""
    task = normed(make)
    settings = replace(settings, sampling=Fixed(4))
    # a batch of one row has no variance
    sizes = task.split.sizes
    keep = [task.split.rows_of(k) for k in range(task.clients) if sizes[k] > 1]
    task = replace(task, split=type(task.split).of(keep))
    *_, report = rounds(ENTRIES["fl-std"].scheme(settings), task, rounds=2)
    before, after = dict(task.model.named_buffers()), dict(report.model.named_buffers())
    assert not torch.equal(before["2.running_mean"], after["2.running_mean"])
    assert report.state.weights.isfinite().all()
    assert torch.equal(before["2.running_mean"], torch.zeros(6))


def test_group_norm_is_welcome(make, settings: Settings) -> None:
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.GroupNorm(2, 6), nn.Linear(6, 10)))
    *_, report = rounds(ENTRIES["fl-top-dp"].scheme(settings), task, rounds=1, accountant="rdp")
    assert not torch.equal(report.state.weights, flatten(task.model))


def test_the_model_of_a_report(task: Task, settings: Settings) -> None:
    """A copy with the round's weights; the task's own model stays at w_0."""
    start = flatten(task.model)
    *_, report = rounds(ENTRIES["fl-std"].scheme(settings), task, rounds=1)
    assert torch.equal(flatten(report.model), report.state.weights)
    assert torch.equal(flatten(task.model), start)


def test_it_learns(task: Task, settings: Settings) -> None:
    scheme = ENTRIES["fl-std"].scheme(replace(settings, sampling=Fixed(12)))
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
def test_wrong_settings(change: dict, sentence: str, task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match=sentence):
        next(rounds(ENTRIES["fl-top"].scheme(replace(settings, **change)), task, rounds=1))


def test_no_rounds(task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match="rounds=0 must be at least 1"):
        next(rounds(ENTRIES["fl-std"].scheme(settings), task, rounds=0))


def test_top_k_without_public_data(task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match="needs a public batch"):
        next(rounds(ENTRIES["fl-top"].scheme(settings), replace(task, public=None), rounds=1))


def test_an_aborted_vote_stops_the_run(task: Task, settings: Settings) -> None:
    settings = replace(settings, sampling=Poisson(0.4, floor=12), vote=1.0)
    with pytest.raises(Mistake, match=r"vote on the coordinates failed.*larger cohorts"):
        next(rounds(ENTRIES["fl-top-dp"].scheme(settings), task, rounds=1))


def test_reports_of_earlier_rounds_are_still_true(task: Task, settings: Settings) -> None:
    """Collected reports, each asked for its model at the end, give different models."""
    one, two = rounds(ENTRIES["fl-std"].scheme(settings), task, rounds=2)
    assert one.state.round == 1
    assert not torch.equal(flatten(one.model), flatten(two.model))


def test_epsilon_is_computed_when_it_is_read(task: Task, settings: Settings, monkeypatch) -> None:
    """A loop that does not look pays nothing, and an old report says what it would have told in time."""
    scheme = ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Poisson(0.4)))
    asked = []
    compose = Spent.epsilon
    monkeypatch.setattr(Spent, "epsilon", lambda *given: asked.append(given) or compose(*given))
    at_once = []
    for report in rounds(scheme, task, rounds=4, accountant="rdp"):
        at_once.append(report.epsilon)
        assert report.epsilon is at_once[-1]
    assert len(asked) == 4
    later = list(rounds(scheme, task, rounds=4, accountant="rdp"))
    assert len(asked) == 4
    assert [report.epsilon for report in later] == at_once
    assert at_once[0]["model"] < at_once[1]["model"]


def test_a_state_tells_when_the_run_has_gone_on(task: Task, settings: Settings) -> None:
    """The weights of old reports stay; their books are no longer there, unless they were copied in time."""
    scheme = ENTRIES["fl-std-dp"].scheme(settings)
    states, copies, weights = [], [], []
    for report in rounds(scheme, task, rounds=3, accountant="rdp"):
        states.append(report.state)
        copies.append(report.state.copy())
        weights.append(report.state.weights.clone())
    assert [state.round for state in states] == [1, 2, 3]
    assert all(torch.equal(state.weights, kept) for state, kept in zip(states, weights, strict=True))
    assert states[-1].traffic.summary() == copies[-1].traffic.summary()
    for use in (lambda s: s.traffic, lambda s: s.participation, lambda s: s.copy()):
        with pytest.raises(Mistake, match=r"gone on from round 1 to 3.*report.state.copy\(\) before"):
            use(states[0])
    with pytest.raises(Mistake, match="gone on from round 2 to 3"):
        next(rounds(scheme, task, rounds=4, state=states[1]))
    assert copies[0].traffic.counts[0].max() < copies[2].traffic.counts[0].max()
    assert copies[0].participation.rounds.sum() == 5


@dataclass
class Failing(Around):
    """Breaks down in a round, after the clients were asked."""

    number: int = 0

    def collect(self, order: Order) -> Total:
        total = super().collect(order)
        if order.plan.round == self.number:
            raise KeyboardInterrupt
        return total


@pytest.mark.parametrize("name", ["fl-top-dp", "fl-bas-2"])
def test_a_round_that_fails_leaves_the_state_before_it(name: str, task: Task, settings: Settings) -> None:
    """It can be resumed from, and then gives what an undisturbed run gives."""
    scheme, ledger = ENTRIES[name].scheme(settings), Ledger()
    *_, whole = rounds(scheme, task, rounds=4, accountant="rdp")
    run = rounds(scheme, task, rounds=4, ledger=ledger, transport=Failing(number=3), accountant="rdp")
    state = [next(run), next(run)][-1].state
    with pytest.raises(KeyboardInterrupt):
        next(run)
    assert state.round == 2
    assert len(ledger.events) == (3 if scheme.private else 0)
    *_, last = rounds(scheme, task, rounds=4, ledger=ledger, state=state, replay=True, accountant="rdp")
    assert torch.equal(last.state.weights, whole.state.weights)
    assert (last.bytes, last.epsilon) == (whole.bytes, whole.epsilon)
    assert (last.state.participation.rounds == whole.state.participation.rounds).all()


def test_a_repeated_round_tells_its_own_epsilon(task: Task, settings: Settings) -> None:
    """However far a killed process was ahead, round by round the same figures."""
    scheme, ledger = ENTRIES["fl-std-dp"].scheme(settings), Ledger()
    whole = [report.epsilon for report in rounds(scheme, task, rounds=5, ledger=ledger, accountant="rdp")]
    again = [r.epsilon for r in rounds(scheme, task, rounds=5, ledger=ledger, replay=True, accountant="rdp")]
    assert again == whole
    assert len(ledger.events) == 5


@pytest.mark.parametrize("sampling", [Fixed(20), Poisson(20 / 300_000)])
def test_a_round_allocates_nothing_of_the_populations_size(sampling, settings: Settings) -> None:
    """A copy of any count per client would take 2.4 MB."""
    clients = 300_000
    rows = Samples(torch.zeros(1, 4).expand(clients, 4), torch.zeros(1, dtype=torch.int64).expand(clients))
    task = Task(
        nn.Linear(4, 2), nn.functional.cross_entropy, rows, Split(torch.arange(clients), torch.arange(clients + 1))
    )
    run = rounds(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=sampling)), task, rounds=6, accountant="rdp")
    next(run)
    tracemalloc.start()
    for report in run:
        assert report.epsilon["server_median"] == 0
        assert report.state.weights.isfinite().all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_wrong_privacy_settings_are_told_before_any_round(task: Task, settings: Settings) -> None:
    scheme, ledger = ENTRIES["fl-std-dp"].scheme(settings), Ledger()
    with pytest.raises(Mistake, match="delta=2 must"):
        next(rounds(scheme, task, rounds=1, delta=2.0, ledger=ledger))
    with pytest.raises(Mistake, match="accountant=guess"):
        next(rounds(scheme, task, rounds=1, accountant="guess", ledger=ledger))
    next(rounds(scheme, task, rounds=1, ledger=ledger))
    other = ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Poisson(0.4)))
    with pytest.raises(Mistake, match="sampling=poisson is not that of the ledger"):
        next(rounds(other, task, rounds=1, ledger=ledger))
    assert len(ledger.events) == 1


def test_a_shortened_ledger_is_refused(task: Task, settings: Settings) -> None:
    """The vote's event is missing: no round's is, but the state was charged for it."""
    scheme, ledger = ENTRIES["fl-top-dp"].scheme(replace(settings, vote=1.0)), Ledger()
    *_, report = rounds(scheme, task, rounds=2, ledger=ledger, accountant="rdp")
    short = Ledger()
    for event in ledger.events[1:]:
        short.record(event)
    with pytest.raises(Mistake, match="does not hold"):
        next(rounds(scheme, task, rounds=3, ledger=short, state=report.state, replay=True))


def test_parameters_without_gradient_neither_train_nor_travel(task: Task, settings: Settings) -> None:
    model = copy.deepcopy(task.model)
    first = next(model.parameters())
    first.requires_grad_(False)
    frozen = replace(task, model=model)
    scheme = ENTRIES["fl-std"].scheme(settings)
    *_, report = rounds(scheme, frozen, rounds=1)
    assert report.state.weights.numel() == sum(p.numel() for p in model.parameters()) - first.numel()
    trained = report.model
    assert torch.equal(next(trained.parameters()), first)
    assert not torch.equal(list(trained.parameters())[-1], list(model.parameters())[-1])


def by_turns(settings: Settings, noise: Noise | CorrelatedNoise, passes: int = 1) -> Scheme:
    """12 clients in 4 cohorts of 3."""
    found = ENTRIES["fl-std-dp"].scheme(replace(settings, noise=1.0))
    return replace(found, sampling=Once(4, passes), stages=(Clip(0.45), noise))


@pytest.mark.parametrize("passes", [1, 2])
def test_who_has_its_turns_pays_for_them_alone(passes: int, task: Task, settings: Settings) -> None:
    ledger = Ledger()
    scheme = by_turns(settings, Noise(3.731), passes)
    reports = list(rounds(scheme, task, rounds=4 * passes, ledger=ledger))
    mus = [math.sqrt(1 + t // 4) / 3.731 for t in range(4 * passes)]
    assert [r.epsilon["model"] for r in reports] == pytest.approx([gaussian_epsilon(mu, 1e-5) for mu in mus])
    assert all(r.epsilon["model"] == r.epsilon["server"] for r in reports)
    assert all(r.cohort == 3 for r in reports)
    assert reports[-1].state.participation.rounds.tolist() == [passes] * 12
    assert {e.sampling for e in ledger.events} == {"once"}
    with pytest.raises(Mistake, match="in which clients have their turn"):
        next(rounds(scheme, task, rounds=4 * passes + 1, ledger=ledger, state=reports[-1].state))


def test_correlated_noise_in_a_run(task: Task, settings: Settings) -> None:
    """One release each against the models' readers, none against the server, and resumed to the same bits."""
    scheme = by_turns(settings, CorrelatedNoise(3.731, 8, 2), passes=2)
    ledger, state = Ledger(), None
    for report in rounds(scheme, task, rounds=8, ledger=ledger):
        if report.round == 3:
            state = report.state.copy()
    assert report.epsilon["model"] == pytest.approx(gaussian_epsilon(math.sqrt(2) / 3.731, 1e-5))
    assert report.epsilon["server"] == report.epsilon["upload"] == "none"
    *_, again = rounds(scheme, task, rounds=8, ledger=ledger, state=state, replay=True)
    assert torch.equal(again.state.weights, report.state.weights)
    assert len(ledger.events) == 8
    with pytest.raises(Mistake, match="hides no round that is released twice"):
        next(rounds(scheme, task, rounds=8, ledger=ledger, state=state))
    with pytest.raises(Mistake, match="a secret seed that repeats"):
        next(rounds(scheme, task, rounds=8, secret=SecretSeed.system()))
    other = replace(scheme, sampling=replace(scheme.sampling, seed=1))
    with pytest.raises(Mistake, match="go on with the sampling they had"):
        next(rounds(other, task, rounds=8, ledger=ledger, state=state, replay=True))


def lost_in(*numbers: int) -> Simulated:
    """Nobody answers in these rounds."""
    return Simulated(lost=lambda round, client: round in numbers)


def test_an_aborted_round_is_a_round_of_the_average(task: Task, settings: Settings) -> None:
    """Its model is that of the round before, and so the average of all rounds is that of all models."""
    scheme = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Once(4), average=0.5)), task)
    reports = list(rounds(scheme, task, rounds=4, transport=lost_in(1, 3)))
    assert [report.aborted for report in reports] == [True, False, True, False]
    models = torch.stack([report.state.weights for report in reports]).double()
    assert torch.equal(models[0].float(), flatten(task.model))
    weights = torch.tensor([0.5**3, 0.5**2, 0.5, 1.0], dtype=torch.float64)
    torch.testing.assert_close(reports[-1].state.released.double(), weights @ models / weights.sum(), atol=1e-6, rtol=0)


def test_an_aborted_round_leaves_what_is_owed(task: Task, settings: Settings) -> None:
    scheme = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Once(4), downlink_bits=4)), task)
    _, before, aborted, after = rounds(scheme, task, rounds=4, transport=lost_in(3))
    assert aborted.aborted
    assert before.state.downlink_error is not None
    assert torch.equal(aborted.state.downlink_error, before.state.downlink_error)
    _, downlink_error = scheme.send(4, before.state.weights, before.state.live, before.state.downlink_error)
    assert torch.equal(after.state.downlink_error, downlink_error)


@pytest.mark.parametrize("noise", [Noise(3.731), CorrelatedNoise(3.731, 4)])
def test_turns_in_a_secure_sum(noise: Noise | CorrelatedNoise, task: Task, settings: Settings) -> None:
    scheme = secured(by_turns(settings, noise), task)
    *_, last = rounds(scheme, task, rounds=4)
    assert not last.aborted
    assert last.epsilon["model"] == pytest.approx(gaussian_epsilon(1 / 3.731, 1e-5), rel=1e-3)
    assert last.epsilon["server"] == ("none" if isinstance(noise, CorrelatedNoise) else last.epsilon["model"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sampling": Fixed(3)}, r"needs clients that keep to their turns: give sampling=Once\(cohorts=4, passes=1\)"),
        ({"sampling": Once(3)}, "needs clients that keep to their turns"),
        ({"sampling": Once(4, 2)}, "needs clients that keep to their turns"),
        ({"sampling": Once(2, 2)}, "needs clients that keep to their turns"),
        ({"coordinates": RandomK(0.5, fresh=True)}, "must be of the same coordinates: fix them"),
        ({"sampling": Once(13), "stages": ()}, "cohorts=13 are more than the 12 clients"),
        ({"coordinates": Vote(0.1, 0.1, 1, 5, 1.0)}, "a vote on the coordinates would be one turn more"),
    ],
)
def test_turns_that_do_not_fit(change: dict, sentence: str, task: Task, settings: Settings) -> None:
    scheme = by_turns(settings, CorrelatedNoise(3.731, 4))
    scheme.check(task)
    with pytest.raises(Mistake, match=sentence):
        replace(scheme, **change).check(task)


def test_turns_do_not_hide_records(task: Task, settings: Settings) -> None:
    scheme = ENTRIES["fl-std-dp"].scheme(replace(settings, noise=1.0))
    with pytest.raises(Mistake, match="for schemes that protect clients"):
        replace(scheme, trainer=replace(settings, noise=1.0).dpsgd(), sampling=Once(4), stages=()).check(task)
