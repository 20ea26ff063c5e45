"""Noise of integers, added modulo 2^b: what a secure sum hides is exactly what is accounted."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hush.core.integers import centred
from hush.core.protocols import Source
from hush.core.spec import ClientContext, Multipliers, Plan, ServerContext, Spec, Total
from hush.errors import Mistake
from hush.privacy import lattice
from hush.privacy.grids import KINDS, NoiseKind
from hush.random.draws import Draws
from hush.random.tables import NORMAL, SKELLAM


@dataclass(frozen=True)
class IntegerNoise(Source):
    """Each client adds its share of integer noise, then reduces modulo 2^bits to [-2^(bits-1), 2^(bits-1)).

    skellam: the difference of two Poisson numbers, of variance (sigma L)^2 / floor, where L is the bound in steps of
    the grid (Agarwal, Kairouz, Liu 2021). Sums of such shares are of the same kind, exactly.
    gaussian: discrete normal numbers of deviation sigma L / sqrt(floor) (Kairouz, Liu, Steinke 2021), 1.5 at least
    by the choice of hush.privacy.grids.

    The sum modulo 2^bits, around 0, is that of the noisy updates unless it wraps; hush.privacy.grids says how many bits
    make that rare. A wrap costs accuracy and never privacy: to reduce is to process what the noise has already hidden.

    The shares are sized for floor = (1 - tolerance) times the m clients that were drawn. The server draws those that
    are missing, or the noise of a whole cohort where nobody was drawn.

    Guarantee: the released noise has a deviation of sigma L / sqrt(1 - tolerance), whatever m and however many drop
    out. It hides what Gaussian noise of the deviation 1/r hides (hush.privacy.lattice has the proof), so that it
    counts as a multiplier of 1/(r L), a little less than that. Against the server, which knows the shares that it drew,
    those of the n clients that answered count: a deviation of sigma L sqrt(n / floor).
    """

    multiplier: float
    kind: NoiseKind = "skellam"
    shared: ClassVar[bool] = True
    floating: ClassVar[bool] = False
    keeps_integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < math.inf:
            raise Mistake(f"noise={self.multiplier} must be positive: a scheme without noise is one without -dp")
        if self.kind not in KINDS:
            raise Mistake(f"kind={self.kind} must be skellam or gaussian: which integer noise is added")

    @property
    def additive(self) -> bool:
        """Sums of Skellam numbers are Skellam; of discrete Gaussians they are no discrete Gaussian."""
        return self.kind == "skellam"

    @property
    def integer(self) -> NoiseKind:
        """Its kind."""
        return self.kind

    def spec(self, s: Spec) -> Spec:
        """Needs integers of bounded norm, and noise only once."""
        name = f"IntegerNoise({self.multiplier})"
        if s.noise is not None:
            raise Mistake(f"{name} after another noise: one is enough")
        if s.form.modulus is None or not s.l2 < math.inf:
            raise Mistake(f"{name} needs integers of bounded norm: put Clip(c) and Quantise before it")
        most = math.sqrt(SKELLAM[1]) if self.kind == "skellam" else NORMAL[1]
        if self.multiplier * s.l2 > most:
            raise Mistake(
                f"noise={self.multiplier} at a bound of {s.l2:g} steps has a deviation of more than {most:g} steps:"
                " take a coarser grid"
            )
        return replace(s, noise=self.multiplier)

    def share(self, s: Spec, plan: Plan) -> float:
        """The deviation of one client's noise, in steps of the grid, behind this Spec."""
        return self.multiplier * s.l2 / math.sqrt(plan.floor or 1.0)

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Each client's share, then the modulus, in place."""
        share, spare = self.share(ctx.spec, ctx.plan), 32 - _bits(ctx.spec)
        noisy = self._add(x.int(), share, ctx.draws, "noise", ctx.plan.round)
        return noisy.bitwise_left_shift_(spare).bitwise_right_shift_(spare)

    def together(self, x: Tensor, ctx: ClientContext, clients: int) -> Tensor:
        """One Skellam number of so many times the variance; the modulus is the sum's."""
        whole = self.share(ctx.spec, ctx.plan) ** 2 * clients
        if clients == ctx.plan.drawn:  # the same in every round, whatever the cohort: its table is made once
            whole = (self.multiplier * ctx.spec.l2) ** 2 / (1 - ctx.plan.spare)
        return self._add(x.int(), math.sqrt(whole), ctx.draws, "noise", ctx.plan.round, "together")

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """The shares that are missing, modulo 2^bits as any other."""
        missing, share = ctx.plan.drawn - total.count, self.share(ctx.spec, ctx.plan)
        if ctx.plan.drawn == 0:
            missing, share = 1, self.multiplier * ctx.spec.l2 / math.sqrt(1 - ctx.plan.spare)
        if missing == 0:
            return total
        noise = torch.zeros(1, total.body.numel(), dtype=torch.int32)
        for number in range(missing):  # one by one: a sum of as many discrete Gaussians as in any other round
            noise = self._add(noise, share, Draws(ctx.secret, (number,)), "noise", ctx.plan.round, "server", number)
        return replace(total, body=centred(total.body + noise[0], _bits(ctx.spec)))

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """What Gaussian noise would be worth the same: of the completed sum, of `present` shares, of one share."""
        floor, sigma = plan.floor or 1.0, self.multiplier
        whole = lattice.worth(self.kind, sigma / math.sqrt(1 - plan.spare), s.l2, plan.drawn or 1.0)
        seen = lattice.worth(self.kind, sigma * math.sqrt(present / floor), s.l2, present) if present > 0 else 0.0
        return Multipliers(whole, seen, lattice.worth(self.kind, sigma / math.sqrt(floor), s.l2, 1.0))

    def _add(self, x: Tensor, deviation: float, draws: Draws, *labels: str | int) -> Tensor:
        if self.kind == "skellam":
            return draws.add_skellam(x, deviation**2, *labels)
        return draws.add_discrete_normals(x, deviation, *labels)


def _bits(s: Spec) -> int:
    assert s.form.modulus is not None
    return s.form.modulus
