"""Gaussian noise, in shares or by a trusted server."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from hush.core.packing import Floats
from hush.core.protocols import Room, Source, Stage
from hush.core.spec import ClientContext, Multipliers, Plan, ServerContext, Spec, Total
from hush.errors import Mistake
from hush.parts.stages.integer import IntegerNoise
from hush.parts.stages.quantise import on_grid
from hush.privacy import lattice

MARGIN = 1.001  # of discrete Gaussian noise, whose worth depends, if only just, on the number of shares


@dataclass(frozen=True)
class Noise(Source):
    """Each client adds N(0, (S sigma)^2 / floor), floor = (1 - tolerance) times the m clients that were drawn.

    Of the m shares l may be missing. The server knows m and l and adds N(0, (S sigma)^2 l / floor), and all of it where
    nobody was drawn.

    Guarantee: what is released is a Gaussian mechanism of multiplier sigma / sqrt(1 - tolerance) for one client,
    whatever m and l: its deviation does not depend on them, and a client that drops out is as one that was never drawn.
    Against the server, which knows its own part, n clients that answered have the multiplier sigma sqrt(n / floor).
    """

    multiplier: float
    shared: ClassVar[bool] = True
    additive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.multiplier)

    def spec(self, s: Spec) -> Spec:
        """Needs a bounded, unweighted input, and noise only once."""
        if s.form.modulus is not None:
            raise Mistake(f"Noise({self.multiplier}) on integers cannot be packed: take IntegerNoise")
        return replace(_noisy(s, f"Noise({self.multiplier})", self.multiplier), form=Floats())

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Add each client's share."""
        return ctx.draws.add_normals(x, self._share(ctx), "noise", ctx.plan.round)

    def together(self, x: Tensor, ctx: ClientContext, clients: int) -> Tensor:
        """The sum of so many normal numbers is one, of so many times the variance."""
        return ctx.draws.add_normals(x, self._share(ctx) * math.sqrt(clients), "noise", ctx.plan.round, "together")

    def _share(self, ctx: ClientContext) -> float:
        share = ctx.spec.l2 * self.multiplier / math.sqrt(ctx.plan.floor)
        if not 2.0**-120 < share < 2.0**120:  # float32 would turn such noise to nothing, or to infinity
            raise Mistake(
                f"noise={self.multiplier} at bound {ctx.spec.l2:g} has shares of {share:g}: scale the updates"
            )
        return share

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """The shares that are missing, so that the sum has one variance."""
        drawn = ctx.plan.drawn
        missing = (drawn - total.count) / drawn if drawn else 1.0
        if missing == 0:
            return total
        return _noised(total, ctx, self.multiplier * math.sqrt(missing / (1 - ctx.plan.spare)))

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """Of the completed sum for readers of the models, of `present` shares for the server, of one for an upload."""
        whole, share = self.multiplier / math.sqrt(1 - plan.spare), self.multiplier / math.sqrt(plan.floor or 1.0)
        return Multipliers(whole, share * math.sqrt(present) if present != plan.floor else self.multiplier, share)

    def in_integers(self, before: Spec, room: Room) -> tuple[Stage, ...]:
        """Integer noise on a grid, worth as much."""
        turn, whole = on_grid(before, room, self.multiplier, room.floor)
        length = whole.spec(turn.spec(before)).l2
        margin = 1.0 if room.kind == "skellam" else MARGIN
        found = margin * lattice.matching(room.kind, self.multiplier, length, room.floor)
        return turn, whole, IntegerNoise(found, room.kind)


@dataclass(frozen=True)
class ServerNoise(Source):
    """A trusted server adds N(0, (S sigma)^2) to the sum of the clipped updates (DP-FedAvg, McMahan et al. 2018).

    A sum of integers is known modulo 2^bits, and one client may make it wrap. So the noisy sum is reduced once
    more: it is then what the noisy sum of the true numbers would be, reduced, and hides as much.

    Guarantee: what the server releases is a Gaussian mechanism of multiplier sigma for one client. None against
    the server itself, or whoever reads what it gets.
    """

    multiplier: float
    shared: ClassVar[bool] = False
    keeps_integers: ClassVar[bool] = True
    additive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.multiplier)

    def spec(self, s: Spec) -> Spec:
        """Needs a bounded, unweighted input, and noise only once."""
        found = _noisy(s, f"ServerNoise({self.multiplier})", self.multiplier)
        return found if s.form.modulus is not None else replace(found, form=Floats())

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Nothing is hidden from the server."""
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """The integer noise."""
        total = _noised(total, ctx, self.multiplier)
        modulus = ctx.spec.form.modulus
        if modulus is None:
            return total
        half = 2.0 ** (modulus - 1)
        return replace(total, body=(total.body + half).remainder(2 * half) - half)

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """The models' readers alone face noise."""
        return Multipliers(self.multiplier, 0.0, 0.0)

    def in_integers(self, before: Spec, room: Room) -> tuple[Stage, ...]:
        """The same noise on the sum of integers."""
        return *on_grid(before, room, self.multiplier, float(room.clients)), self


def _check(multiplier: float) -> None:
    if not 0 < multiplier < math.inf:
        raise Mistake(f"noise={multiplier} must be positive: a scheme without noise is one without -dp")


def _noisy(s: Spec, name: str, multiplier: float) -> Spec:
    if not s.l2 < math.inf:
        raise Mistake(f"{name} needs a bounded input: put Clip(c) before it")
    if s.noise is not None:
        raise Mistake(f"{name} after another Noise: one is enough")
    return replace(s, noise=multiplier)


def _noised(total: Total, ctx: ServerContext, multiplier: float) -> Total:
    whole = ctx.secret.normal(total.body.numel(), "noise", ctx.plan.round, "server")
    return replace(total, body=total.body + ctx.spec.l2 * multiplier * whole.double())
