"""Privacy loss distributions of sampled Gaussians: built once per (noise, rate), composed by transform."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dp_accounting.pld import pld_pmf, privacy_loss_mechanism
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism
from scipy import fft, signal

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]

_POINTS = 8192  # of one round's loss: two decimals of epsilon hold, and a call takes some milliseconds
_CUT = 1e-15  # the most that may be cut off, all of it counted as infinite
_ORDERS = np.concatenate([np.arange(-20, 0), np.arange(1, 21)])  # of Chernoff's bound, over the length


class Group(NamedTuple):
    """Equal rounds; see accountants.Release."""

    noise: float
    rate: float
    rounds: int
    mirrored: bool
    steps: int = 1
    joined: float = 1.0
    noticed: bool = True


def epsilon(groups: tuple[Group, ...], delta: float) -> float:
    """The epsilon of the composed groups at delta, never below the true one."""
    groups = tuple(Group(*group) for group in groups)
    interval = _interval([width(group.noise, group.rate) for group in groups])
    return max(_epsilon(side, delta) for side in _composed(groups, interval))


def width(noise: float, rate: float) -> float:
    """The largest loss log(1 - q + q exp((2x - 1)/(2 s^2))) for x within ten deviations."""
    exponent = (1 + 20 * noise) / (2 * noise**2)
    return exponent + math.log(rate) if exponent > 700 else math.log1p(rate * math.expm1(exponent))


def _interval(widths: list[float]) -> float:
    """One step for all groups (a power of two): fine enough for the narrowest, bearable for the widest."""
    finest = max(min(widths), max(widths) / 32)
    return float(2.0 ** math.floor(math.log2(finest / _POINTS)))


@dataclass(frozen=True, eq=False)
class Losses:
    """Probabilities of the losses (first + i) * interval, and of an infinite one."""

    interval: float
    first: int
    chances: Floats
    infinite: float

    @cached_property
    def log_moments(self) -> Floats:
        """log E exp(order i) over the index i, at the orders of _ORDERS / length."""
        index = np.arange(len(self.chances)) / len(self.chances)  # times an order, at most 20: nothing overflows
        return np.log([np.dot(np.exp(order * index), self.chances) for order in _ORDERS])

    def times(self, count: int) -> "Losses":
        """`count` such losses added up. What Chernoff's bound lets be cut off becomes infinite."""
        size = len(self.chances)
        orders = _ORDERS / size
        ends = (count * self.log_moments + math.log(2 / _CUT)) / orders
        below, above = (ends[side & np.isfinite(ends)] for side in (orders < 0, orders > 0))
        low = math.floor(below.max(initial=0))
        high = math.ceil(above.min(initial=(size - 1) * count))
        length = fft.next_fast_len(max(high - low + 1, size), real=True)
        # The transform wraps around at `length`, which is wide enough for all that is not cut off.
        whole = fft.irfft(_power(fft.rfft(self.chances, length), count), length)
        found = np.roll(whole, -low)[: high - low + 1]
        infinite = _CUT - math.expm1(count * math.log1p(-self.infinite))
        return Losses(self.interval, self.first * count + low, found, infinite)

    def joined(self, chance: float) -> "Losses":
        """This loss with `chance`, and else none at all, which is a point of the grid: nothing is rounded."""
        if chance == 1:
            return self
        low, high = min(self.first, 0), max(self.first + len(self.chances), 1)
        found = np.zeros(high - low)
        found[self.first - low : self.first - low + len(self.chances)] = chance * self.chances
        found[-low] += 1 - chance
        return Losses(self.interval, low, found, chance * self.infinite)

    def delta(self, epsilon: Floats) -> Floats:
        """infinite + sum over losses l > e of (1 - exp(e - l)) chance, at each e; of either sign."""
        losses = (np.arange(len(self.chances)) + self.first) * self.interval
        chances = np.maximum(self.chances, 0.0)
        upper = np.append(np.cumsum(chances[::-1])[::-1], 0.0)
        with np.errstate(divide="ignore"):
            tail = np.logaddexp.accumulate((np.log(chances) - losses)[::-1])[::-1]
        place = np.searchsorted(losses, epsilon, side="right")
        return np.asarray(self.infinite + upper[place] - np.exp(epsilon + np.append(tail, -math.inf)[place]))

    def plus(self, other: "Losses") -> "Losses":
        """Two independent losses added up; tails are cut, the lower moved up and the upper made infinite."""
        chances = signal.fftconvolve(self.chances, other.chances)
        low, high = (int(np.searchsorted(np.cumsum(side), _CUT / 2)) for side in (chances, chances[::-1]))
        kept = chances[low : len(chances) - high].copy()
        kept[0] += max(0.0, chances[:low].sum())
        tail = max(0.0, chances[len(chances) - high :].sum())
        infinite = self.infinite + other.infinite - self.infinite * other.infinite + tail
        return Losses(self.interval, self.first + other.first + low, kept, infinite)


def _epsilon(found: Losses, delta: float) -> float:
    """The least e >= 0 with infinite + sum over losses l > e of (1 - exp(e - l)) chance <= delta."""
    if found.infinite > delta:
        return math.inf
    skip = max(0, 1 - found.first)  # losses at or below 0 never count
    chances = found.chances[skip:][::-1]
    losses = (np.arange(len(chances)) + found.first + skip)[::-1] * found.interval
    # Of the losses above each place: their chance under the one distribution and under the other.
    upper = found.infinite + np.concatenate([[0.0], np.cumsum(chances)])
    lower = np.concatenate([[0.0], np.cumsum(np.exp(-losses) * chances)])
    lost = np.flatnonzero((upper[1:] >= delta) & (lower[1:] == 0))  # exp(-loss) is below the smallest float
    if len(lost):
        return float(losses[lost[0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        solved = np.where((upper > delta) & (lower > 0), np.log(upper - delta) - np.log(lower), -math.inf)
    reached = np.flatnonzero(solved >= np.append(losses, 0.0))
    return float(solved[reached[0]]) if len(reached) else 0.0


def _power(values: Complexes, count: int) -> Complexes:
    """values ** count by squaring: numpy's own power is ten times slower."""
    result = values if count % 2 else np.ones_like(values)
    while count := count // 2:
        values = values * values
        if count % 2:
            result = result * values
    return result


@lru_cache(maxsize=8)
def _composed(groups: tuple[Group, ...], interval: float) -> tuple[Losses, ...]:
    """Of all groups together: the losses when a client is removed and when it is added (one, if they are equal)."""
    wholes = []
    for side in (0, 1):
        parts = [_whole_round(g._replace(rounds=1), interval)[side].times(g.rounds) for g in groups]
        wholes.append(reduce(Losses.plus, parts))
        if all((g.rate == 1 or g.mirrored) and g.noticed for g in groups):
            break
    return tuple(wholes)


@lru_cache(maxsize=64)
def _whole_round(group: Group, interval: float) -> tuple[Losses, Losses]:
    """The losses of all steps of a round, in which the client takes part with the chance `joined`."""
    sides = _one_round(group.noise, group.rate, interval, group.mirrored)
    removed, added = (side if group.steps == 1 else side.times(group.steps) for side in sides)
    if group.noticed or group.joined == 1:
        return removed.joined(group.joined), added.joined(group.joined)
    return _removed(removed, group.joined), _added(added, group.joined)


@lru_cache(maxsize=64)
def _one_round(noise: float, rate: float, interval: float, mirrored: bool) -> tuple[Losses, Losses]:
    """A release's losses when the client is removed, and when it is added."""
    if mirrored and rate < 1:
        found = _mirrored(noise, rate, interval)
    else:
        found = from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=interval)
    removed, added = (_dense(pmf, interval) for pmf in (found._pmf_remove, found._pmf_add))
    return removed, added


def _removed(found: Losses, chance: float) -> Losses:
    """The losses of ((1-c) Q + c P, Q), given those of (P, Q): delta(log(1 - c + c exp(e))) is c times the old one."""
    top = np.logaddexp(math.log1p(-chance), math.log(chance) + (found.first + len(found.chances)) * found.interval)
    low, high = math.floor(math.log1p(-chance) / found.interval) - 1, math.ceil(float(top) / found.interval)
    grid = np.arange(low, high + 1) * found.interval
    inner = (np.expm1(grid) + chance) / chance
    with np.errstate(divide="ignore", invalid="ignore"):
        deltas = np.where(inner > 0, chance * found.delta(np.log(inner)), -np.expm1(grid))
    return _dotted(found.interval, low, high, deltas)


def _added(found: Losses, chance: float) -> Losses:
    """The losses of (Q, (1-c) Q + c P), given those of (Q, P); none is above -log(1 - c)."""
    bottom = -np.logaddexp(math.log1p(-chance), math.log(chance) - found.first * found.interval)
    low, high = math.floor(float(bottom) / found.interval) - 1, math.ceil(-math.log1p(-chance) / found.interval)
    grid = np.arange(low, high + 1) * found.interval
    left = 1 - np.exp(grid) * (1 - chance)
    with np.errstate(divide="ignore", invalid="ignore"):
        deltas = np.where(left > 0, left * found.delta(math.log(chance) + grid - np.log(left)), 0.0)
    return _dotted(found.interval, low, high, deltas)


def _dotted(interval: float, low: int, high: int, deltas: Floats) -> Losses:
    """The losses whose delta(e) is this at the points of the grid, and above the true one between them."""
    deltas = deltas.clip(0.0, 1.0)  # what rounding may have left beyond
    return _dense(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, deltas), interval)


def _dense(pmf: Any, interval: float) -> Losses:
    dense = pmf.to_dense_pmf()
    return Losses(interval, dense._lower_loss, np.asarray(dense._probs), dense._infinity_mass)


def _mirrored(noise: float, rate: float, interval: float) -> Any:
    """The pair that dominates a fixed-size sample in both directions of "replace one client".

    Zhu, Dong, Wang (2022): delta(e) = H_e((1-q)Q + qP || Q) for e >= 0 and, the relation being symmetric,
    1 - exp(e) + exp(e) delta(-e) for e < 0. Only this whole profile may be composed over rounds.
    """
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(
        noise, sampling_prob=rate, adjacency_type=privacy_loss_mechanism.AdjacencyType.REMOVE
    )
    top = math.ceil(loss.connect_dots_bounds().epsilon_upper / interval)
    grid = np.arange(top + 1) * interval
    right = np.asarray(loss.get_delta_for_epsilon(grid))
    below = -grid[:0:-1]
    left = -np.expm1(below) + np.exp(below) * right[:0:-1]
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -top, top, np.concatenate([left, right]))
    )
