"""Parts that hush has never seen go through all that asks a part something: no file of hush knows them."""

import copy
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from contracts.parts import run
from hush.catalogue.secure_form import secured
from hush.core.engine import Engine
from hush.core.plain import Average
from hush.core.protocols import Counted, Parts, Room, Sampling, Source, Stage, Trainer
from hush.core.scheme import Scheme
from hush.core.spec import ClientContext, Multipliers, Plan, ServerContext, Spec, Total
from hush.core.task import Block, Task
from hush.errors import Mistake
from hush.experiment.resolving import Experiment
from hush.experiment.settings import Config, SchemeTable
from hush.experiment.statement import facts
from hush.parts.coordinates import RandomK, Vote
from hush.parts.registry import from_json
from hush.parts.sampling import Fixed, Once
from hush.parts.stages import Clip, Noise, ServerNoise, Sign, TopFeedback, Weigh
from hush.parts.steps import SignStep
from hush.parts.trainers import Dpsgd, Sgd
from hush.privacy.card import card, render
from hush.privacy.events import Cohorts, Event, Level
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Scaled(Trainer):
    """Another trainer's update, times a public number: post-processing, so that the guarantee is the other's."""

    inner: Trainer
    by: float

    @property
    def level(self) -> Level | None:
        return self.inner.level

    @property
    def uncovered(self) -> str | None:
        return self.inner.uncovered

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        return self.inner.fit(block, plan, engine) * self.by

    def check(self, scheme: Parts, task: Task) -> None:
        self.inner.check(scheme, task)

    def probability(self, sizes: Tensor) -> Tensor | None:
        return self.inner.probability(sizes)

    def event(self, round: int, sampling: Sampling, task: Task, label: str = "update") -> Event | None:
        return self.inner.event(round, sampling, task, label)


@dataclass(frozen=True)
class Pair(Source):
    """Two trusted parties add N(0, (S sigma)^2 / 2) each to the sum."""

    multiplier: float
    shared: ClassVar[bool] = False
    assumptions: ClassVar[tuple[str, ...]] = ("model: two parties draw the noise, and keep it from each other",)

    def spec(self, s: Spec) -> Spec:
        if not s.l2 < math.inf:
            raise Mistake(f"Pair({self.multiplier}) needs a bounded input: put Clip(c) before it")
        return replace(s, noise=self.multiplier)

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        size, scale = total.body.numel(), ctx.spec.l2 * self.multiplier / math.sqrt(2)
        both = [ctx.secret.normal(size, "pair", ctx.plan.round, party).double() for party in (0, 1)]
        return replace(total, body=total.body + scale * (both[0] + both[1]))

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        return Multipliers(self.multiplier, 0.0, 0.0)


@dataclass(frozen=True)
class Offered(Pair):
    """The same, with a form in integers: that of one trusted server."""

    def in_integers(self, before: Spec, room: Room) -> tuple[Stage, ...]:
        return ServerNoise(self.multiplier).in_integers(before, room)


@dataclass(frozen=True)
class Coin(Sampling):
    """Each client tosses a fair coin."""

    floor: int = 0
    kind: ClassVar[Cohorts] = "poisson"

    def draw(self, population: int, secret: SecretSeed, round: int) -> np.ndarray:
        return np.flatnonzero(secret.generator("coin", round).random(population) < 0.5)

    def rate(self, population: int) -> float:
        return 0.5

    def cohort(self, population: int) -> float:
        return population / 2

    def slack(self, population: int) -> float:
        return 0.5 * math.comb(population, self.floor - 1) / 2 ** (population - 1) if self.floor else 0.0

    def others(self, population: int) -> Counted:
        counts = np.arange(population)
        return counts, np.array([math.comb(population - 1, n) / 2.0 ** (population - 1) for n in counts])


RECORDS = Dpsgd(rate=0.2, steps=2, batch=4, clip=0.5, noise=1.1)
SCALED = Scaled(RECORDS, 0.5)
CLIENTS = Scheme(Sgd(0.2, 2, 5), Coin(), stages=(Clip(0.4), Pair(1.2)))
SCHEMES = {
    "trainer": Scheme(SCALED, Fixed(5)),
    "trainer, signs": Scheme(SCALED, Fixed(5), stages=(Sign(),), step=SignStep(0.01)),
    "noise": replace(CLIENTS, sampling=Fixed(5)),
    "sampling": replace(CLIENTS, stages=(Clip(0.4), Noise(1.2))),
    "noise and sampling": CLIENTS,
    "sampling and trainer": Scheme(SCALED, Coin()),
}
EACH = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


@EACH
def test_resume(scheme: Scheme, task: Task) -> None:
    scheme.check(task)
    whole = run(scheme, task, 4)
    ledger = Ledger()
    state = run(scheme, task, 2, ledger=ledger)[-1].state.copy()
    rest = run(scheme, task, 4, state=state, ledger=copy.deepcopy(ledger))
    assert [report.round for report in rest] == [3, 4]
    for one, other in zip(whole[2:], rest, strict=True):
        assert torch.equal(one.state.weights, other.state.weights)
        assert (one.bytes, one.epsilon, one.cohort) == (other.bytes, other.epsilon, other.cohort)


@EACH
def test_json(scheme: Scheme) -> None:
    assert from_json(scheme.to_json(), Scaled, Pair, Coin) == scheme


def test_a_record_level_trainer_around_another(task: Task) -> None:
    """It is charged as the other, and trains as the other but for its number."""
    ours, theirs = SCHEMES["trainer"], Scheme(RECORDS, Fixed(5), step=Average(0.5))
    (one, other) = (run(scheme, task, 2)[-1] for scheme in (ours, theirs))
    assert one.epsilon == other.epsilon
    assert one.epsilon["model"] > 0
    torch.testing.assert_close(one.state.weights, other.state.weights)
    assert (ours.level, ours.private, ours.uncovered) == ("record", True, None)
    assert replace(ours, trainer=Scaled(replace(RECORDS, divisor="drawn"), 0.5)).uncovered is not None
    assert (ours.probabilities(task) == theirs.probabilities(task)).all()


def test_noise_of_ones_own(task: Task) -> None:
    """It is released, with the deviation that it is charged for."""
    ledger, still = Ledger(), replace(CLIENTS, trainer=Scaled(Sgd(0.2, 1, 5), 0.0), sampling=Fixed(6))
    report = run(still, task, 1, ledger=ledger)[-1]
    (event,) = ledger.events
    assert (event.noise, event.share, event.server, event.level) == (1.2, 0.0, 0.0, "client")
    moved = (report.state.weights - run(still, task, 1, seed=5)[-1].state.weights) * 6
    assert float(moved.std()) == pytest.approx(math.sqrt(2) * 0.4 * 1.2, rel=0.1)


def test_a_sampling_of_ones_own(task: Task) -> None:
    ledger = Ledger()
    reports = run(CLIENTS, task, 3, ledger=ledger)
    assert {(event.rate, event.sampling) for event in ledger.events} == {(0.5, "poisson")}
    assert len({report.cohort for report in reports}) > 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (replace(CLIENTS, trainer=SCALED), "Scaled protects records and Pair protects clients"),
        (replace(CLIENTS, stages=(Pair(1.0),)), r"Pair\(1.0\) needs a bounded input"),
        (Scheme(SCALED, Once(3)), r"take Fixed\(size\) with Scaled"),
        (Scheme(SCALED, Coin(), stages=(Weigh(),)), r"Weigh\(\) under Scaled reveals"),
        (Scheme(SCALED, Coin(), stages=(TopFeedback(0.1),)), "uncounted by Scaled: leave it out"),
        (replace(CLIENTS, stages=(), coordinates=Vote(0.1, 0.1, 1, 5, 1.0)), "does not protect updates without noise"),
        (replace(CLIENTS, stages=(TopFeedback(0.1),), coordinates=RandomK(0.5, fresh=True)), "fix them"),
    ],
    ids=str,
)
def test_what_does_not_go_together(wrong: Scheme, sentence: str, task: Task) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong.check(task)


def test_what_a_wrapped_trainer_refuses_is_refused(make) -> None:
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10)))
    with pytest.raises(Mistake, match=r"BatchNorm .*mixes the records"):
        Scheme(SCALED, Coin()).check(task)


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        (CLIENTS, ["client level", "two parties draw the noise", "the server is trusted", "floating point"]),
        (SCHEMES["trainer"], ["record level", "one record of one client", "2 steps a round"]),
        (SCHEMES["sampling"], ["client level", "knows its own noise share", "poisson sampling"]),
    ],
)
def test_the_card(scheme: Scheme, words: list[str], task: Task) -> None:
    ledger = Ledger()
    report = run(scheme, task, 2, ledger=ledger)[-1]
    name = "fl-standard-dp" if scheme.level == "record" else "fl-std-dp"
    config = Config(scheme=SchemeTable(name=name, delta=1e-5, accountant="rdp"))
    found = card(facts(Experiment(config, task, scheme, Engine(), ()), report.state, ledger.events))
    page = " ".join(render(found).split())
    for word in words:
        assert word in page
    assert {row["epsilon"] for row in found["adversaries"]} <= set(report.epsilon.values()) | {"none"}


def test_a_secure_sum(task: Task) -> None:
    """A sampling that keeps a floor, a trainer, and noise that says what it is in integers."""
    for scheme in (Scheme(SCALED, Coin(3)), replace(CLIENTS, sampling=Coin(3), stages=(Clip(0.4), Offered(1.2)))):
        found = secured(scheme, task)
        found.check(task)
        assert found.secure
        (one, other) = (run(each, task, 2)[-1] for each in (scheme, found))
        assert other.epsilon["model"] == pytest.approx(one.epsilon["model"])
        assert from_json(found.to_json(), Scaled, Coin) == found


@pytest.mark.parametrize(
    ("scheme", "sentence"),
    [
        (replace(CLIENTS, sampling=Coin(3)), "Pair has no form in integers, which a secure sum adds"),
        (replace(CLIENTS, sampling=Coin()), "Coin has rounds of fewer than 3 clients: give it floor=3"),
    ],
)
def test_what_has_no_secure_sum_is_refused_in_a_sentence(scheme: Scheme, sentence: str, task: Task) -> None:
    with pytest.raises(Mistake, match=sentence):
        secured(scheme, task)
