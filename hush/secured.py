"""A scheme in whole numbers, for a secure sum."""

import math
from dataclasses import replace
from typing import Literal

from hush import grids
from hush.aggregators import SecureSum, Sum
from hush.aggregators.secure import LEAST
from hush.errors import Mistake
from hush.packing import Codes, Integers
from hush.privacy import lattice
from hush.sampling import Fixed, Once, Poisson, Sampling
from hush.scheme import Scheme
from hush.stages import CorrelatedNoise, FixedPoint, IntegerNoise, Noise, Quantise, Rotate, ServerNoise, Stage
from hush.task import Task

REACH = 8.0  # the largest change of a weight that fits, where no bound holds: far beyond what training does
SPARE = 3.0  # deviations that a Poisson cohort may be larger than expected, beyond which a sum might wrap
MARGIN = 1.001  # of discrete Gaussian noise, whose worth depends, if only just, on the number of shares


def secured(
    scheme: Scheme,
    task: Task,
    *,
    bits: int | None = None,
    loss: float = 0.05,
    kind: grids.Kind = "skellam",
    full: bool = False,
    servers: Literal[1, 2] = 1,
    corrupt: float = 0.1,
    seed: int = 0,
) -> Scheme:
    """The same scheme with its updates in whole numbers and a SecureSum, for any scheme whose uploads are added.

    Noise in shares becomes Rotate, Quantise and IntegerNoise, worth as much as before by the ledger's own accounting.
    With `bits` the grid is the finest whose sum has room in them; else it is that of the fewest bits at which rounding
    adds at most `loss` to the noise. Codes (signs, coins) are whole already. What has no bound becomes FixedPoint, of
    32 bits if not given. `full`, `servers`, `corrupt`: see SecureSum; `seed`: the public one of Rotate.
    """
    if not isinstance(scheme.aggregator, Sum):
        raise Mistake(f"{type(scheme.aggregator).__name__} does not add the uploads up: it has no secure sum")
    if scheme.apart:
        raise Mistake("nothing travels in this scheme: there is nothing to add up in secret")
    scheme = replace(scheme, sampling=at_least(scheme.sampling), aggregator=SecureSum(full, servers, corrupt))
    specs = scheme.specs(scheme.coordinates.count(task.layout))
    form = specs[-1].form
    if isinstance(form, Integers):
        return scheme
    if isinstance(form, Codes):
        if bits is not None:
            raise Mistake(f"bits={bits} cannot be chosen: codes add up exactly in as many as a cohort needs")
        return scheme
    clients = room(scheme.sampling, task.clients)
    last = scheme.stages[-1] if scheme.stages else None
    if not isinstance(last, Noise | ServerNoise | CorrelatedNoise):
        reach = REACH * (float(task.split.sizes.max()) if specs[-1].weighted else 1.0)
        return replace(scheme, stages=(*scheme.stages, FixedPoint(reach, 32 if bits is None else bits, clients)))
    turn, sigma = Rotate(seed), last.multiplier
    if isinstance(last, CorrelatedNoise):
        sigma *= last.correlation.spread  # what a round's sum must have room for
    size = turn.spec(specs[-2]).size
    floor = max(1.0, (1 - scheme.tolerance) * clients) if isinstance(last, Noise) else float(clients)
    grid = grids.settle(size, clients, floor, sigma, bits=bits, loss=loss, kind=kind)
    whole = Quantise(grid.steps, grid.bits)
    if isinstance(last, Noise):
        length = grids.rounded_norm(whole.steps, size, whole.beta)
        margin = 1.0 if kind == "skellam" else MARGIN
        last = IntegerNoise(margin * lattice.matching(kind, sigma, length, floor), kind)
    stages: tuple[Stage, ...] = (*scheme.stages[:-1], turn, whole, last)
    return replace(scheme, stages=stages)


def room(sampling: Sampling, population: int) -> int:
    """As many clients as a cohort has, but once in a thousand rounds."""
    expected = sampling.cohort(population)
    if isinstance(sampling, Fixed | Once):
        return math.ceil(expected)
    return min(population, math.ceil(expected + SPARE * math.sqrt(expected)))


def at_least(sampling: Sampling) -> Sampling:
    """Without cohorts that are too small for a secure sum: those rounds are aborted."""
    assert isinstance(sampling, Poisson | Fixed | Once)
    return replace(sampling, floor=max(LEAST, sampling.floor))
