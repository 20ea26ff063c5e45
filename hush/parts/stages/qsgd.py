"""Few bits per weight, by stochastic rounding."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from hush.core.packing import Buckets, Floats, Numbers
from hush.core.protocols import Stage
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.errors import Mistake

PIECE = 2**16  # numbers that are rounded at a time: few enough to stay in the cache


@dataclass(frozen=True)
class Qsgd(Stage):
    """Stochastic rounding to 2 s + 1 levels, s = 2^(bits-1) - 1 (Alistarh, Grubic, Li, Tomioka, Vojnovic 2017).

    In each bucket of `bucket` numbers, x becomes scale * level / s, where level is x / scale * s, rounded up or down
    at random so that its mean is right. The scale is the bucket's largest magnitude, the authors' practical choice
    in place of its 2-norm. A row that is not finite becomes zero.
    Guarantee: none. A well-known compressor to compare with.
    """

    settings: ClassVar[tuple[str, ...]] = ("bits",)

    bits: int = 4
    bucket: int = 512

    def __post_init__(self) -> None:
        Buckets(self.bits, self.bucket)  # refuses what it cannot hold

    @property
    def _form(self) -> Buckets:
        return Buckets(self.bits, self.bucket)

    def spec(self, s: Spec) -> Spec:
        """Refused where it would break what was done before."""
        name = f"Qsgd({self.bits})"
        if s.form != Floats():
            raise Mistake(f"{name} after another stage that rounds or picks: keep one of them")
        if s.noise is not None:
            raise Mistake(f"{name} after Noise rounds the noise, which no guarantee covers: leave Noise out")
        if s.l2 < math.inf:
            raise Mistake(f"{name} after Clip rounds past the bound: leave Clip out")
        if s.weighted:
            raise Mistake(f"{name} is compared by the plain mean of the clients: leave Weigh out")
        return replace(s, form=self._form)

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Round each row with its client's own draws."""
        form = self._form
        for place, row in enumerate(x.numpy()):
            _round(row, form, ctx.draws.generator(place, "qsgd", ctx.plan.round))
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Nothing to undo."""
        return total


def _round(row: Numbers, form: Buckets, rng: np.random.Generator) -> None:
    """In place, piece by piece, in whole buckets."""
    length = max(1, PIECE // form.bucket) * form.bucket
    for start in range(0, row.size, length):
        piece = row[start : start + length]
        scales = form.scales(piece)
        if not np.isfinite(scales).all():
            row[:] = 0
            return
        exact = form.levels(piece, scales)
        levels = np.floor(exact)
        exact -= levels  # the probability to go up; none for the scale itself, which so stays what it is
        levels += rng.random(piece.size, dtype=np.float32) < exact
        piece[:] = form.values(levels, scales)
