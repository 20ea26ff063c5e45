"""The noise that a privacy budget asks for."""

import math
from collections.abc import Callable

from hush.errors import Mistake
from hush.privacy.accountants import Release, check, gaussian_log_delta
from hush.privacy.accountants import epsilon as compose
from hush.privacy.events import BatchSampling, repeated

_STEP = 1000  # noise is searched in thousandths
_MOST = 10_000 * _STEP


def noise_for(
    epsilon: float,
    delta: float,
    rate: float,
    rounds: int,
    accountant: str = "pld",
    sampling: BatchSampling = "poisson",
    slack: float = 0.0,
    *,
    batch: float | None = None,
    steps: int = 1,
    reach: int = 1,
) -> float:
    """The least noise multiplier, in thousandths, whose epsilon (each round with slack) is within the target.

    For records: rate is the probability of their client, batch theirs within it, sampling that of the batches; see
    `spent`. Guarantee: the returned value itself was accounted, so its epsilon never exceeds the target.
    """
    check(delta, accountant)
    if not 0 < epsilon < math.inf:
        raise Mistake(f"epsilon={epsilon:g} must be positive and finite: give a privacy budget")

    def at(thousandths: int) -> float:
        noise = thousandths / _STEP
        return spent(noise, delta, rate, rounds, accountant, sampling, slack, batch=batch, steps=steps, reach=reach)

    one = repeated(1.0, rate, rounds, sampling, batch=batch, steps=steps, reach=reach)
    found = _least(at, epsilon, _first(one, epsilon, delta))
    if found is None:
        raise Mistake(f"epsilon={epsilon:g} is out of reach of {accountant} within {rounds} rounds: raise it")
    return found / _STEP


def _least(at: Callable[[int], float], epsilon: float, first: int) -> int | None:
    """The least number whose value is at most epsilon while that of the one below it is more; None past _MOST.

    Values fall, about as a power of the number: so the next one to try lies on the line through the logarithms of two.
    After some tries every other one halves the bracket, whatever the values.
    """
    known: dict[int, float] = {}
    low, high, tries = 0, _MOST + 1, 0  # the ends fail, and hold, without being tried
    wanted = first
    while high - low > 1:
        known[wanted] = at(wanted)
        if known[wanted] <= epsilon:
            high = wanted
        else:
            low = wanted
        tries += 1
        guess = _crossing(known, epsilon)
        furthest = high - 1 if high in known else min(2 * low, high - 1)
        halved = (low + high) // 2 if high in known else furthest
        wanted = halved if guess is None or (tries > 6 and tries % 2) else guess
        wanted = min(max(wanted, low + 1), max(furthest, low + 1))
    return high if high in known else None


def _crossing(known: dict[int, float], epsilon: float) -> int | None:
    """Where the line through the two values nearest to epsilon meets it, in logarithms, rounded up."""
    points = [(math.log(number), math.log(value / epsilon)) for number, value in known.items() if 0 < value < math.inf]
    points.sort(key=lambda point: abs(point[1]))
    if not points:
        return None
    x, y = points[0]
    slope = -1.0
    if len(points) > 1 and points[1][1] != y:
        slope = (points[1][1] - y) / (points[1][0] - x)
    place = x - y / slope
    return math.ceil(math.exp(place)) if slope < 0 and place < math.log(_MOST) else None


def _first(one: Release, epsilon: float, delta: float) -> int:
    """Where to begin: the noise, in thousandths, at which the central limit of the rounds has this epsilon.

    mu^2 = rounds q^2 (exp(1/s^2) - 1) (Dong, Roth, Su 2022): near enough for many rounds, and a place to begin for
    others. `one` is a release whose multiplier is 1.
    """
    count = one.count * one.steps * one.joined

    def enough(thousandths: int) -> bool:
        exponent = (_STEP / thousandths / one.noise) ** 2
        if exponent > 40:
            return False
        grown = exponent if one.rate == 1 else one.rate**2 * math.expm1(exponent)
        mu = math.sqrt(count * grown)
        return mu < 100 and gaussian_log_delta(mu, epsilon) <= math.log(delta)

    low, high = 1, _MOST
    while high - low > 1 + low // 512:
        middle = math.isqrt(low * high)
        low, high = (low, middle) if enough(middle) else (max(middle, low + 1), high)
    return high


def spent(
    noise: float,
    delta: float,
    rate: float,
    rounds: int,
    accountant: str = "pld",
    sampling: BatchSampling = "poisson",
    slack: float = 0.0,
    *,
    batch: float | None = None,
    steps: int = 1,
    reach: int = 1,
) -> float:
    """The model view's epsilon of `rounds` equal sums with multiplier `noise`, each with `slack`.

    batch     for records: their probability to be in a batch of their client, whose own probability to be drawn is
    `rate`
    steps     the noisy sums of a client in one round
    reach     how many clipped gradients change with one record
    """
    release = repeated(noise, rate, rounds, sampling, batch=batch, steps=steps, reach=reach)
    return compose([release], delta, accountant, rounds * slack)
