"""Losses of many rounds: the probabilities of one round's, composed by a tilted transform.

The probabilities p_i of the losses i * interval are composed as p_i exp(t i) / M(t), with the order t at which
Chernoff's bound of epsilon is least: there the composed tail is where most of the mass is. So the rounding errors of
the transform, which are absolute, are small beside the tail, however small delta. They are bounded and added.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import fft

from hush.privacy.pairs import Floats, Losses

Complexes = npt.NDArray[np.complex128]

_UNIT = 2.0**-53
_FFT = 16  # an FFT of N numbers is off by at most _FFT log2(N) _UNIT times the sum of their sizes
_OUTSIDE = 32.0  # exp(-32) of the tilted mass may be outside the transform's window
_QUARTERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # from one order to those of Chernoff's bound, in steps of 2 ** (1/4)


class Summand(NamedTuple):
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
    probabilities: Floats
    order: float
    log_moment: float


def _log_moment(terms: Sequence[Summand], order: float) -> float:
    return math.fsum(term.rounds * term.log_moment(order) for term in terms)


def _order(quarters: int) -> float:
    return float(2.0 ** (quarters / 4))


def least_epsilon(terms: Sequence[Summand], delta: float) -> float:
    """The least epsilon at delta, from the window around it."""
    quarters = _best(terms, delta)
    return _solved(terms, delta, quarters)


def _best(terms: Sequence[Summand], delta: float) -> int:
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


def _ends(terms: Sequence[Summand], quarters: int) -> tuple[int, int]:
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


def _window(terms: Sequence[Summand], order: float, low: int, high: int) -> Window:
    """The tilted transforms multiplied and turned back. What is outside wraps around, and only adds."""
    length = fft.next_fast_len(max(high - low + 1, *(len(term.one.probabilities) for term in terms)), real=True)
    product, off = _product(terms, order, length)
    off += _FFT * math.log2(length) * _UNIT * 2 * float(np.abs(product).sum())
    places = np.arange(low, high + 1) % length
    found = np.maximum(fft.irfft(product, length)[places], 0.0) + off / length
    return Window(low, found, order, _log_moment(terms, order))


def _product(terms: Sequence[Summand], order: float, length: int) -> tuple[Complexes, float]:
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
    return found, 2 * (max(lost, 0.0) + _dot(bounds[kept], relative) + _UNIT * length)


def _transform(term: Summand, order: float, length: int) -> tuple[Complexes, Floats | float]:
    """Of one tilted round the transform, at most 1, and by how much it may be off at each frequency."""
    places = np.arange(term.one.first, term.one.last + 1)
    log_moment = term.one.log_moment(order)
    exponents = order * places - log_moment
    tilted = term.one.probabilities * np.exp(exponents)
    spread = np.zeros(length)
    spread[places % length] = tilted
    off = _UNIT * _dot(tilted, 2 * np.abs(order * places) + abs(log_moment) + 4)
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


def _dot(a: Floats, b: Floats) -> float:
    """Their product: by numpy's own sum, which is the same on any number of cores and waits for no thread of BLAS."""
    return float((a * b).sum())


def _power(values: Complexes, count: int) -> Complexes:
    """values ** count by squaring: numpy's own power is ten times slower."""
    result = values if count % 2 else np.ones_like(values)
    while count := count // 2:
        values = values * values
        if count % 2:
            result = result * values
    return result


def _solved(terms: Sequence[Summand], delta: float, quarters: int) -> float:
    """The least e >= 0 with infinite + sum over losses l > e of (1 - exp(e - l)) p(l) <= delta; all over delta."""
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
    probabilities = window.probabilities[skip:][::-1] * np.exp(exponents)
    # Relative to Chernoff's bound of epsilon, so that neither exp(-loss) nor a probability leaves the floats.
    near = (log_moment - math.log(delta)) / order * interval
    inverse = np.minimum(exponents + near - places * interval, 680.0)
    upper = (infinite + np.append(0.0, np.cumsum(probabilities))) * (1 + off)
    lower = np.append(0.0, np.cumsum(window.probabilities[skip:][::-1] * np.exp(inverse))) * (1 - off)
    with np.errstate(divide="ignore", invalid="ignore"):
        solved = np.where((upper > 1) & (lower > 0), near + np.log(upper - 1) - np.log(lower), -math.inf)
    least = max(0.0, (low - 1) * interval)
    reached = np.flatnonzero(solved >= np.append(places * interval, least))
    return float(solved[reached[0]]) if len(reached) else least


def repeated(one: Losses, count: int, log_tail: float) -> Losses:
    """`count` such losses added up, at all losses: of several tilts the least bound at each."""
    term = Summand(one, 1, 1.0, count)
    orders = [sign * _order(step) for step in range(-100, 1) for sign in (-1, 1)]
    ends = {order: (count * one.log_moment(order) - log_tail) / order for order in orders}
    least, most = term.ends()
    low = max(least, math.floor(max(end for order, end in ends.items() if order < 0)))
    high = min(most, math.ceil(min(end for order, end in ends.items() if order > 0)))
    places = np.arange(low, high + 1)
    probabilities = np.ones(len(places))
    for order in (0.0, *(sign * 2.0**power / len(places) for power in range(2, 10) for sign in (-1, 1))):
        window = _window([term], order, low, high)
        off = 8 * _UNIT * (abs(window.log_moment) + abs(order) * max(abs(low), abs(high)) + 8)
        exponents = np.minimum(window.log_moment - order * places, 700.0)
        probabilities = np.minimum(probabilities, window.probabilities * np.exp(exponents) * (1 + off))
    probabilities[0] += math.exp(log_tail)
    return Losses(one.interval, low, probabilities, count * one.infinite + math.exp(log_tail))
