"""Whole numbers, which can be added modulo 2^b."""

import math
from dataclasses import dataclass, replace

from torch import Tensor

from hush.errors import Mistake
from hush.packing import Integers
from hush.spec import Context, Spec, Total

MOST = 2.0**25  # the longest row, in steps: squares add up exactly in float64, in whatever order
TRIES = 64
MARGIN = 1 - 1e-12  # more than what the bound's own arithmetic is off by


def rounded_norm(length: float, size: int, beta: float) -> float:
    """The bound after rounding, of `size` numbers with norm at most c = `length`, both in steps of the grid:

    min{ c + sqrt(d), sqrt(c^2 + d/4 + sqrt(2 ln(1/beta)) (c + sqrt(d)/2)) }; the second is exceeded with chance beta
    at most in one try (Kairouz, Liu, Steinke 2021).
    """
    root = math.sqrt(size)
    likely = length**2 + size / 4 + math.sqrt(2 * math.log(1 / beta)) * (length + root / 2)
    return min(length + root, math.sqrt(likely))


@dataclass(frozen=True)
class Quantise:
    """x / grid, rounded up or down by chance, so that the mean is x; again until the norm is at most rounded_norm.

    After TRIES tries, with chance below beta^TRIES, it is rounded towards zero instead. From here on rows are whole
    numbers, and Spec.l2 counts in steps of the grid; the server multiplies the sum by the grid. They are int32: four
    bytes as before, where float32 would be exact only up to 24 bits, and sums wrap modulo 2^32, of which every modulus
    up to 32 bits is a divisor. Draws are secret; the bound does not depend on them. That rows beyond the bound are
    rounded again moves the mean of a row by a norm of at most sqrt(d) beta / (1 - beta) steps.

    Guarantee: the L2 norm of what is sent is at most rounded_norm(S / grid) steps, always, and so its L1 norm at
    most the square of it, whole numbers being at most their squares.
    """

    grid: float
    beta: float = math.exp(-0.5)

    def __post_init__(self) -> None:
        if not 0 < self.grid < math.inf:
            raise Mistake(f"grid={self.grid} must be positive and finite: the step that updates are rounded to")
        if not 0 < self.beta < 1:
            raise Mistake(f"beta={self.beta} must be in (0, 1): the chance of a second try; exp(-1/2) is usual")

    def spec(self, s: Spec) -> Spec:
        """Needs a bound that does not move: the grid is fixed before any data is seen."""
        name = f"Quantise({self.grid:g})"
        if s.noise is not None:
            raise Mistake(f"{name} after Noise rounds the noise, which no guarantee covers: put IntegerNoise behind it")
        if not s.l2 < math.inf:
            raise Mistake(f"{name} needs a bounded input: put Clip(c) before it")
        if s.clip is not None:
            raise Mistake(f"{name} after AdaptiveClip would have one grid for bounds that move: put Clip(c) before it")
        if isinstance(s.form, Integers):
            raise Mistake(f"{name} after another Quantise: one is enough")
        length = s.l2 / self.grid
        if not length + math.sqrt(s.size) <= MOST:
            raise Mistake(f"grid={self.grid:g} is too fine for the bound {s.l2:g}: take at most {MOST:g} steps")
        bound = rounded_norm(length, s.size, self.beta)
        return replace(s, l2=bound, form=Integers(max(2, math.floor(bound).bit_length() + 1)))

    def encode(self, x: Tensor, ctx: Context) -> Tensor:
        """Whole numbers, in the memory of x."""
        limit = self.spec(ctx.spec).l2 ** 2 * MARGIN
        rows, round = ctx.clients.tolist(), ctx.plan.round
        return ctx.secret.round_within(x, self.grid, limit, TRIES, rows, "quantise", round)

    def decode(self, total: Total, ctx: Context) -> Total:
        """Back to the scale of the updates."""
        return replace(total, body=total.body.double() * self.grid)
