"""The summed noise of what is released has the deviation that the ledger's event states."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context
from torch import nn

from contracts.parts import Still, Watch, run, wide
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.clients import Order
from hush.core.integers import Integers
from hush.core.packing import Floats
from hush.core.spec import Plan, Spec, Total
from hush.core.state import Books
from hush.core.task import Task
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import AdaptiveClip, Clip, IntegerNoise, Noise, PoissonBinomial, ServerNoise
from hush.parts.steps import Momentum
from hush.privacy.poisson_binomial import spread
from hush.random.seeds import SecretSeed

SIGMA, S = 1.3, 0.7
DRAWS = 1_000_000


@pytest.fixture(scope="module")
def large() -> Task:
    """1,001,000 weights and 10 clients: one round is 10^6 draws of each client."""
    return wide(lambda: nn.Linear(1000, 1000), 10)


def deviation(scheme, task: Task, seed: int = 4, lost=None, exact: bool = False) -> tuple[float, float]:
    """Of the noise that one round leaves in the model: measured, and as event and bound state it."""
    watch = Watch(Simulated(block=2, lost=lost, exact=exact))
    report = run(scheme, task, 1, seed, transport=watch, ledger=watch.ledger)[0]
    assert not report.aborted
    plan, (event,) = watch.plans[0], watch.ledger.events
    moved = (report.state.weights.double() - flatten(task.model)) * plan.cohort
    noise = moved if plan.live is None else moved[plan.live]
    if isinstance(scheme.step, Momentum):  # what was sensed, before it is recovered
        noise = scheme.server(plan, watch.totals[0], SecretSeed.simulated(seed)).body
    assert noise.numel() >= DRAWS
    if plan.live is not None:
        still = torch.ones(moved.numel(), dtype=torch.bool)
        still[plan.live] = False
        assert not moved[still].any()
    assert abs(float(noise.mean())) < 5e-3 * float(noise.std())
    spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
    wide = 1.0
    if isinstance(
        scheme.source, PoissonBinomial
    ):  # of which a few are a little wider than the Gaussian that they stand for
        places = scheme.source.places(plan.cohort)
        wide = spread(places, scheme.source.edge) * places**0.5 / 2
        assert 1 < wide < 1.25
    return float(noise.std()) / wide, event.noise * spec.l2


def silent(entry: Entry, sampling, clip=None):
    """The scheme with clients that have nothing to say, so that only noise is left."""
    settings = Settings(sampling=sampling, ratio=0.9995, probe=1, clip=clip or Clip(S), noise=SIGMA)
    return replace(entry.scheme(settings), trainer=Still())


@pytest.mark.parametrize("sampling", [Fixed(4), Poisson(0.35)], ids=["fixed", "poisson"])
def test_deviation(private: Entry, sampling, large: Task) -> None:
    measured, stated = deviation(silent(private, sampling), large)
    assert stated == pytest.approx(S * SIGMA)
    assert measured == pytest.approx(stated, rel=0.01)


@pytest.mark.parametrize("lost", [0, 1, 2, 4, 5])
def test_deviation_with_dropouts(private: Entry, lost: int, large: Task) -> None:
    """Whoever drops out, the server adds what is missing: the released noise is the stated one."""
    measured, stated = deviation(silent(private, Fixed(5, tolerance=0.4)), large, lost=Gone(lost))
    assert measured == pytest.approx(stated, rel=0.01)
    shares = isinstance(private.scheme(Settings(noise=1.0, clip=Clip(1.0))).source, Noise)
    assert stated == pytest.approx(S * SIGMA / math.sqrt(0.6 if shares else 1.0))


@pytest.mark.parametrize("sampling", [Fixed(4), Poisson(0.35)], ids=["fixed", "poisson"])
def test_deviation_with_an_adaptive_clip(adaptive: Entry, sampling, large: Task) -> None:
    clip = AdaptiveClip(S, weight=0.6)
    measured, stated = deviation(silent(adaptive, sampling, clip), large)
    assert stated == pytest.approx(SIGMA * np.hypot(S, 0.3 * S))
    assert measured == pytest.approx(stated, rel=0.01)


def of_nobody(entry: Entry, clip, task: Task) -> tuple[float, float]:
    sampling = Poisson(0.01)
    seed = next(s for s in range(50) if not len(sampling.draw(10, SecretSeed.simulated(s), 1)))
    return deviation(silent(entry, sampling, clip), task, seed)


def test_deviation_of_an_empty_cohort(private: Entry, large: Task) -> None:
    measured, stated = of_nobody(private, Clip(S), large)
    assert measured == pytest.approx(stated, rel=0.01)


def test_deviation_of_an_empty_cohort_with_an_adaptive_clip(adaptive: Entry, large: Task) -> None:
    measured, stated = of_nobody(adaptive, AdaptiveClip(S), large)
    assert measured == pytest.approx(stated, rel=0.01)


def test_noise_of_the_adaptive_count() -> None:
    """The count's number has the same noise, sigma sqrt(S^2 + c^2/4), around c/2 for each client within S."""
    task = wide(lambda: nn.Linear(1000, 1), 4)
    scheme = silent(ENTRIES["fl-std-dp"], Fixed(4), AdaptiveClip(S, weight=0.5))
    secret, books, everyone = SecretSeed.simulated(4), Books.first(4), np.arange(4)
    counts = []
    for number in range(1000):
        plan = Plan(number, flatten(task.model), None, 4.0, 4.0)
        counts.append(float(Simulated().of(task).collect(Order(scheme, plan, everyone, secret, books)).body[-1]))
    assert np.std(counts) == pytest.approx(SIGMA * np.hypot(S, S / 4), rel=0.08)
    assert np.mean(counts) == pytest.approx(4 * S / 4, abs=4 * SIGMA * S / np.sqrt(1000))


class Gone:
    """Loses the first `count` clients that it is asked about in a round."""

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, 0

    def __call__(self, round: int, client: int) -> bool:
        self.asked += 1
        return self.asked <= self.count


def test_no_two_draws_are_alike(private: Entry, task: Task, settings: Settings) -> None:
    """The noise of two clients, of two rounds and of two seeds has nothing in common."""
    scheme = replace(private.scheme(replace(settings, ratio=1.0, sampling=Fixed(2))), trainer=Still())
    watch = Watch()
    run(scheme, task, 1, transport=watch)
    plan = watch.plans[0]

    def rows(plan, seed: int):
        secret = SecretSeed.simulated(seed)
        if isinstance(scheme.source, ServerNoise):
            return scheme.server(plan, Total(torch.zeros(910).double(), 2, 2.0), secret).body[None]
        return scheme.client(task.block(np.arange(4), secret), plan).double()

    drawn = torch.cat([rows(plan, 4), rows(replace(plan, round=2), 4), rows(plan, 5)])
    assert torch.equal(rows(plan, 4), drawn[: len(drawn) // 3])
    likeness = torch.corrcoef(drawn) - torch.eye(len(drawn))
    assert likeness.abs().max() < 6 / math.sqrt(drawn.shape[1])


@pytest.mark.parametrize("kind", [None, "skellam", "gaussian"])
@pytest.mark.parametrize("drawn", [0, 1, 5, 20, 100])
def test_released_noise_has_one_variance(kind: str | None, drawn: int) -> None:
    """Of m drawn clients l are lost, as many as the tolerance allows, and all: within 1 % of the stated variance.

    It was (S sigma)^2 (m - l) / ((1 - tolerance) m), from which m could be read.
    """
    tolerance, size, sigma, bound = 0.3, 400_000, 1.0, 40.0
    stage = Noise(sigma) if kind is None else IntegerNoise(sigma, kind)
    spec = Spec(size, l2=bound, form=Floats() if kind is None else Integers(16))
    plan = Plan(1, torch.zeros(1), None, 5.0, round((1 - tolerance) * drawn, 9), spare=tolerance)
    ctx = Context(spec, plan, np.arange(drawn), torch.ones(drawn), SecretSeed.simulated(drawn))
    rows = torch.zeros(drawn, size, dtype=torch.float32 if kind is None else torch.int32)
    rows = stage.encode(rows, ctx) if drawn else rows
    stated = (sigma * bound) ** 2 / (1 - tolerance)
    assert stage.multipliers(spec, plan, drawn).model == pytest.approx(math.sqrt(stated) / bound, rel=1e-3)
    for lost in {*range(int(tolerance * drawn) + 1), drawn}:
        total = Total(rows[lost:].sum(0, dtype=torch.float64), drawn - lost, float(drawn - lost))
        assert float(stage.decode(total, ctx).body.var()) == pytest.approx(stated, rel=0.01), lost
