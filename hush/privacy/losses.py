"""Epsilon of sampled Gaussian releases, from their privacy loss distributions: built once per (noise, rate)."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hush.privacy import pairs
from hush.privacy.composition import Summand, least_epsilon, repeated
from hush.privacy.pairs import Losses

_POINTS = 8192  # of one round's loss: two decimals of epsilon hold, and a call takes some milliseconds
_WINDOW = 2**18  # of many rounds' loss
_FEW = 9.0  # exp(-9) of delta may be cut off the single rounds


class Group(NamedTuple):
    """Equal rounds; see accountants.Release."""

    noise: float
    rate: float
    rounds: int
    mirrored: bool
    steps: int = 1
    joined: float = 1.0
    noticed: bool = True


@lru_cache(maxsize=256)
def epsilon(groups: tuple[Group, ...], delta: float) -> float:
    """The epsilon of the composed groups at delta, never below the true one."""
    groups = tuple(Group(*group) for group in groups)
    interval = _interval(groups)
    log_tail = _log_tail(sum(group.rounds * group.steps for group in groups), delta)
    built = [_round(group._replace(rounds=1), interval, log_tail) for group in groups]
    found = 0.0
    for side in (0, 1):
        found = max(found, least_epsilon(_terms(groups, [each[side] for each in built]), delta))
        if all((g.rate == 1 or g.mirrored) and g.noticed for g in groups):
            break  # both sides are equal
    return found


def width(noise: float, rate: float) -> float:
    """The largest loss log(1 - q + q exp((2x - 1)/(2 s^2))) for x within ten deviations."""
    exponent = (1 + 20 * noise) / (2 * noise**2)
    return exponent + math.log(rate) if exponent > 700 else math.log1p(rate * math.expm1(exponent))


def _interval(groups: Sequence[Group]) -> float:
    """One step for all groups (a power of two): fine enough for the narrowest, bearable for the widest.

    Many rounds spread the losses over a wider window. They may have coarser steps, up to a 32nd of the deviation of
    one round's loss: that makes the composed deviation, and so epsilon, larger by less than 1e-4.
    """
    widths = [width(group.noise, group.rate) for group in groups]
    finest = max(min(widths), max(widths) / 32) / _POINTS
    spreads = [group.rate * min(1.0, 1 / group.noise) for group in groups]
    rounds = [group.rounds * group.steps * group.joined for group in groups]
    whole = math.sqrt(sum(count * spread**2 for count, spread in zip(rounds, spreads, strict=True)))
    coarse = min(min(spreads) / 32, 16 * whole / _WINDOW)
    return float(2.0 ** math.floor(math.log2(max(finest, coarse))))


def _log_tail(releases: int, delta: float) -> float:
    """How much of one release may be cut off, logarithmic: few values, so that releases are built once."""
    wanted = math.log(delta) - _FEW - math.log(releases)
    return next((tail for tail in (-50.0, -100.0, -200.0, -400.0) if tail <= wanted), -650.0)


@lru_cache(maxsize=64)
def _round(group: Group, interval: float, log_tail: float) -> tuple[Losses, Losses]:
    """The losses that a round is made of, when the client is removed and when it is added; see _terms."""
    one = _one_round(group.noise, group.rate, interval, group.mirrored, log_tail)
    if group.noticed or group.joined == 1:
        return one
    whole = [side if group.steps == 1 else repeated(side, group.steps, log_tail) for side in one]
    if max(max(-side.first, side.last) for side in whole) * interval > pairs.LARGEST:
        nothing = Losses(interval, 0, np.ones(1), 1.0)  # is promised
        return nothing, nothing
    # A sum of probabilities above 1 is to stay above what it bounds.
    margin = pairs.MARGIN + 4 * max(0.0, *(float(side.probabilities.sum()) + side.infinite - 1 for side in whole))
    return (
        pairs.removed(pairs.of(whole[0]), group.joined, interval, margin),
        pairs.added(pairs.of(whole[1]), group.joined, interval, margin),
    )


@lru_cache(maxsize=64)
def _one_round(noise: float, rate: float, interval: float, mirrored: bool, log_tail: float) -> tuple[Losses, Losses]:
    """A release's losses when the client is removed, and when it is added."""
    pair = pairs.gaussian(noise, log_tail)
    if mirrored or rate == 1:
        both = pairs.symmetric(pair, rate, interval)
        return both, both
    return pairs.removed(pair, rate, interval), pairs.added(pair, rate, interval)


def _terms(groups: Iterable[Group], built: Iterable[Losses]) -> list[Summand]:
    """Rounds that go unnoticed have their steps in their losses already."""
    return [
        Summand(one, g.steps, g.joined, g.rounds) if g.noticed or g.joined == 1 else Summand(one, 1, 1.0, g.rounds)
        for g, one in zip(groups, built, strict=True)
    ]
