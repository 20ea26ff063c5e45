"""Privacy loss distributions of sampled Gaussians: built once per (noise, rate), composed by a tilted transform.

The probabilities p_i of the losses i * interval are composed as p_i exp(t i) / M(t), with the order t at which
Chernoff's bound of epsilon is least: there the composed tail is where most of the mass is. So the rounding errors of
the transform, which are absolute, are small beside the tail, however small delta. They are bounded and added.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import fft

from hush.privacy import pairs
from hush.privacy.pairs import Floats, Losses

Complexes = npt.NDArray[np.complex128]

_POINTS = 8192  # of one round's loss: two decimals of epsilon hold, and a call takes some milliseconds
_WINDOW = 2**18  # of many rounds' loss
_UNIT = 2.0**-53
_FFT = 16  # an FFT of N numbers is off by at most _FFT log2(N) _UNIT times the sum of their sizes
_OUTSIDE = 32.0  # exp(-32) of the tilted mass may be outside the transform's window
_FEW = 9.0  # exp(-9) of delta may be cut off the single rounds
_QUARTERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # from one order to those of Chernoff's bound, in steps of 2 ** (1/4)


class Group(NamedTuple):
    """Equal rounds; see accountants.Release."""

    noise: float
    rate: float
    rounds: int
    mirrored: bool
    steps: int = 1
    joined: float = 1.0
    noticed: bool = True


class Term(NamedTuple):
    """`rounds` rounds, in each of which with probability `joined` `steps` such losses add up, and else none."""

    one: Losses
    steps: int
    joined: float
    rounds: int

    def log_moment(self, order: float) -> float:
        """log E exp(order * loss / interval) of one round."""
        inner = self.steps * self.one.log_moment(order)
        if self.joined == 1:
            return inner
        return float(np.logaddexp(math.log1p(-self.joined), math.log(self.joined) + inner))

    def ends(self) -> tuple[int, int]:
        """The least and the largest finite loss of all rounds."""
        low, high = self.steps * self.one.first, self.steps * self.one.last
        if self.joined < 1:
            low, high = min(low, 0), max(high, 0)
        return self.rounds * low, self.rounds * high

    def infinite(self) -> float:
        """A bound of the probability of an infinite loss."""
        return self.rounds * self.joined * self.steps * self.one.infinite


class Window(NamedTuple):
    """Upper bounds of the composed probabilities of the losses low, low + 1, ..., times exp(order i - log_moment)."""

    low: int
    chances: Floats
    order: float
    log_moment: float


@lru_cache(maxsize=256)
def epsilon(groups: tuple[Group, ...], delta: float) -> float:
    """The epsilon of the composed groups at delta, never below the true one."""
    groups = tuple(Group(*group) for group in groups)
    interval = _interval(groups)
    log_tail = _log_tail(sum(group.rounds * group.steps for group in groups), delta)
    built = [_round(group._replace(rounds=1), interval, log_tail) for group in groups]
    found = 0.0
    for side in (0, 1):
        found = max(found, _epsilon(_terms(groups, [each[side] for each in built]), delta))
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
    whole = [side if group.steps == 1 else _repeated(side, group.steps, log_tail) for side in one]
    # A sum of probabilities above 1 is to stay above what it bounds.
    margin = pairs.MARGIN + 4 * max(0.0, *(float(side.chances.sum()) + side.infinite - 1 for side in whole))
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


def _terms(groups: Iterable[Group], built: Iterable[Losses]) -> list[Term]:
    """Rounds that go unnoticed have their steps in their losses already."""
    return [
        Term(one, g.steps, g.joined, g.rounds) if g.noticed or g.joined == 1 else Term(one, 1, 1.0, g.rounds)
        for g, one in zip(groups, built, strict=True)
    ]


def _log_moment(terms: Sequence[Term], order: float) -> float:
    return math.fsum(term.rounds * term.log_moment(order) for term in terms)


def _order(quarters: int) -> float:
    return float(2.0 ** (quarters / 4))


def _epsilon(terms: Sequence[Term], delta: float) -> float:
    """The least epsilon at delta, from the window around it."""
    quarters = _best(terms, delta)
    return _solved(terms, delta, quarters)


def _best(terms: Sequence[Term], delta: float) -> int:
    """The order (log M(t) - log delta) / t is least at: it falls and then rises, and bisection finds it."""

    def bound(quarters: int) -> float:
        return (_log_moment(terms, _order(quarters)) - math.log(delta)) / _order(quarters)

    low, high = -200, 0
    while low < high:
        middle = (low + high) // 2
        if bound(middle + 1) >= bound(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _ends(terms: Sequence[Term], quarters: int) -> tuple[int, int]:
    """Between which losses all but exp(-_OUTSIDE) of the tilted mass is, on either side, by Chernoff's bound."""
    order = _order(quarters)
    here = _log_moment(terms, order)
    least, most = (sum(ends) for ends in zip(*(term.ends() for term in terms), strict=True))
    below = [_order(quarters - step) for step in _QUARTERS] + [
        -_order(quarters + step) for step in (-8, -4, *_QUARTERS)
    ]
    low = max((here - _log_moment(terms, other) - _OUTSIDE) / (order - other) for other in [0.0, *below])
    above = [_order(quarters + step) for step in _QUARTERS]
    high = min((_log_moment(terms, other) - here + _OUTSIDE) / (other - order) for other in above)
    return max(least, math.floor(low)), min(most, math.ceil(high))


def _window(terms: Sequence[Term], order: float, low: int, high: int) -> Window:
    """The tilted transforms multiplied and turned back. What is outside wraps around, and only adds."""
    length = fft.next_fast_len(max(high - low + 1, *(len(term.one.chances) for term in terms)), real=True)
    product, off = _product(terms, order, length)
    off += _FFT * math.log2(length) * _UNIT * 2 * float(np.abs(product).sum())
    places = np.arange(low, high + 1) % length
    found = np.maximum(fft.irfft(product, length)[places], 0.0) + off / length
    return Window(low, found, order, _log_moment(terms, order))


def _product(terms: Sequence[Term], order: float, length: int) -> tuple[Complexes, float]:
    """The transform of all rounds, and a bound of its summed errors over all frequencies."""
    rounds = [_transform(term, order, length) for term in terms]
    sizes = [np.abs(values) + off for values, off in rounds]
    logs = np.zeros(length // 2 + 1)
    for term, size in zip(terms, sizes, strict=True):
        logs += term.rounds * np.log(size)
    bounds = np.exp(logs)
    kept = np.flatnonzero(logs > -80)  # the others count as zero, and as errors
    product = np.ones(len(kept), dtype=np.complex128)
    relative = np.zeros(len(kept))
    for term, size, (values, off) in zip(terms, sizes, rounds, strict=True):
        product *= _power(values[kept], term.rounds)
        relative += term.rounds * (np.broadcast_to(off, size.shape)[kept] / size[kept] + 8 * _UNIT)
    found = np.zeros(length // 2 + 1, dtype=np.complex128)
    found[kept] = product
    lost = float(bounds.sum() - bounds[kept].sum())
    return found, 2 * (max(lost, 0.0) + float(np.dot(bounds[kept], relative)) + _UNIT * length)


def _transform(term: Term, order: float, length: int) -> tuple[Complexes, Floats | float]:
    """Of one tilted round the transform, at most 1, and by how much it may be off at each frequency."""
    places = np.arange(term.one.first, term.one.last + 1)
    log_moment = term.one.log_moment(order)
    exponents = order * places - log_moment
    tilted = term.one.chances * np.exp(exponents)
    spread = np.zeros(length)
    spread[places % length] = tilted
    off = _UNIT * float(np.dot(tilted, 2 * np.abs(order * places) + abs(log_moment) + 4))
    off += _FFT * math.log2(length) * _UNIT * float(tilted.sum())
    values = fft.rfft(spread)
    if term.steps == 1 and term.joined == 1:
        return values, off
    size = np.abs(values) + off
    errors = term.steps * size ** (term.steps - 1) * (off + 8 * _UNIT * size)
    whole = term.log_moment(order)
    present = term.steps * log_moment + math.log(term.joined) - whole
    absent = math.log1p(-term.joined) - whole if term.joined < 1 else -math.inf
    mixed = math.exp(absent) + math.exp(present) * _power(values, term.steps)
    return mixed, math.exp(present) * errors + _UNIT * (8 + abs(whole) + 2 * abs(term.steps * log_moment))


def _power(values: Complexes, count: int) -> Complexes:
    """values ** count by squaring: numpy's own power is ten times slower."""
    result = values if count % 2 else np.ones_like(values)
    while count := count // 2:
        values = values * values
        if count % 2:
            result = result * values
    return result


def _solved(terms: Sequence[Term], delta: float, quarters: int) -> float:
    """The least e >= 0 with infinite + sum over losses l > e of (1 - exp(e - l)) chance <= delta; all over delta."""
    low, high = _ends(terms, quarters)
    window = _window(terms, _order(quarters), low, high)
    interval, order, log_moment = terms[0].one.interval, window.order, window.log_moment
    # Of what is above `high`, Chernoff's bound; see _ends.
    cut = math.exp(log_moment - order * high - _OUTSIDE - math.log(delta))
    infinite = math.fsum(term.infinite() for term in terms) / delta + cut
    if infinite >= 1:
        return math.inf
    skip = max(0, 1 - low)  # losses at or below 0 never count
    places = np.arange(low + skip, high + 1)[::-1]
    off = 8 * _UNIT * (abs(log_moment) + order * max(abs(low), abs(high)) + len(places) + 8)
    exponents = np.minimum(log_moment - order * places - math.log(delta), 580.0)
    chances = window.chances[skip:][::-1] * np.exp(exponents)
    # Relative to Chernoff's bound of epsilon, so that neither exp(-loss) nor a probability leaves the floats.
    near = (log_moment - math.log(delta)) / order * interval
    inverse = np.minimum(exponents + near - places * interval, 680.0)
    upper = (infinite + np.append(0.0, np.cumsum(chances))) * (1 + off)
    lower = np.append(0.0, np.cumsum(window.chances[skip:][::-1] * np.exp(inverse))) * (1 - off)
    with np.errstate(divide="ignore", invalid="ignore"):
        solved = np.where((upper > 1) & (lower > 0), near + np.log(upper - 1) - np.log(lower), -math.inf)
    least = max(0.0, (low - 1) * interval)
    reached = np.flatnonzero(solved >= np.append(places * interval, least))
    return float(solved[reached[0]]) if len(reached) else least


def _repeated(one: Losses, count: int, log_tail: float) -> Losses:
    """`count` such losses added up, at all losses: of several tilts the least bound at each."""
    term = Term(one, 1, 1.0, count)
    orders = [sign * _order(step) for step in range(-100, 1) for sign in (-1, 1)]
    ends = {order: (count * one.log_moment(order) - log_tail) / order for order in orders}
    least, most = term.ends()
    low = max(least, math.floor(max(end for order, end in ends.items() if order < 0)))
    high = min(most, math.ceil(min(end for order, end in ends.items() if order > 0)))
    places = np.arange(low, high + 1)
    chances = np.ones(len(places))
    for order in (0.0, *(sign * 2.0**power / len(places) for power in range(2, 10) for sign in (-1, 1))):
        window = _window([term], order, low, high)
        off = 8 * _UNIT * (abs(window.log_moment) + abs(order) * max(abs(low), abs(high)) + 8)
        exponents = np.minimum(window.log_moment - order * places, 700.0)
        chances = np.minimum(chances, window.chances * np.exp(exponents) * (1 + off))
    chances[0] += math.exp(log_tail)
    return Losses(one.interval, low, chances, count * one.infinite + math.exp(log_tail))
