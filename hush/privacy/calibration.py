"""The noise that a privacy budget asks for."""

import math

from hush.errors import Mistake
from hush.privacy.accountants import check
from hush.privacy.accountants import epsilon as compose
from hush.privacy.events import Sampling, repeated

_STEP = 1000  # noise is searched in thousandths
_MOST = 10_000 * _STEP


def noise_for(
    epsilon: float,
    delta: float,
    rate: float,
    rounds: int,
    accountant: str = "pld",
    sampling: Sampling = "poisson",
    slack: float = 0.0,
    *,
    batch: float | None = None,
    steps: int = 1,
    reach: int = 1,
) -> float:
    """The least noise multiplier, in thousandths, whose epsilon (each round with slack) is within the target.

    For records: rate is the chance of their client, batch theirs within it, sampling that of the batches; see `spent`.
    Guarantee: the returned value itself was accounted, so its epsilon never exceeds the target.
    """
    check(delta, accountant)
    if not 0 < epsilon < math.inf:
        raise Mistake(f"epsilon={epsilon:g} must be positive and finite: give a privacy budget")

    def holds(thousandths: int) -> bool:
        found = spent(
            thousandths / _STEP, delta, rate, rounds, accountant, sampling, slack, batch=batch, steps=steps, reach=reach
        )
        return found <= epsilon

    high = _STEP
    while not holds(high):
        high *= 2
        if high > _MOST:
            raise Mistake(f"epsilon={epsilon:g} is out of reach of {accountant} within {rounds} rounds: raise it")
    low = high // 2 if high > _STEP else 0  # fails; zero noise always does
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high / _STEP


def spent(
    noise: float,
    delta: float,
    rate: float,
    rounds: int,
    accountant: str = "pld",
    sampling: Sampling = "poisson",
    slack: float = 0.0,
    *,
    batch: float | None = None,
    steps: int = 1,
    reach: int = 1,
) -> float:
    """The model view's epsilon of `rounds` equal sums with multiplier `noise`, each with `slack`.

    batch     for records: their chance to be in a batch of their client, whose own chance to be drawn is `rate`
    steps     the noisy sums of a client in one round
    reach     how many clipped gradients change with one record
    """
    release = repeated(noise, rate, rounds, sampling, batch=batch, steps=steps, reach=reach)
    return compose([release], delta, accountant, rounds * slack)
