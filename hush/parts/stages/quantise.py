"""Integers, which can be added modulo 2^b."""

import math
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from hush.core.integers import Integers
from hush.core.protocols import Room, Stage
from hush.core.spec import ClientContext, Rounding, ServerContext, Spec, Total
from hush.errors import Mistake
from hush.parts.stages.rotate import Rotate
from hush.privacy.grids import BETA, MOST, rounded_norm, settle

TRIES = 64
MARGIN = 1 - 1e-12  # more than what the bound's own arithmetic is off by


@dataclass(frozen=True)
class Quantise(Stage):
    """x / grid, stochastically rounded, so that the mean is x; again until the norm is at most rounded_norm.

    A row at its bound S is `steps` long: the grid is S / steps, and follows a bound that moves from round to round.
    After TRIES tries, with probability below beta^TRIES, a row is rounded towards zero instead. From here on rows are
    integers, and Spec.l2 counts in steps; they are added modulo 2^bits, and the server multiplies the sum by the
    grid. They are int32: four bytes as before, where float32 would be exact only up to 24 bits, and sums wrap modulo
    2^32, of which every modulus up to 32 bits is a divisor. Draws are secret; the bound does not depend on them. That
    rows beyond the bound are rounded again moves the mean of a row by a norm of at most sqrt(d) beta / (1 - beta)
    steps.

    Guarantee: the L2 norm of what is sent is at most rounded_norm(steps) steps, always, and so its L1 norm at
    most the square of it, integers being at most their squares.
    """

    steps: float
    bits: int
    beta: float = BETA

    def __post_init__(self) -> None:
        if not 0 < self.steps < math.inf:
            raise Mistake(f"steps={self.steps} must be positive and finite: how many steps of the grid a bound is long")
        if not 0 < self.beta < 1:
            raise Mistake(f"beta={self.beta} must be in (0, 1): the probability of a second try; exp(-1/2) is usual")
        Integers(self.bits)

    def spec(self, s: Spec) -> Spec:
        """Needs a bound: the grid is fixed before any data of the round is seen."""
        _check(s, f"Quantise({self.steps:g})")
        if not s.l2 < math.inf:
            raise Mistake(f"Quantise({self.steps:g}) needs a bounded input: put Clip(c) before it, or take FixedPoint")
        if not self.steps + math.sqrt(s.size) <= MOST:
            raise Mistake(f"steps={self.steps:g} of {s.size} numbers is too fine: take at most {MOST:g} steps")
        return replace(
            s,
            l2=rounded_norm(self.steps, s.size, self.beta),
            form=Integers(self.bits),
            rounding=Rounding(self.steps, self.beta),
        )

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Integers, in the memory of x."""
        limit = self.spec(ctx.spec).l2 ** 2 * MARGIN
        return ctx.draws.round_within(x, ctx.spec.l2 / self.steps, limit, TRIES, "quantise", ctx.plan.round)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Back to the scale of the updates."""
        return replace(total, body=total.body.double() * (ctx.spec.l2 / self.steps))


@dataclass(frozen=True)
class FixedPoint(Stage):
    """x, cut to [-reach, reach] in each coordinate and stochastically rounded to a grid that `clients` rows cannot
    overflow.

    For updates that no bound holds and no noise hides. The grid is reach clients / (2^(bits-1) - 1 - clients), so that
    the sum of so many rows is within the modulus, rounding included. A row that is not finite becomes zero.

    Guarantee: none by itself.
    """

    reach: float
    bits: int
    clients: int

    def __post_init__(self) -> None:
        if not 0 < self.reach < math.inf:
            raise Mistake(f"reach={self.reach} must be positive and finite: the largest number that is not cut")
        if self.clients < 1:
            raise Mistake(f"clients={self.clients} must be at least 1: how many rows are added")
        if _top(self.bits) < 2 * self.clients:
            raise Mistake(f"bits={self.bits} are too few to add {self.clients} numbers: take more")

    @property
    def grid(self) -> float:
        """The distance of two neighbouring numbers."""
        return float(np.float32(self.reach)) * self.clients / (_top(self.bits) - self.clients)  # as it is cut

    def spec(self, s: Spec) -> Spec:
        """Any numbers without noise."""
        _check(s, f"FixedPoint({self.reach:g})")
        # A bound in front of it is one in other units, and rounding does not keep to it: noise needs Quantise.
        return replace(s, l2=math.inf, form=Integers(self.bits))

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Integers, in the memory of x."""
        x.masked_fill_(~x.isfinite().all(dim=1, keepdim=True), 0.0)
        x.clamp_(-self.reach, self.reach)
        return ctx.draws.round_within(x, self.grid, math.inf, 1, "fixed point", ctx.plan.round)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Back to the scale of the updates."""
        return replace(total, body=total.body.double() * self.grid)


def on_grid(before: Spec, room: Room, noise: float, floor: float) -> tuple[Rotate, Quantise]:
    """The stages that make integers of bounded rows, for `floor` shares of noise of this multiplier in all."""
    turn = Rotate(room.seed)
    size = turn.spec(before).size
    grid = settle(size, room.clients, floor, noise, bits=room.bits, rounding=room.rounding, kind=room.kind)
    return turn, Quantise(grid.steps, grid.bits)


def _top(bits: int) -> int:
    return (1 << Integers(bits).width - 1) - 1


def _check(s: Spec, name: str) -> None:
    if s.noise is not None:
        raise Mistake(f"{name} after Noise rounds the noise, which no guarantee covers: put IntegerNoise behind it")
    if s.form.modulus is not None:
        raise Mistake(f"{name} after integers: one rounding is enough")
