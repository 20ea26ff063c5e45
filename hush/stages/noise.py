"""Gaussian noise in shares."""

import math
from dataclasses import dataclass, replace

from torch import Tensor

from hush.errors import Mistake
from hush.spec import Context, Spec, Total


@dataclass(frozen=True)
class Noise:
    """Each client adds N(0, (S sigma)^2 / floor): the sum of at least `floor` shares has deviation S sigma.

    Guarantee: the sum of the uploads of one round is a Gaussian mechanism of multiplier sigma for one
    client, as long as at least `floor` clients add their share. With Poisson sampling the shares are
    sized by the drawn cohort, so that the summed deviation does not tell its size; where nobody was
    drawn the server adds the whole noise, so that an empty round looks like any other.
    """

    multiplier: float

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < math.inf:
            raise Mistake(f"noise={self.multiplier} must be positive: a scheme without noise is one without -dp")

    def spec(self, s: Spec) -> Spec:
        """Needs a bounded, unweighted input, and noise only once."""
        if not s.l2 < math.inf:
            raise Mistake(f"Noise({self.multiplier}) needs a bounded input: put Clip(c) before it")
        if s.noise is not None:
            raise Mistake(f"Noise({self.multiplier}) after another Noise: one is enough")
        return replace(s, noise=self.multiplier, bits=32)

    def encode(self, x: Tensor, ctx: Context) -> Tensor:
        """Add each client's share."""
        share = ctx.spec.l2 * self.multiplier / math.sqrt(ctx.plan.floor)
        if not 2.0**-120 < share < 2.0**120:  # float32 would turn such noise to nothing, or to infinity
            raise Mistake(
                f"noise={self.multiplier} at bound {ctx.spec.l2:g} has shares of {share:g}: scale the updates"
            )
        return ctx.secret.add_normals(x, share, ctx.clients.tolist(), "noise", ctx.plan.round)

    def decode(self, total: Total, ctx: Context) -> Total:
        """Nothing to undo; an empty round gets its noise here."""
        if total.count > 0:
            return total
        whole = ctx.secret.normal(total.body.numel(), "noise", ctx.plan.round, "server")
        return replace(total, body=total.body + ctx.spec.l2 * self.multiplier * whole.double())
