"""Correlated noise as the server adds it: against the whole matrix, and against who looks at all rounds."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context
from scipy.linalg import toeplitz

from hush.core.integers import Integers
from hush.core.packing import Floats
from hush.core.spec import Multipliers, Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import AdaptiveClip, Clip, Noise, Quantise
from hush.parts.stages.correlated import CorrelatedNoise
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(9)
S = 0.5


def context(round: int, l2: float = S, secret: SecretSeed = SECRET) -> Context:
    plan = Plan(round, torch.zeros(1), None, 4.0, 0.0)
    return Context(Spec(3, l2=l2), plan, np.empty(0, np.int64), torch.empty(0), secret)


def released(stage: CorrelatedNoise, round: int, body: torch.Tensor, **given) -> torch.Tensor:
    return stage.decode(Total(body, 4, 4.0), context(round, **given)).body


def noises(stage: CorrelatedNoise, size: int) -> np.ndarray:
    """A row per round."""
    nothing = torch.zeros(size, dtype=torch.float64)
    found = np.stack([released(stage, t, nothing).numpy() for t in range(1, stage.rounds + 1)])
    assert not nothing.any()
    return found


def matrix(stage: CorrelatedNoise) -> np.ndarray:
    column = stage.correlation.column
    return toeplitz(np.pad(column, (0, stage.rounds - len(column))), np.zeros(stage.rounds))


@pytest.mark.parametrize("stage", [CorrelatedNoise(3.0, 7), CorrelatedNoise(0.8, 12, 3), CorrelatedNoise(1.0, 1)])
def test_round_by_round_as_by_the_whole_matrix(stage: CorrelatedNoise) -> None:
    """The running sums have the noise A C^-1 z, which in one pass is C z, for z drawn once and for all."""
    z = np.stack([SECRET.normal(50, "correlated noise", t).double().numpy() for t in range(1, stage.rounds + 1)])
    scale = stage.multiplier * float(np.linalg.norm(matrix(stage)[:, 0])) * S
    found = noises(stage, 50)
    np.testing.assert_allclose(found, scale * np.linalg.solve(matrix(stage), z), atol=1e-12)
    if stage.passes == 1:
        np.testing.assert_allclose(found.cumsum(0), scale * matrix(stage) @ z, atol=1e-12)


@pytest.mark.parametrize("stage", [CorrelatedNoise(3.0, 8), CorrelatedNoise(3.0, 8, 2)])
def test_measured_in_a_round_and_in_the_running_sums(stage: CorrelatedNoise) -> None:
    drawn = noises(stage, 200_000)
    assert float(drawn[-1].std()) == pytest.approx(3.0 * S * stage.correlation.spread, rel=0.01)
    found = drawn.cumsum(0).std(axis=1)
    assert found == pytest.approx(3.0 * S * stage.correlation.deviations, rel=0.01)
    assert (found[4:] < 0.8 * 3.0 * S * np.sqrt(np.arange(5, 9))).all()  # what independent noise would leave


@pytest.mark.parametrize("stage", [CorrelatedNoise(2.0, 5), CorrelatedNoise(2.0, 6, 2), CorrelatedNoise(2.0, 6, 3)])
def test_measured_by_the_best_distinguisher(stage: CorrelatedNoise) -> None:
    """Who knows what a client sends, g, tells it from nothing by mu = sqrt(g' V^-1 g), V the noise's covariance.

    Over all turns and signs it comes to sqrt(passes) / sigma and no further.
    """
    inverse = np.linalg.inv(np.cov(noises(stage, 400_000)))
    cohorts = stage.rounds // stage.passes
    mus = {}
    for turn in range(cohorts):
        for signs in itertools.product((-1.0, 0.0, 1.0), repeat=stage.passes):
            g = np.zeros(stage.rounds)
            g[turn::cohorts] = S * np.array(signs)
            mus[turn, signs] = math.sqrt(g @ inverse @ g)
    worst = math.sqrt(stage.passes) / 2.0
    assert max(mus.values()) == pytest.approx(worst, rel=0.01)
    assert mus[0, (1.0,) * stage.passes] == pytest.approx(worst, rel=0.01)


def test_one_who_steers_the_other_clients_learns_no_more() -> None:
    """Updates of others that react wildly to all that was released: the loss is that of one Gaussian release.

    Each coordinate is a trial. The adversary knows what the others sent, and finds log P/Q of y = C x + s z.
    """
    stage, size = CorrelatedNoise(1.5, 4), 200_000
    c, s = matrix(stage), 1.5 * stage.correlation.length * S
    past: list[np.ndarray] = []
    others: list[np.ndarray] = []
    for t in range(1, 5):
        others.append(np.sign(sum(past)) * 7.0 * t if past else np.ones(size))
        own = S * np.sign(past[0]) if t == 2 else np.zeros(size)  # as it likes, knowing round 1
        past.append(released(stage, t, torch.from_numpy(others[-1] + own)).numpy())
    y = c @ (np.stack(past) - np.stack(others))
    shift = c[:, 1, None] * S * np.sign(past[0])
    losses = ((2 * y - shift) * shift).sum(0) / (2 * s**2)
    mu = float(np.linalg.norm(c[:, 1]) / stage.correlation.length) / 1.5
    assert mu < 1 / 1.5
    assert float(losses.mean()) == pytest.approx(mu**2 / 2, rel=0.03)
    assert float(losses.std()) == pytest.approx(mu, rel=0.01)


def test_rounds_stand_by_themselves() -> None:
    """An aborted round, or a resumed run, changes nothing in those after it."""
    stage = CorrelatedNoise(1.0, 6)
    body = torch.arange(5, dtype=torch.float64)
    alone = released(CorrelatedNoise(1.0, 6), 4, body)
    rows = [released(stage, t, body) for t in (1, 2, 4)]
    assert torch.equal(rows[2], alone)
    assert not torch.equal(rows[0], rows[1])
    assert not torch.equal(released(stage, 4, body, secret=SecretSeed.simulated(8)), alone)
    torch.testing.assert_close(released(stage, 4, body, l2=2 * S) - body, 2 * (alone - body))


def test_whole_numbers_are_reduced_once_more() -> None:
    whole = Integers(12)
    stage, size = CorrelatedNoise(3.0, 4), 1000
    body = torch.full((size,), 2000.0, dtype=torch.float64)
    ctx = replace(context(3, l2=100.0), spec=Spec(size, l2=100.0, form=whole))
    free = released(stage, 3, body, l2=100.0)
    found = stage.decode(Total(body, 4, 4.0), ctx).body
    half = 2.0 ** (whole.width - 1)
    assert bool((free >= half).any())
    assert bool(((found >= -half) & (found < half)).all())
    turns = (free - found) / (2 * half)
    torch.testing.assert_close(turns, turns.round(), atol=1e-9, rtol=0.0)


def test_what_it_states() -> None:
    stage = CorrelatedNoise(3.731, 24)
    s = Clip(0.5).spec(Spec(10))
    assert stage.spec(s) == replace(s, noise=3.731, form=Floats())
    for t in (1, 24):
        assert stage.multipliers(s, context(t).plan, 3) == Multipliers(3.731, 0.0, 0.0)
    x = torch.ones(2, 10)
    assert stage.encode(x, context(1)) is x
    integers = Quantise(50.0, 12).spec(s)
    assert stage.spec(integers).form == integers.form


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: CorrelatedNoise(0.0, 5), "noise=0.0 must be positive"),
        (lambda: CorrelatedNoise(math.inf, 5), "noise=inf must be positive"),
        (lambda: CorrelatedNoise(1.0, 5, 2), "rounds=5 must be a multiple of passes=2"),
        (lambda: CorrelatedNoise(1.0, 5).spec(Spec(3)), r"needs a bounded input: put Clip\(c\)"),
        (lambda: CorrelatedNoise(1.0, 5).spec(Noise(1.0).spec(Spec(3, l2=1.0))), "after another noise"),
        (lambda: CorrelatedNoise(1.0, 5).spec(AdaptiveClip().spec(Spec(3))), r"this bound moves: take Clip\(c\)"),
        (lambda: CorrelatedNoise(1.0, 5).multipliers(Spec(3), context(6).plan, 3), "round 6 is not one of the 5"),
        (lambda: CorrelatedNoise(1.0, 5).multipliers(Spec(3), context(0).plan, 3), "round 0 is not one of the 5"),
        (lambda: released(CorrelatedNoise(1.0, 5), 6, torch.zeros(3)), "round 6 is not one of the 5"),
        (lambda: released(CorrelatedNoise(1.0, 5), 1, torch.zeros(3), secret=SecretSeed.system()), "that repeats"),
    ],
)
def test_refused(wrong: Callable[[], object], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()
