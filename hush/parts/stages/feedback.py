"""The largest weights of an update; the rest waits."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from hush.core.packing import Few, Floats, Numbers
from hush.core.protocols import Parts, Stage, named
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.core.task import Registered
from hush.errors import Mistake


@dataclass(frozen=True)
class TopFeedback(Stage):
    """Top-k with error feedback (Stich, Cordonnier, Jaggi 2018; Karimireddy, Rebjock, Stich, Jaggi 2019).

    x' = x + e, where e is what this client has not sent so far. It sends the k = floor(ratio n) numbers of x' of
    largest magnitude (the smaller coordinate first among equals) and keeps e = x' - sent for its next round. If x'
    is not finite, it sends zeros and e stays as it was. Coordinates must be the same in every round.
    Guarantee: none. A well-known compressor to compare with.
    """

    settings: ClassVar[tuple[str, ...]] = ("ratio",)

    ratio: float
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise Mistake(f"ratio={self.ratio} must be in (0, 1]: the fraction of the weights that travels")

    def _count(self, size: int) -> int:
        """k."""
        count = math.floor(self.ratio * size + 1e-9)
        if count < 1:
            raise Mistake(f"ratio={self.ratio} of {size} weights is less than one weight: raise it")
        return count

    def spec(self, s: Spec) -> Spec:
        """Refused where it would break what was done before."""
        name = f"TopFeedback({self.ratio})"
        if s.form != Floats():
            raise Mistake(f"{name} after another stage that rounds or picks: keep one of them")
        if s.noise is not None:
            raise Mistake(f"{name} after Noise picks the largest noise: put it before Clip and Noise")
        if s.l2 < math.inf:
            raise Mistake(f"{name} after Clip adds what was kept, past the bound: put Clip behind")
        if s.weighted:
            raise Mistake(f"{name} is compared by the plain mean of the clients: leave Weigh out")
        return replace(s, form=Few(self._count(s.size)))

    def check(self, scheme: Parts, task: Registered, before: Spec) -> None:
        """Refuse what would not fit the next round, or hide in it."""
        if not scheme.fixed:
            raise Mistake("TopFeedback keeps what it did not send, and coordinates are drawn each round: fix them")
        if scheme.level == "record":
            trainer = named(scheme.trainer)
            raise Mistake(f"TopFeedback carries one round's noise into another, uncounted by {trainer}: leave it out")

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """What each client sends; what it does not is noted in its memory."""
        if ctx.memory is None:
            raise Mistake(f"TopFeedback({self.ratio}) needs a transport that keeps client memory: take one that does")
        kept = ctx.memory.rows(ctx.spec.size)
        for row, rest in zip(x, kept, strict=True):
            row += rest
            _divide(row.numpy(), rest.numpy(), self._count(ctx.spec.size))
        ctx.memory.note(kept)
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Nothing to undo."""
        return total


def _divide(row: Numbers, rest: Numbers, count: int) -> None:
    """In place: the `count` largest numbers stay in the row, the others move to the rest."""
    magnitudes = np.abs(row)
    if not np.isfinite(magnitudes.max()):
        row[:] = 0
        return
    places = _largest(magnitudes, count)
    sent = row[places]
    rest[:] = row
    rest[places] = 0
    row[:] = 0
    row[places] = sent


def _largest(magnitudes: Numbers, count: int) -> npt.NDArray[np.int64]:
    """Where the `count` largest are: all above the last of them, and of its equals the first ones."""
    last = np.partition(magnitudes, magnitudes.size - count)[magnitudes.size - count]
    above = np.flatnonzero(magnitudes > last)
    return np.concatenate([above, np.flatnonzero(magnitudes == last)[: count - above.size]])
