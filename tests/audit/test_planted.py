"""Bugs that are planted in a scheme, one at a time: the audit must find each, and none where there is none."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

import hush
from hush.audit import mechanism as mechanism_module
from hush.audit.mechanism import mechanism
from hush.audit.worlds import Worlds
from hush.core.spec import Spec
from hush.parts.stages.clip import _cut

TRIALS = 2000
NOISE = hush.Noise(1.2)
WHOLE = (hush.Clip(1.0), hush.Rotate(0), hush.Quantise(16, 12), hush.IntegerNoise(1.2))
BATCHES = {"rate": 0.1, "steps": 1, "batch": 12, "clip": 1.0, "noise": 2.0}
BALANCED = {"balance": "downsample", "share": 0.3}
RECORDS = hush.Dpsgd(**BATCHES)


SAMPLING, TRAINER, SUM = hush.Poisson(0.01), hush.Sgd(0.1, 1, 1), hush.Sum()


def scheme(*stages, sampling=SAMPLING, trainer=TRAINER, aggregator=SUM):
    return hush.Scheme(trainer, sampling, stages=stages, aggregator=aggregator)


@dataclass(frozen=True)
class Wrong(hush.Source):
    """A source that states what a sound one does."""

    sound: hush.Source = NOISE
    shared: ClassVar[bool] = True

    def spec(self, s):
        return self.sound.spec(s)

    def encode(self, x, ctx):
        return self.sound.encode(x, ctx)

    def decode(self, total, ctx):
        return self.sound.decode(total, ctx)

    def multipliers(self, s, plan, present):
        return self.sound.multipliers(s, plan, present)


class Halved(Wrong):
    def encode(self, x, ctx):
        return replace(self.sound, multiplier=self.sound.multiplier / 2).encode(x, ctx)


class MissingAtOne(Wrong):
    """The client at place 2 of each cohort of 4 adds none."""

    def encode(self, x, ctx):
        bare = x.clone()
        noisy = self.sound.encode(x, ctx)
        place = torch.arange(len(x)) % 4 == 2
        return torch.where(place.unsqueeze(1), bare, noisy)


class WrongRoot(Wrong):
    """Shares of a cohort's noise over m, in place of its root."""

    def encode(self, x, ctx):
        return replace(self.sound, multiplier=self.sound.multiplier / math.sqrt(ctx.plan.floor)).encode(x, ctx)


class OneForAll(Wrong):
    """One draw for all numbers of a row: what they differ by is sent as it is."""

    def encode(self, x, ctx):
        return x + self.sound.encode(torch.zeros_like(x), ctx)[:, :1]


class InPairs(Wrong):
    """Each draw for two numbers."""

    def encode(self, x, ctx):
        noise = self.sound.encode(torch.zeros_like(x), ctx)
        noise[:, 1::2] = noise[:, ::2]
        return x + noise


class SeedReused(Wrong):
    """Draws that are named by the client alone."""

    def encode(self, x, ctx):
        return self.sound.encode(x, replace(ctx, plan=replace(ctx.plan, round=1)))


class HalvedAtOnce(hush.Noise):
    """Sound shares; half of the noise where it is drawn once for a whole sum."""

    def together(self, x, ctx, clients):
        return hush.Noise(self.multiplier / 2).together(x, ctx, clients)


class OneForAllAtOnce(hush.Noise):
    """There, one draw for all numbers."""

    def together(self, x, ctx, clients):
        return x + super().together(torch.zeros_like(x), ctx, clients)[:, :1]


class SeedReusedAtOnce(hush.Noise):
    """There, the same draws in each round."""

    def together(self, x, ctx, clients):
        return super().together(x, replace(ctx, plan=replace(ctx.plan, round=1)), clients)


class IntegersAtOnce(hush.IntegerNoise):
    """There, the noise of one client for all."""

    def together(self, x, ctx, clients):
        return super().together(x, ctx, 1)


class ServerSeedReused(Wrong):
    shared: ClassVar[bool] = False

    def decode(self, total, ctx):
        return self.sound.decode(total, replace(ctx, plan=replace(ctx.plan, round=1)))


class TakesNoiseAlong(Wrong):
    """Nobody adds the shares of those who dropped out."""

    def decode(self, total, ctx):
        return total


class CountUnnoised(Wrong):
    """The last number, an adaptive clip's count, is sent as it is."""

    def encode(self, x, ctx):
        count = x[:, -1:].clone()
        return torch.cat([self.sound.encode(x, ctx)[:, :-1], count], 1)


@dataclass(frozen=True)
class ClipDoubled(hush.Stage):
    """States half of the bound that it holds."""

    bound: float = 1.0

    def spec(self, s):
        return hush.Clip(self.bound).spec(s)

    def encode(self, x, ctx):
        return _cut(x, 2 * self.bound)[0]

    def decode(self, total, ctx):
        return total


@dataclass(frozen=True)
class ClipAhead(hush.Stage):
    """States the bound that another stage is to hold, behind the noise."""

    def spec(self, s):
        return hush.Clip(1.0).spec(s)

    def encode(self, x, ctx):
        return x

    def decode(self, total, ctx):
        return total


@dataclass(frozen=True)
class ClipBehind(hush.Stage):
    """Cuts an update with its noise."""

    def spec(self, s):
        return s

    def encode(self, x, ctx):
        return _cut(x, 1.0)[0]

    def decode(self, total, ctx):
        return total


@dataclass(frozen=True)
class WeighUneven(hush.Stage):
    """Weights by the number of records."""

    def spec(self, s):
        return s

    def encode(self, x, ctx):
        return x * ctx.sizes.to(x.dtype).unsqueeze(1)

    def decode(self, total, ctx):
        return total


@dataclass(frozen=True)
class PairsBehind(hush.Stage):
    """Compresses behind the noise, two numbers to their sum; the server shares it out again."""

    def spec(self, s: Spec):
        return replace(s, size=s.size // 2)

    def encode(self, x, ctx):
        return x.view(len(x), -1, 2).sum(2)

    def decode(self, total, ctx):
        return replace(total, body=total.body.repeat_interleave(2) / 2)


@dataclass(frozen=True)
class NoiseThenCompress(Wrong):
    """Noise for the length that means of two numbers have, a root of two below that of the row that it is added to."""

    def encode(self, x, ctx):
        return replace(self.sound, multiplier=self.sound.multiplier / math.sqrt(2)).encode(x, ctx)


@dataclass(frozen=True)
class RoundsBeyond(hush.Stage):
    """Rounds at random and keeps whatever length comes out, but states the bound of rows that are rounded again."""

    sound: hush.Quantise = hush.Quantise(4, 12)

    def spec(self, s):
        return replace(self.sound.spec(s), l2=self.sound.steps * 1.02)

    def encode(self, x, ctx):
        return ctx.draws.round_within(x, ctx.spec.l2 / self.sound.steps, math.inf, 1, "quantise", ctx.plan.round)

    def decode(self, total, ctx):
        return self.sound.decode(total, ctx)


class HalvedOfRecords(hush.Dpsgd):
    """Half of the noise that it states."""

    def deviation(self, divisor):
        return super().deviation(divisor) / 2


class MissingOfRecords(hush.Dpsgd):
    """Hardly any of it."""

    def deviation(self, divisor):
        return super().deviation(divisor) / 1000


class Undoubled(hush.Dpsgd):
    """Balances batches by leaving records out, and counts one gradient where two change."""

    reach: ClassVar[int] = 1


PLANTED = {
    "noise halved": scheme(hush.Clip(1.0), Halved()),
    "integer noise halved": scheme(*WHOLE[:3], Halved(WHOLE[3])),
    "noise missing at one client": scheme(hush.Clip(1.0), MissingAtOne()),
    "clip bound doubled": scheme(ClipDoubled(), NOISE),
    "clip after noise": scheme(ClipAhead(), NOISE, ClipBehind()),
    "wrong root of the cohort": scheme(hush.Clip(1.0), WrongRoot()),
    "one draw for all numbers": scheme(hush.Clip(1.0), OneForAll()),
    "one draw for two numbers": scheme(hush.Clip(1.0), InPairs()),
    "a seed reused over rounds": scheme(hush.Clip(1.0), SeedReused()),
    "the server's seed reused over rounds": scheme(hush.Clip(1.0), ServerSeedReused(hush.ServerNoise(1.2))),
    "noise halved where it is drawn once": scheme(hush.Clip(1.0), HalvedAtOnce(1.2)),
    "one draw for all numbers where it is drawn once": scheme(hush.Clip(1.0), OneForAllAtOnce(1.2)),
    "a seed reused over rounds where it is drawn once": scheme(hush.Clip(1.0), SeedReusedAtOnce(1.2)),
    "integer noise of one client where it is drawn once": scheme(*WHOLE[:3], IntegersAtOnce(1.2)),
    "weights not uniform": scheme(hush.Clip(1.0), WeighUneven(), NOISE),
    "noise before compression with the wrong sensitivity": scheme(hush.Clip(1.0), NoiseThenCompress(), PairsBehind()),
    "a dropout that takes its noise along": scheme(hush.Clip(1.0), TakesNoiseAlong()),
    "rounding beyond the bound": scheme(hush.Clip(1.0), RoundsBeyond(), hush.IntegerNoise(1.2)),
    "modulus too small": scheme(hush.Clip(1.0), hush.Rotate(0), hush.Quantise(64, 5), hush.IntegerNoise(1.2)),
    "the adaptive clip's count unnoised": scheme(hush.AdaptiveClip(1.0), CountUnnoised()),
    "downsampling with undoubled sensitivity": scheme(trainer=Undoubled(**BATCHES, **BALANCED)),
    "noise of records halved": scheme(trainer=HalvedOfRecords(**BATCHES)),
    "noise of records halved, signs": scheme(hush.Sign(), trainer=HalvedOfRecords(**BATCHES)),
    "noise of records halved, signs, balanced": scheme(hush.Sign(), trainer=HalvedOfRecords(**BATCHES, **BALANCED)),
    "noise of records missing, signs": scheme(hush.Sign(), trainer=MissingOfRecords(**BATCHES)),
}
SLOW = (
    "coins",
    "records",
    "records, balanced",
    "records, signs",
    "records, fixed batches",
    "integers and a secure sum",
    "discrete Gaussian noise",
    "coarse integers",
    "integers of many steps",
)
SOUND = {
    "noise in shares": scheme(hush.Clip(1.0), NOISE),
    "replace one": scheme(hush.Clip(1.0), NOISE, sampling=hush.Fixed(100)),
    "an adaptive clip": scheme(hush.AdaptiveClip(1.0), NOISE),
    "integers and a secure sum": scheme(
        *WHOLE, sampling=hush.Poisson(0.01, floor=3, dropout=0.05), aggregator=hush.SecureSum()
    ),
    "discrete Gaussian noise": scheme(*WHOLE[:3], hush.IntegerNoise(1.2, "gaussian")),
    "coarse integers": scheme(hush.Clip(1.0), hush.Quantise(4, 12), hush.IntegerNoise(1.2)),
    "integers of many steps": scheme(hush.Clip(1.0), hush.Rotate(0), hush.Quantise(64, 12), hush.IntegerNoise(1.2)),
    "compression behind the noise": scheme(hush.Clip(1.0), NOISE, PairsBehind()),
    "weights in front of the bound": scheme(WeighUneven(), hush.Clip(1.0), NOISE),
    "a second clip behind the noise": scheme(hush.Clip(1.0), NOISE, ClipBehind()),
    "noise of the server": scheme(hush.Clip(1.0), hush.ServerNoise(1.2)),
    "correlated noise": scheme(hush.Clip(1.0), hush.CorrelatedNoise(1.2, rounds=4), sampling=hush.Once(cohorts=4)),
    "coins": scheme(hush.Clip(1.0), hush.PoissonBinomial(1.2)),
    "records": scheme(trainer=RECORDS),
    "records, balanced": scheme(trainer=replace(RECORDS, **BALANCED)),
    "records, signs": scheme(hush.Sign(), trainer=RECORDS),
    "records, fixed batches": scheme(trainer=replace(RECORDS, sampling="fixed")),
    "records, signs that hardly change": scheme(hush.Sign(), trainer=replace(RECORDS, sampling="fixed", noise=0.1)),
    "records, signs that never change": scheme(hush.Sign(), trainer=replace(RECORDS, sampling="fixed", noise=0.05)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_raises_the_alarm(bug: str) -> None:
    found = mechanism(PLANTED[bug], size=256, trials=TRIALS, confidence=0.99)
    assert found.alarms, [(one.attack, one.view, one.stated, one.shown) for one in found.findings]


@pytest.mark.parametrize("batch", [2, 3, 4, 5, 6, 7, 64])
@pytest.mark.parametrize("stages", [(), (hush.Sign(),)])
@pytest.mark.parametrize("bug", [HalvedOfRecords, Undoubled])
def test_bugs_of_balanced_records_are_found_with_batches_of_any_size(bug, stages, batch: int) -> None:
    planted = bug(**{**BATCHES, "batch": batch}, **BALANCED)
    sound = hush.Dpsgd(**{**BATCHES, "batch": batch}, **BALANCED)
    if bug is HalvedOfRecords or not stages:  # signs show less than is stated: too little of a factor of two
        assert mechanism(scheme(*stages, trainer=planted), trials=TRIALS).alarms
    assert mechanism(scheme(*stages, trainer=sound), trials=TRIALS).alarms == ()


@dataclass(frozen=True)
class Nothing(hush.Stage):
    """Behind the noise, and changes nothing."""

    keeps_integers: ClassVar[bool] = True

    def spec(self, s):
        return s

    def encode(self, x, ctx):
        return x

    def decode(self, total, ctx):
        return total


class SharesOfAll(Wrong):
    """Shares for all who were drawn, in place of those who are sure to answer."""

    keeps_integers: ClassVar[bool] = True

    def encode(self, x, ctx):
        return self.sound.encode(x, replace(ctx, plan=replace(ctx.plan, floor=2 * ctx.plan.floor)))


@pytest.mark.parametrize("behind", [(), (Nothing(),)])
def test_noise_is_measured_by_the_plan_of_the_scheme_itself(behind) -> None:
    """Whatever stands behind it: how many clients may drop out decides how much noise each adds."""
    terms = {"sampling": hush.Poisson(0.01, floor=3, dropout=0.05), "aggregator": hush.SecureSum()}
    sound = mechanism(scheme(*WHOLE, *behind, **terms), trials=TRIALS)
    assert sound.alarms == ()
    bare = mechanism(scheme(*WHOLE, **terms), trials=TRIALS)
    of_noise = [next(one for one in found.findings if one.attack == "noise") for found in (sound, bare)]
    assert of_noise[0].stated == of_noise[1].stated
    assert of_noise[0].shown == pytest.approx(of_noise[1].shown, rel=5e-3)  # drawn in one way more, or not
    planted = mechanism(scheme(*WHOLE[:3], SharesOfAll(WHOLE[3]), *behind, **terms), trials=TRIALS)
    assert any(one.attack == "noise" and one.alarm for one in planted.findings)


def test_a_sum_that_wraps_is_found_where_its_noise_is_sound() -> None:
    """A few bits too few: single clients fit, and a cohort that agrees does not."""
    stages = (hush.Clip(1.0), hush.Rotate(0), hush.Quantise(16, 9), hush.IntegerNoise(1.2))
    found = mechanism(scheme(*stages), size=64, trials=1000)
    assert not any(one.alarm for one in found.findings)
    assert len(found.alarms) == 1
    assert "wraps" in found.alarms[0]
    assert mechanism(scheme(*stages[:2], hush.Quantise(16, 12), stages[3]), size=64, trials=1000).holds


def test_a_sum_that_wraps_is_found_where_it_is_large(monkeypatch) -> None:
    """One trial of it, by fewer clients: so many numbers as are held in memory together."""
    stages = (hush.Clip(1.0), hush.Rotate(0), hush.Quantise(16, 7), hush.IntegerNoise(1.2))
    seen = []
    real = Worlds.seen
    monkeypatch.setattr(Worlds, "seen", lambda self, *given, **named: seen.append(self) or real(self, *given, **named))
    monkeypatch.setattr(mechanism_module, "BULK", 20 * 64)
    found = mechanism(scheme(*stages), size=64, trials=100)
    assert any("the sum of 20 clients that agree" in one for one in found.alarms)
    assert seen[-1].cohort == 20


def test_a_second_clip_behind_little_noise_raises_none() -> None:
    """It cuts the spread of scores on the far side, so that they lie more deviations apart than before it."""
    sound = scheme(hush.AdaptiveClip(1.0), hush.Noise(0.2), ClipBehind(), sampling=hush.Fixed(100))
    for seed in range(5):
        assert mechanism(sound, trials=TRIALS, seed=seed).alarms == ()


@pytest.mark.parametrize("code", SOUND)
def test_sound_code_raises_none(code: str) -> None:
    for seed in range(20):
        assert (
            mechanism(SOUND[code], size=256, trials=100 if code in SLOW else 400, confidence=0.99, seed=seed).alarms
            == ()
        )
