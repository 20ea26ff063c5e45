"""A scheme in integers, for a secure sum."""

from dataclasses import replace
from typing import Literal

from hush.core.protocols import Room, named
from hush.core.scheme import Scheme
from hush.core.task import Registered
from hush.errors import Mistake
from hush.parts.aggregators import SecureSum
from hush.parts.aggregators.secure import LEAST
from hush.parts.stages import FixedPoint
from hush.privacy import grids

REACH = 8.0  # the largest change of a weight that fits, where no bound holds: far beyond what training does


def secured(
    scheme: Scheme,
    task: Registered,
    *,
    bits: int | None = None,
    rounding: float = 0.05,
    kind: grids.NoiseKind = "skellam",
    full: bool = False,
    servers: Literal[1, 2] = 1,
    corrupt: float = 0.1,
    seed: int = 0,
) -> Scheme:
    """The same scheme with its updates in integers and a SecureSum, for any scheme whose uploads are added.

    Noise says itself what it becomes (Source.in_integers), worth as much as before by the ledger's own accounting.
    With `bits` the grid is the finest whose sum has room in them; else it is that of the fewest bits at which rounding
    adds at most the fraction `rounding` to the noise. Codes (signs, coins) are integers already. What has no bound
    becomes FixedPoint, of 32 bits if not given. `full`, `servers`, `corrupt`: see SecureSum; `seed`: the public one of
    Rotate.
    """
    if not scheme.aggregator.adds:
        raise Mistake(f"{named(scheme.aggregator)} does not add the uploads up: it has no secure sum")
    if scheme.baseline:
        raise Mistake("nothing travels in this scheme: there is nothing to add up in secret")
    scheme = replace(scheme, sampling=scheme.sampling.at_least(LEAST), aggregator=SecureSum(full, servers, corrupt))
    specs = scheme.specs(scheme.coordinates.count(task.layout))
    form = specs[-1].form
    if form.added(1) is not None:
        if form.modulus is None and bits is not None:
            raise Mistake(f"bits={bits} cannot be chosen: codes add up exactly in as many as a cohort needs")
        return scheme
    clients, source = scheme.sampling.largest(task.clients), scheme.source
    if source is None or source is not scheme.stages[-1]:
        reach = REACH * (float(task.sizes.max()) if specs[-1].weighted else 1.0)
        return replace(scheme, stages=(*scheme.stages, FixedPoint(reach, 32 if bits is None else bits, clients)))
    floor = max(1.0, (1 - scheme.tolerance) * clients)
    found = source.in_integers(specs[-2], Room(clients, floor, bits, rounding, kind, seed))
    return replace(scheme, stages=(*scheme.stages[:-1], *found))
