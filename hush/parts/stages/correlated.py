"""Gaussian noise by a trusted server, of which each round takes back a part of the rounds before."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch

from hush.core.packing import Floats
from hush.core.protocols import Parts, Room, Source, Stage
from hush.core.spec import ClientContext, Multipliers, Plan, ServerContext, Spec, Total
from hush.core.task import Registered
from hush.errors import Mistake
from hush.parts.stages.quantise import on_grid
from hush.privacy.correlated import Correlation


@dataclass(frozen=True)
class CorrelatedNoise(Source):
    """A trusted server adds sigma |c| S (C^-1 z)_t to the sum of round t, most of which cancels in the model.

    C is the square root of the prefix sums, c its first column; hush.privacy.correlated has both, and the proof. It is
    for clients that take part once in each of `passes` passes, always at the same one of the rounds / passes turns.
    The z of earlier rounds are drawn again by their names: round t costs t draws, and nothing is kept. A round that is
    aborted releases nothing, and later ones are as they would have been.

    Guarantee: what the server releases in all rounds is, for one client, one Gaussian release of multiplier sigma for
    each round that it is in. None against the server itself, or whoever reads what it gets or draws.
    """

    multiplier: float
    rounds: int
    passes: int = 1
    shared: ClassVar[bool] = False
    correlated: ClassVar[bool] = True
    keeps_integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < math.inf:
            raise Mistake(f"noise={self.multiplier} must be positive: a scheme without noise is one without -dp")
        _ = self.correlation  # which refuses what does not fit

    @cached_property
    def correlation(self) -> Correlation:
        """How the noise of a round hangs on that of the others."""
        return Correlation(self.rounds, self.passes)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Of the server and the clients' turns."""
        return (
            "model: the noise of a round takes back a part of that of earlier ones. The server keeps what it drew"
            " secret, releases no round twice, and every client keeps to its turn",
        )

    def spec(self, s: Spec) -> Spec:
        """Needs an input whose bound is known and stays, and noise only once."""
        name = f"CorrelatedNoise({self.multiplier})"
        if not s.l2 < math.inf:
            raise Mistake(f"{name} needs a bounded input: put Clip(c) before it")
        if s.noise is not None:
            raise Mistake(f"{name} after another noise: one is enough")
        if s.clip is not None:
            raise Mistake(f"{name} takes back noise of earlier rounds, and this bound moves: take Clip(c)")
        return replace(s, noise=self.multiplier, form=s.form if s.form.modulus is not None else Floats())

    def check(self, scheme: Parts, task: Registered, before: Spec) -> None:
        """Needs clients that take part once a pass, and the same numbers each time."""
        if scheme.sampling.turns != (self.rounds, self.passes):
            raise Mistake(
                f"CorrelatedNoise(rounds={self.rounds}, passes={self.passes}) needs clients that keep to their turns:"
                f" give sampling=Once(cohorts={self.rounds // self.passes}, passes={self.passes})"
            )
        if not scheme.fixed:
            raise Mistake(
                "CorrelatedNoise takes back noise of earlier rounds, which must be of the same coordinates: fix them,"
                " and leave blocks out"
            )

    def encode(self, x: torch.Tensor, ctx: ClientContext) -> torch.Tensor:
        """Nothing is hidden from the server."""
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """The noise of this round. A sum that is known modulo 2^bits is reduced once more, as in ServerNoise."""
        self._check(ctx.plan)
        if not ctx.secret.repeatable:
            raise Mistake("CorrelatedNoise draws the noise of earlier rounds again: give a secret seed that repeats")
        noise = torch.zeros(total.body.numel(), dtype=torch.float64)
        for past in range(1, ctx.plan.round + 1):
            z = ctx.secret.normal(total.body.numel(), "correlated noise", past)
            noise.add_(z, alpha=float(self.correlation.weights[ctx.plan.round - past]))
        body = total.body + self.multiplier * self.correlation.length * ctx.spec.l2 * noise
        modulus = ctx.spec.form.modulus
        if modulus is not None:
            half = 2.0 ** (modulus - 1)
            body = (body + half).remainder(2 * half) - half
        return replace(total, body=body)

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """The models' readers alone face noise; it is worth as much in each round, to the clients of that round."""
        self._check(plan)
        return Multipliers(self.multiplier, 0.0, 0.0)

    def in_integers(self, before: Spec, room: Room) -> tuple[Stage, ...]:
        """The same noise on the sum of integers, which has room for that of a round."""
        noise = self.multiplier * self.correlation.spread
        return *on_grid(before, room, noise, float(room.clients)), self

    def _check(self, plan: Plan) -> None:
        if not 1 <= plan.round <= self.rounds:
            raise Mistake(f"round {plan.round} is not one of the {self.rounds} of CorrelatedNoise: raise its rounds")
