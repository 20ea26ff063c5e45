"""The audit of the stages: below what is accounted and near it, above it for a mechanism that keeps noise back."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from contexts import Context
from scipy.stats import ks_2samp

from hush.audit import accounted, audit, mechanism, scores
from hush.core.protocols import Source, Stage
from hush.core.spec import Plan, Spec
from hush.errors import Mistake
from hush.parts.stages import AdaptiveClip, Clip, IntegerNoise, Noise, PoissonBinomial, Quantise, ServerNoise
from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.grids import rounded_norm
from hush.random.seeds import SecretSeed

NOISE, STEPS, BITS = 1.3, 16, 8
SKELLAM = (Clip(1.0), Quantise(STEPS, BITS), IntegerNoise(NOISE))
GAUSSIAN = (Clip(1.0), Quantise(STEPS, BITS), IntegerNoise(NOISE, "gaussian"))
CONTINUOUS = (Clip(1.0), Noise(NOISE))
ADAPTIVE = (AdaptiveClip(1.0), Quantise(STEPS, BITS), IntegerNoise(NOISE))
# Fewer trials than in experiments/audit, so a larger delta: fewer are needed to come near the truth.
DELTA, TRIALS = 1e-2, 16384
CASES = [
    *((stages, 16, floor) for stages in (SKELLAM, GAUSSIAN) for floor in (1, 10)),
    (CONTINUOUS, 16, 10),
    (ADAPTIVE, 16, 1),
    (SKELLAM, 64, 1),
    ((Clip(1.0), PoissonBinomial(NOISE, spare=0)), 144, 10),  # fewer numbers would be so large that they are cut
    ((Clip(1.0), ServerNoise(NOISE)), 16, 10),
]


@dataclass(frozen=True)
class Halved(Source):
    """Adds half the noise, and states the whole: what the audit is there to find."""

    source: Noise | IntegerNoise

    def spec(self, s):
        return self.source.spec(s)

    def encode(self, x, ctx):
        return replace(self.source, multiplier=self.source.multiplier / 2).encode(x, ctx)

    def decode(self, total, ctx):
        return self.source.decode(total, ctx)

    shared = True

    def multipliers(self, s, plan, present):
        return self.source.multipliers(s, plan, present)


@dataclass(frozen=True)
class Unclipped(Stage):
    """Leaves rows as long as they are, and states a bound."""

    clip: Clip

    def spec(self, s):
        return self.clip.spec(s)

    def encode(self, x, ctx):
        return x

    def decode(self, total, ctx):
        return total


@pytest.mark.parametrize(("stages", "size", "floor"), CASES, ids=str)
def test_below_what_is_accounted_and_above_half_of_it(stages, size, floor):
    found = audit(stages, size, DELTA, floor=floor, trials=TRIALS)
    assert found.accounted / 2 < found.bound.epsilon < found.accounted
    assert found.holds


@pytest.mark.parametrize("stages", [SKELLAM, GAUSSIAN, CONTINUOUS, ADAPTIVE], ids=str)
def test_half_the_noise_is_found(stages):
    found = audit((*stages[:-1], Halved(stages[-1])), 16, DELTA, trials=TRIALS)
    assert found.accounted == accounted(stages, 16, DELTA)
    assert found.bound.epsilon > found.accounted
    assert not found.holds


def test_half_the_noise_is_found_in_shares():
    found = audit((*SKELLAM[:-1], Halved(SKELLAM[-1])), 16, DELTA, floor=10, trials=TRIALS)
    assert not found.holds


def test_a_clip_that_does_nothing_is_found():
    assert not audit((Unclipped(Clip(1.0)), Noise(NOISE)), 16, DELTA, trials=2000).holds


def test_small_delta_as_in_a_run():
    """The usual delta, with trials that are cheap."""
    found = audit(CONTINUOUS, 16, 1e-5, trials=200_000)
    assert found.accounted == pytest.approx(gaussian_epsilon(1 / NOISE, 1e-5))
    assert found.accounted / 2 < found.bound.epsilon < found.accounted
    assert not audit((*CONTINUOUS[:-1], Halved(Noise(NOISE))), 16, 1e-5, trials=200_000).holds


@pytest.mark.parametrize("floor", [1, 5])
@pytest.mark.parametrize("stages", [SKELLAM, GAUSSIAN, CONTINUOUS], ids=str)
def test_scores_are_of_the_clipped_update_and_the_whole_noise(stages, floor):
    present, absent = scores(stages, 16, floor=floor, trials=10000)
    whole = len(stages) == 3
    length, bound = (STEPS, rounded_norm(STEPS, 16)) if whole else (1.0, 1.0)
    error = NOISE * bound / math.sqrt(10000)
    assert abs(present.mean() - length) < 4 * error
    assert abs(absent.mean()) < 4 * error
    for found in (present, absent):
        assert found.std() == pytest.approx(NOISE * bound, rel=4 / math.sqrt(2 * 10000))
    assert abs(np.corrcoef(present, absent)[0, 1]) < 4 / math.sqrt(10000)
    assert abs(np.corrcoef(present[1:], present[:-1])[0, 1]) < 4 / math.sqrt(10000)


def rounds_one_by_one(stages, size, floor, trials):
    """The scores of rounds in which clients encode one after the other, and one of them has something to say."""
    secret, specs = SecretSeed.simulated(9), [Spec(size)]
    for stage in stages:
        specs.append(stage.spec(specs[-1]))
    found = np.empty(trials)
    for trial in range(trials):
        plan = Plan(trial, torch.empty(0), None, floor, floor)
        total = torch.zeros(size, dtype=torch.float64)
        for client in range(floor):
            x = torch.full((1, size), 100.0 if client == 0 else 0.0)
            for stage, spec in zip(stages, specs, strict=False):
                x = stage.encode(x, Context(spec, plan, np.array([client]), torch.ones(1), secret))
            total += x[0]
        if len(stages) == 3:
            total = (total + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
        found[trial] = float(total.sum()) / math.sqrt(size)  # its coordinates are all alike
    return found


@pytest.mark.parametrize("stages", [SKELLAM, GAUSSIAN, CONTINUOUS], ids=str)
def test_scores_are_distributed_as_those_of_rounds_one_by_one(stages):
    """That all trials of a block are one long update to the Source changes nothing."""
    slow, fast = rounds_one_by_one(stages, 4, 2, 1000), scores(stages, 4, floor=2, trials=20000)[0]
    assert ks_2samp(slow, fast).pvalue > 1e-3
    assert ks_2samp(slow + 0.25 * slow.std(), fast).pvalue < 1e-4  # it would tell
    assert ks_2samp(1.4 * (slow - slow.mean()), fast - fast.mean()).pvalue < 1e-4


def test_a_trial_does_not_depend_on_how_many_there_are():
    few, many = (scores(SKELLAM, 4, floor=2, trials=trials) for trials in (10, mechanism.BLOCK + 10))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(a, b[:10])
        assert not np.array_equal(b[:10], b[-10:])
    assert not np.array_equal(scores(SKELLAM, 4, floor=2, trials=10, seed=1)[0], few[0])


def test_sums_wrap_and_tell_no_more():
    """With 5 bits for noise of a deviation of 22 steps hardly anything is left."""
    stages = (Clip(1.0), Quantise(STEPS, 5), IntegerNoise(NOISE))
    present, absent = scores(stages, 16, floor=3, trials=4000)
    for found in (present, absent):
        assert np.abs(found).max() <= 16 * 4
        assert found.std() == pytest.approx(math.sqrt((2**10 - 1) / 12), rel=0.1)
    found = audit(stages, 16, DELTA, trials=4000)
    assert found.accounted == accounted(SKELLAM, 16, DELTA)
    assert found.bound.epsilon < audit(SKELLAM, 16, DELTA, trials=4000).bound.epsilon


def test_mistakes():
    with pytest.raises(Mistake, match="adds no noise"):
        audit((Clip(1.0),), 16, DELTA)
    with pytest.raises(Mistake, match="adds no noise"):
        audit((), 16, DELTA)
    with pytest.raises(Mistake, match="trials=0"):
        audit(CONTINUOUS, 16, DELTA, trials=0)
    with pytest.raises(Mistake, match="floor=0"):
        audit(CONTINUOUS, 16, DELTA, floor=0)
    with pytest.raises(Mistake, match="PoissonBinomial"):
        audit((AdaptiveClip(1.0), PoissonBinomial(NOISE)), 16, DELTA)
