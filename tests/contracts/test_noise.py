"""The summed noise of what is released has the deviation that the ledger's event states."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from contracts.parts import Still, Watch, run, wide
from hush.catalogue import ENTRIES, Entry
from hush.knobs import Knobs
from hush.packing import Floats, Integers
from hush.privacy.coins import spread
from hush.privacy.ledger import Ledger
from hush.rng import SecretSeed
from hush.sampling import Fixed, Poisson
from hush.spec import Context, Plan, Spec, Total
from hush.stages import AdaptiveClip, Clip, Coins, IntegerNoise, Noise, ServerNoise
from hush.state import Books
from hush.steps import Momentum
from hush.task import Task
from hush.transports import Local
from hush.weights import flatten

SIGMA, S = 1.3, 0.7
DRAWS = 1_000_000


@pytest.fixture(scope="module")
def large() -> Task:
    """1,001,000 weights and 10 clients: one round is 10^6 draws of each client."""
    return wide(lambda: nn.Linear(1000, 1000), 10)


def deviation(scheme, task: Task, seed: int = 4, lost=None) -> tuple[float, float]:
    """Of the noise that one round leaves in the model: measured, and as event and bound state it."""
    watch = Watch(Ledger(), Local(block=2, lost=lost))
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
    if isinstance(scheme.source, Coins):  # of which a few are a little wider than the Gaussian that they stand for
        places = scheme.source.places(plan.cohort)
        wide = spread(places, scheme.source.edge) * places**0.5 / 2
        assert 1 < wide < 1.25
    return float(noise.std()) / wide, event.noise * spec.l2


def silent(entry: Entry, sampling, clip=None):
    """The scheme with clients that have nothing to say, so that only noise is left."""
    knobs = Knobs(sampling=sampling, ratio=0.9995, probe=1, clip=clip or Clip(S), noise=SIGMA)
    return replace(entry.scheme(knobs), trainer=Still())


@pytest.mark.parametrize("sampling", [Fixed(4), Poisson(0.35)], ids=["fixed", "poisson"])
def test_deviation(private: Entry, sampling, large: Task) -> None:
    measured, stated = deviation(silent(private, sampling), large)
    assert stated == pytest.approx(S * SIGMA)
    assert measured == pytest.approx(stated, rel=0.01)


def test_deviation_at_the_floor(private: Entry, large: Task) -> None:
    """As many are lost as may be: the rest carries the whole noise."""
    scheme = silent(private, Fixed(5, tolerance=0.4))
    measured, stated = deviation(scheme, large, lost=Gone(2))
    assert measured >= stated * 0.99
    assert measured == pytest.approx(stated, rel=0.01)


def test_deviation_above_the_floor(large: Task) -> None:
    """Nobody is lost: more noise than stated, never less."""
    measured, stated = deviation(silent(ENTRIES["fl-std-dp"], Fixed(5, tolerance=0.4)), large)
    assert measured == pytest.approx(stated * np.sqrt(5 / 3), rel=0.01)


def test_deviation_of_an_uneven_floor(large: Task) -> None:
    """0.7 of 4 is 2.8: three must stay."""
    measured, stated = deviation(silent(ENTRIES["fl-std-dp"], Fixed(4, tolerance=0.3)), large, lost=Gone(1))
    assert measured >= stated * 0.99


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
        counts.append(float(Local().gather(scheme, task, plan, everyone, secret, books).body[-1]))
    assert np.std(counts) == pytest.approx(SIGMA * np.hypot(S, S / 4), rel=0.08)
    assert np.mean(counts) == pytest.approx(4 * S / 4, abs=4 * SIGMA * S / np.sqrt(1000))


class Gone:
    """Loses the first `count` clients that it is asked about in a round."""

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, 0

    def __call__(self, round: int, client: int) -> bool:
        self.asked += 1
        return self.asked <= self.count


def test_no_two_draws_are_alike(private: Entry, task: Task, knobs: Knobs) -> None:
    """The noise of two clients, of two rounds and of two seeds has nothing in common."""
    scheme = replace(private.scheme(replace(knobs, ratio=1.0, sampling=Fixed(2))), trainer=Still())
    watch = Watch()
    run(scheme, task, 1, transport=watch)
    plan = watch.plans[0]

    def rows(plan, seed: int):
        secret = SecretSeed.simulated(seed)
        if isinstance(scheme.source, ServerNoise):
            return scheme.server(plan, Total(torch.zeros(910).double(), 2, 2.0), secret).body[None]
        return scheme.client(task, plan, np.arange(4), secret).double()

    drawn = torch.cat([rows(plan, 4), rows(replace(plan, round=2), 4), rows(plan, 5)])
    assert torch.equal(rows(plan, 4), drawn[: len(drawn) // 3])
    likeness = torch.corrcoef(drawn) - torch.eye(len(drawn))
    assert likeness.abs().max() < 6 / math.sqrt(drawn.shape[1])


@pytest.mark.parametrize("whole", [None, "skellam", "gaussian"])
@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_no_cohort_tells_its_size_by_its_noise(whole: str | None, tolerance: float) -> None:
    """0, 1, 2 and 10 clients, of whom none is lost: one deviation, with a tolerance a larger one."""
    size, sigma, bound = 60_000, 1.0, 40.0
    stage = Noise(sigma) if whole is None else IntegerNoise(sigma, whole)
    spec = Spec(size, l2=bound, form=Floats() if whole is None else Integers(16))
    for n in (0, 1, 2, 10):
        plan = Plan(1, torch.zeros(1), None, 5.0, (1 - tolerance) * n, spare=tolerance)
        ctx = Context(spec, plan, np.arange(n), torch.ones(n), SecretSeed.simulated(n))
        rows = torch.zeros(n, size) if whole is None else torch.zeros(n, size, dtype=torch.int32)
        total = stage.encode(rows, ctx).double().sum(0) if n else torch.zeros(size, dtype=torch.float64)
        total = stage.decode(Total(total, n, float(n)), ctx).body
        assert float(total.std()) == pytest.approx(sigma * bound / math.sqrt(1 - tolerance), rel=0.02), n
