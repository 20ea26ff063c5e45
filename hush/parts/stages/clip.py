"""Bounds on what one client may add to the sum."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hush.core.packing import FLOATS
from hush.core.protocols import Stage
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.core.updates import NORMAL
from hush.core.updates import norms as lengths
from hush.errors import Mistake

# The smallest bound: far below it float32 cannot carry the numbers of a bounded row.
LEAST = 2.0**-100
# What a bound gives up for rounding. The relative errors of the norm (size * 2^-53, below 2^-25 for 2^28 numbers),
# of the scale and of the product (2^-24 each) are less than 2^-22 together, and the remainder is more than what
# products below the normal numbers of float32 are off by (2^-150 each) at bounds from LEAST on.
SLACK = 1 - 2.0**-22


def _cut(x: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Each row at norm at most `bound`, and the norms before. A row that is not finite becomes zero.

    Norms are taken in float64, where no square of a float32 over- or underflows: a norm is finite just where
    its row is. SLACK holds the bound for the numbers that travel. A client whose training failed must not
    reveal it by NaN.
    """
    norms = lengths(x)
    broken = ~norms.isfinite()
    if bool(broken.any()):
        x, norms = x.masked_fill(broken.unsqueeze(1), 0.0), norms.masked_fill(broken, 0.0)
    scale = (bound * SLACK / norms).clamp(max=1.0)
    if bool((scale < NORMAL).any()):  # below the normal numbers a scale in float32 would be too coarse
        x = (x.double() * scale.unsqueeze(1)).to(x.dtype)
    elif bool((scale < 1).any()):
        x = x.mul_(scale.to(x.dtype).unsqueeze(1))
    return x, norms


def _check_bound(bound: float) -> None:
    if not LEAST <= bound < math.inf:
        raise Mistake(f"clip={bound} must be positive and finite, and at least {LEAST:g} for float32")


def _check(s: Spec, name: str) -> None:
    if s.noise is not None:
        raise Mistake(f"{name} after Noise would cut the noise: put it before")
    if s.form.coded:
        raise Mistake(f"{name} after a code of few values would undo it: put it in front, or leave the code out")
    if s.weighted:
        raise Mistake(f"{name} after Weigh bounds the sum but not the weights: leave Weigh out under DP")


@dataclass(frozen=True)
class Clip(Stage):
    """x / max(1, |x|_2 / S): one client moves the sum by at most S.

    Guarantee: the L2 norm of what is sent is at most `bound`.
    """

    settings: ClassVar[tuple[str, ...]] = ("clip",)

    bound: float
    scales: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bound(self.bound)

    @property
    def constant(self) -> float:
        """The bound, which stays what it is."""
        return self.bound

    def spec(self, s: Spec) -> Spec:
        """The norm is bounded from here on."""
        _check(s, "Clip")
        return replace(s, l2=min(s.l2, self.bound), form=FLOATS)

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Scale rows that are too long."""
        return _cut(x, self.bound)[0]

    def factors(self, norms: Tensor, ctx: ClientContext) -> Tensor:
        """S over the norm where that is more; 0 for a row that is not finite."""
        return torch.where(norms.isfinite(), (self.bound * SLACK / norms).clamp(max=1.0), 0.0)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Nothing to undo."""
        return total


@dataclass(frozen=True)
class AdaptiveClip(Stage):
    """A bound that follows a quantile of the norms (Andrew, Thakkar, McMahan, Ramaswamy 2021).

    A client sends one more number, c (b - 1/2), where b says whether its norm was within the bound S.
    The server's noisy fraction f of such clients moves the bound: S <- S exp(-rate (f - quantile)).
    c = weight * S, so the count has noise of about sigma / weight clients. The joint vector has norm
    sqrt(S^2 + c^2/4), which the noise behind it is sized for: the ledger's one event pays for both, as
    in the authors' 1/z^2 = 1/z_update^2 + 1/(2 z_count)^2.

    Guarantee: the L2 norm of what is sent is at most sqrt(S^2 + c^2/4).
    """

    settings: ClassVar[tuple[str, ...]] = ("clip", "quantile")

    start: float = 0.1
    quantile: float = 0.5
    rate: float = 0.2
    weight: float = 0.2

    def __post_init__(self) -> None:
        _check_bound(self.start)
        if not 0 < self.quantile < 1:
            raise Mistake(f"quantile={self.quantile} must be in (0, 1)")
        if not self.rate > 0 or not self.weight > 0:
            raise Mistake(f"rate={self.rate} and weight={self.weight} of the adaptive clip must be positive")

    @property
    def constant(self) -> None:
        """The bound moves."""

    def _bounds(self, s: Spec) -> tuple[float, float]:
        """S and c: the count's number is `weight` times S, so that it follows S over the rounds."""
        bound = self.start if s.clip is None else s.clip
        return bound, self.weight * bound

    def spec(self, s: Spec) -> Spec:
        """One number more, and its part of the norm."""
        _check(s, "AdaptiveClip")
        if s.l2 < math.inf:
            raise Mistake("AdaptiveClip after another bound would follow that bound: keep one of them")
        bound, count = self._bounds(s)
        return replace(s, size=s.size + 1, l2=math.hypot(bound, count / 2), form=FLOATS, clip=bound)

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """The clipped rows, and what each says of its own norm."""
        bound, count = self._bounds(ctx.spec)
        cut, norms = _cut(x, bound)
        within = (norms <= bound).to(x.dtype) - 0.5
        return torch.cat([cut, SLACK * count * within.unsqueeze(1)], dim=1)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Take the count off, and move the bound of the next round by it."""
        bound, count = self._bounds(ctx.spec)
        fraction = float(total.body[-1]) / count / ctx.plan.cohort + 0.5
        moved = bound * math.exp(-self.rate * (min(max(fraction, 0.0), 1.0) - self.quantile))
        return replace(total, body=total.body[:-1], clip=max(moved, LEAST))
