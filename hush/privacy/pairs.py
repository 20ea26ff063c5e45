"""Losses of one sampled Gaussian release, on a grid, never below the true ones.

A pair (P, Q) of distributions is known by delta(e) = sum of (P - exp(e) Q)_+, or by gamma(e) = sum of (exp(e) Q - P)_+,
which is delta(e) - 1 + exp(e). The one is found without cancellation for e >= 0, the other for e <= 0.

Probabilities on the points of a grid whose delta is the true one at each of them ("connect the dots", Doroshenko,
Ghazi, Kamath, Kumar, Manurangsi 2022) have a delta that is nowhere below the true one, since this is convex in exp(e).
Composing keeps that: the delta of a pair composed with others is a mean of its own delta. So it suffices that every
delta of a round, as computed, is at least the true one. It is right to 1e-12 of itself, and MARGIN is added.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
Curve = Callable[[Floats], Floats]

LARGEST = 700.0  # loss whose exponential, and that of its negative, is a number
MARGIN = 1e-11  # relative, of every probability: more than rounding takes off delta
_NODES, _WEIGHTS = special.roots_legendre(10)


@dataclass(frozen=True, eq=False)
class Losses:
    """Probabilities of the losses (first + i) * interval, and of an infinite one."""

    interval: float
    first: int
    probabilities: Floats
    infinite: float
    _moments: dict[float, float] = field(default_factory=dict, repr=False)

    @property
    def last(self) -> int:
        """The largest finite loss, in intervals."""
        return self.first + len(self.probabilities) - 1

    def log_moment(self, order: float) -> float:
        """log E exp(order * loss / interval) of the finite losses; kept."""
        if order not in self._moments:
            exponents = self._logarithms + order * self._places
            top = float(exponents.max())
            self._moments[order] = top + math.log(float(np.exp(exponents - top).sum()))
        return self._moments[order]

    @cached_property
    def _logarithms(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities)

    @cached_property
    def _places(self) -> Floats:
        return np.arange(self.first, self.last + 1, dtype=np.float64)

    def delta(self, epsilon: Floats) -> Floats:
        """infinite + sum over losses l > e of (1 - exp(e - l)) probability, as sums of positive numbers."""
        from scipy import signal  # slow to import

        step = math.expm1(self.interval)
        # tails[i]: the sum over losses from the i-th on of exp(l_(i-1) - l) probability.
        tails = signal.lfilter([1 / (1 + step)], [1, -1 / (1 + step)], self.probabilities[::-1])[::-1]
        tails = np.append(tails, 0.0)
        deltas = self.infinite + np.append(np.cumsum((step * tails)[::-1])[::-1], 0.0)  # at l_(i-1)
        place = np.clip(np.floor(epsilon / self.interval) - self.first + 1, 0, len(self.probabilities)).astype(np.int64)
        # Linear in exp(e) between two losses, and also below the first one.
        ahead = np.expm1(np.minimum((place + self.first) * self.interval - epsilon, 700.0))
        below = np.exp(epsilon - (place + self.first - 1) * self.interval)
        return np.asarray(deltas[np.minimum(place + 1, len(deltas) - 1)] + ahead * below * tails[place])

    def gamma(self, epsilon: Floats) -> Floats:
        """sum over losses l < e of (exp(e - l) - 1) probability: exp(e) times the other direction's delta."""
        return np.asarray(np.exp(epsilon) * self._mirrored().delta(-epsilon))

    def _mirrored(self) -> "Losses":
        losses = np.arange(self.first, self.last + 1) * self.interval
        return Losses(self.interval, -self.last, (self.probabilities * np.exp(-losses))[::-1], 0.0)


@dataclass(frozen=True)
class Pair:
    """delta(e) for e >= 0, gamma(e) for e <= 0, and the e between which they matter."""

    delta: Curve
    gamma: Curve
    low: float
    high: float


def gaussian(noise: float, log_tail: float) -> Pair:
    """N(1, noise^2) against N(0, noise^2); what is less likely than exp(log_tail) is beyond the ends."""
    mu = 1 / noise
    end = mu * math.sqrt(-2 * log_tail) + mu**2 / 2
    return Pair(lambda e: _gaussian(mu, e), lambda e: np.asarray(np.exp(e) * _gaussian(mu, -e)), -end, end)


def of(found: Losses) -> Pair:
    """The pair with these losses."""
    return Pair(found.delta, found.gamma, (found.first - 1) * found.interval, found.last * found.interval)


def removed(pair: Pair, rate: float, interval: float, margin: float = MARGIN) -> Losses:
    """The losses of ((1-q) Q + q P, Q): its curves at log(1 - q + q exp(e)) are q times those of (P, Q) at e."""
    low, high = (math.floor(_mixed(pair.low, rate) / interval), math.ceil(_mixed(pair.high, rate) / interval))
    right, left = _inner(_grid(0, max(high, 1), interval), rate), _inner(_grid(min(low, -1), 0, interval), rate)
    return _dotted(interval, rate * pair.delta(right), _weighted(rate, pair.gamma, left), margin)


def added(pair: Pair, rate: float, interval: float, margin: float = MARGIN) -> Losses:
    """The losses of (Q, (1-q) Q + q P), given the pair (Q, P); none is above -log(1 - q)."""
    low, high = (math.floor(-_mixed(-pair.low, rate) / interval), math.ceil(-_mixed(-pair.high, rate) / interval))
    right, left = _grid(0, max(high, 1), interval), _grid(min(low, -1), 0, interval)
    # Near the largest loss the weight is a difference of what is almost equal: what that may be off by is added.
    weights = np.exp(right) * (rate + np.expm1(-right)) + 2.0**-43 * rate
    deltas = _weighted(weights, pair.delta, -_inner(-right, rate))
    gammas = _weighted(rate * np.exp(left) - np.expm1(left), pair.gamma, -_inner(-left, rate))
    return _dotted(interval, deltas, gammas, margin)


def symmetric(pair: Pair, rate: float, interval: float) -> Losses:
    """The pair that dominates a fixed-size sample in both directions of "replace one client"; rate 1: the pair itself.

    Zhu, Dong, Wang (2022): delta(e) = H_e((1-q)Q + qP || Q) for e >= 0 and, the relation being symmetric,
    1 - exp(e) + exp(e) delta(-e) for e < 0. Only this whole profile may be composed over rounds.
    """
    grid = _grid(0, max(math.ceil(_mixed(pair.high, rate) / interval), 1), interval)
    right = rate * pair.delta(_inner(grid, rate))
    return _dotted(interval, right, (np.exp(-grid) * right)[::-1], MARGIN)


def _grid(low: int, high: int, interval: float) -> Floats:
    return np.arange(low, high + 1, dtype=np.float64) * interval


def _mixed(loss: float, rate: float) -> float:
    """log(1 - q + q exp(l))."""
    if rate == 1:
        return loss
    if loss > 30:
        return loss + math.log(rate) + math.log1p((1 - rate) / rate * math.exp(-loss))
    return math.log1p(rate * math.expm1(loss))


def _inner(loss: Floats, rate: float) -> Floats:
    """The l with log(1 - q + q exp(l)) = loss; minus infinity where there is none."""
    if rate == 1:
        return loss
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(loss, 30.0)) / rate, -1.0))
        far = loss - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss > 30, far, near)


def _weighted(weights: Floats | float, curve: Curve, loss: Floats) -> Floats:
    """weights * curve(loss), and 0 where there is no such loss."""
    finite = np.isfinite(loss)
    found = np.zeros(len(loss))
    found[finite] = np.broadcast_to(weights, loss.shape)[finite] * curve(loss[finite])
    return found


def _gaussian(mu: float, epsilon: Floats) -> Floats:
    """delta(e) = Phi(a) - exp(e) Phi(a - mu), a = mu/2 - e/mu, for e >= 0, without cancellation.

    It is phi(a) (R(a) - R(a - mu)), R = Phi / phi. For small mu the difference is the integral of R'(z) = 1 + z R(z).
    """
    a = mu / 2 - epsilon / mu
    density = np.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    if mu <= 0.5:
        found = np.zeros_like(a)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            z = a - mu * (1 - node) / 2
            found += weight / 2 * (1 + z * _mills(z))
        return np.asarray(mu * density * found)
    near = np.where(a > 0, special.ndtr(a), density * _mills(np.minimum(a, 0.0)))
    return np.asarray(near - density * _mills(a - mu))


def _mills(z: Floats) -> Floats:
    """Phi(z) / phi(z)."""
    return np.asarray(math.sqrt(math.pi / 2) * special.erfcx(-z / math.sqrt(2)))


def _dotted(interval: float, right: Floats, left: Floats, margin: float) -> Losses:
    """The losses with these deltas at 0, 1, ... and gammas at ..., -1, 0 intervals.

    Probabilities are second differences, of delta above 0 and of gamma below, and at 0 what is left of 1.
    What rounding made negative counts 0, which only adds to delta.
    """
    factor, step = math.exp(interval), math.expm1(interval)
    down, up = -np.diff(right), np.diff(left)
    above = np.append((factor * down[:-1] - down[1:]) / step, down[-1] * factor / step)
    below = np.append(up[0] / step - left[0], (up[1:] - factor * up[:-1]) / step)
    rest = 1 - (float(right[-1]) + float(above.sum()) + float(below.sum()))
    probabilities = np.maximum(np.concatenate([below, [rest], above]), 0.0) * (1 + margin)
    return Losses(interval, 1 - len(left), probabilities, float(right[-1]) * (1 + margin))
