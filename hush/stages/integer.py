"""Noise of whole numbers, added modulo 2^b: what a secure sum hides is exactly what is accounted."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hush.discrete import NORMAL, SKELLAM
from hush.errors import Mistake
from hush.packing import Integers
from hush.spec import Context, Plan, Spec, Total

LEAST = 1.5  # deviation of a discrete normal share: with less, sums of shares are no longer close to normal


@dataclass(frozen=True)
class IntegerNoise:
    """Each client adds its share of whole noise, then reduces modulo 2^bits to [-2^(bits-1), 2^(bits-1)).

    skellam: the difference of two Poisson numbers, of variance (sigma L)^2 / floor, where L is the bound in steps of
    the grid (Agarwal, Kairouz, Liu 2021). Sums of such shares are of the same kind, exactly.
    gaussian: discrete normal numbers of deviation sigma L / sqrt(floor) (Kairouz, Liu, Steinke 2021), at least LEAST.

    The sum modulo 2^bits, around 0, is that of the noisy updates unless it wraps; bits_for says how many bits make that
    rare. A wrap costs accuracy and never privacy: to reduce is to process what the noise has already hidden.

    Guarantee: the summed noise of at least `floor` clients has a deviation of at least sigma L, however many drop out
    above it. It is not Gaussian: what it hides is for an accountant of its own kind, from L, the L1 bound, the number
    of coordinates and the deviation, never from sigma alone. Where nobody was drawn the server adds the whole noise.
    """

    multiplier: float
    bits: int
    kind: Literal["skellam", "gaussian"] = "skellam"

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < math.inf:
            raise Mistake(f"noise={self.multiplier} must be positive: a scheme without noise is one without -dp")
        if self.kind not in ("skellam", "gaussian"):
            raise Mistake(f"kind={self.kind} must be skellam or gaussian: which whole noise is added")
        Integers(self.bits)

    def spec(self, s: Spec) -> Spec:
        """Needs whole numbers of bounded norm, and noise only once."""
        name = f"IntegerNoise({self.multiplier})"
        if s.noise is not None:
            raise Mistake(f"{name} after another noise: one is enough")
        if not isinstance(s.form, Integers) or not s.l2 < math.inf:
            raise Mistake(f"{name} needs whole numbers of bounded norm: put Clip(c) and Quantise(grid) before it")
        most = math.sqrt(SKELLAM[1]) if self.kind == "skellam" else NORMAL[1]
        if self.multiplier * s.l2 > most:
            raise Mistake(
                f"noise={self.multiplier} at a bound of {s.l2:g} steps has a deviation of more than {most:g} steps:"
                " take a coarser grid"
            )
        return replace(s, noise=self.multiplier, form=Integers(self.bits))

    def share(self, s: Spec, plan: Plan) -> float:
        """The deviation of one client's noise, in steps of the grid, behind this Spec."""
        share = self.multiplier * s.l2 / math.sqrt(plan.floor)
        if self.kind == "gaussian" and share < LEAST:
            raise Mistake(
                f"noise={self.multiplier} in {plan.floor:g} shares has a deviation of {share:g} steps each, and"
                f" discrete normal shares need {LEAST}: take a grid {LEAST / share:.2g} times finer, or kind=skellam"
            )
        return share

    def encode(self, x: Tensor, ctx: Context) -> Tensor:
        """Each client's share, then the modulus, in place."""
        share = self.share(ctx.spec, ctx.plan)
        return _centred(self._add(x.int(), share, ctx, ctx.clients.tolist(), "noise", ctx.plan.round), 32 - self.bits)

    def decode(self, total: Total, ctx: Context) -> Total:
        """The sum around 0, of uploads that were centred or not; an empty round gets its noise here."""
        body = total.body.to(torch.int64, copy=True)
        if total.count == 0:
            nothing = torch.zeros(1, body.numel(), dtype=torch.int32)
            whole = self.multiplier * ctx.spec.l2
            body += self._add(nothing, whole, ctx, [0], "noise", ctx.plan.round, "server")[0]
        return replace(total, body=_centred(body, 64 - self.bits).double())

    def _add(self, x: Tensor, deviation: float, ctx: Context, rows: list[int], *labels: str | int) -> Tensor:
        if self.kind == "skellam":
            return ctx.secret.add_skellam(x, deviation**2, rows, *labels)
        return ctx.secret.add_discrete_normals(x, deviation, rows, *labels)


def _centred(x: Tensor, spare: int) -> Tensor:
    """Modulo 2^bits, in [-2^(bits-1), 2^(bits-1)), in place: the highest of the bits moves to the sign, and back."""
    return x.bitwise_left_shift_(spare).bitwise_right_shift_(spare)


def bits_for(n: float, d: int, clip: float, grid: float, deviation: float, k: float = 4) -> int:
    """The fewest bits b with 2^b >= 2 k sqrt(c^2 n^2 / d + (g^2 / 4 + s^2 g^2) n) / g, so that a wrap is rare.

    s is the `deviation` of one of n clients' shares, in steps of the grid g. The sum of n updates, the same for all
    and spread over d coordinates in the worst case that is likely, has c n / sqrt(d) in each; rounding and noise add
    their variances; k deviations of these together have room on both sides.
    """
    for name, value in (("n", n), ("d", d), ("clip", clip), ("grid", grid), ("k", k)):
        if not 0 < value < math.inf:
            raise Mistake(f"{name}={value} must be positive and finite: bits are chosen before any data is seen")
    if not 0 <= deviation < math.inf:
        raise Mistake(f"deviation={deviation} must be zero or positive and finite: of one share, in steps of the grid")
    room = 2 * k * math.sqrt((clip / grid * n) ** 2 / d + (0.25 + deviation**2) * n)
    bits = max(2, math.ceil(math.log2(room)))
    if bits > 32:
        raise Mistake(f"grid={grid:g} needs {bits} bits for each number, and 32 is the most: take a coarser grid")
    return bits
