"""One to eight bits per weight that are noise and rounding at once."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hush.core.packing import Codes
from hush.core.protocols import Parts, Sampling, Source
from hush.core.spec import ClientContext, Multipliers, Plan, ServerContext, Spec, Total
from hush.core.task import Registered
from hush.errors import Aborted, Mistake
from hush.privacy.poisson_binomial import spread

COUNT = 1024  # coins of an adaptive clip's count, which is too large a number for a few


@dataclass(frozen=True)
class PoissonBinomial(Source):
    """Each number x becomes m = 2^bits - 1 coins of probability 1/2 + k x; the count of heads is sent (two-bit-dp).

    k = 1 / (sigma S sqrt(m) r), r = spread(places, edge); k x is cut at +-edge. For everybody missing at one of the
    `places` the server tosses fair coins, so that there are always as many. Heads minus tails over 2 k m estimates the
    sum of the x without bias, but for the cut, with a deviation of r sqrt(places) / 2 times sigma S: 6 to 10 percent
    above sigma S from 10 to 2,000 places. Gaussian shares that are rounded at each client would not do: a sum of
    rounded numbers is no rounding of the noisy sum, and may reveal what the noise hides.

    There are `spare` deviations more places than a Poisson cohort needs on average, and spare^2 / 6: a larger cohort
    aborts the round, with a probability below exp(-spare^2 / 2) (Bernstein). A cohort of fixed size needs none: spare =
    0.

    The count of an AdaptiveClip is one large number, which the edge would cut. It is sent as n equal ones, 1 / sqrt(n)
    of it each, so that the norm stays what it is, with COUNT coins in all.

    Guarantee: the sum of the uploads and the server's coins hides one client as a Gaussian mechanism of multiplier
    sigma does (hush.privacy.poisson_binomial has the proof), the uploads alone as one of the lower multipliers below.
    """

    settings: ClassVar[tuple[str, ...]] = ("bits",)

    multiplier: float
    bits: int = 2
    edge: float = 1 / 16
    spare: float = 6.0
    shared: ClassVar[bool] = True
    floating: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < math.inf:
            raise Mistake(f"noise={self.multiplier} must be positive: coins without noise reveal everything")
        if not 0 <= self.spare <= 100:
            raise Mistake(f"spare={self.spare} must be from 0 to 100: deviations of the cohort's size, 6 are plenty")
        Codes(self.bits)
        spread(1, self.edge)

    @property
    def coins(self) -> int:
        """m: of each number."""
        return Codes(self.bits).top

    def places(self, cohort: float) -> int:
        """How many clients a sum has room for, where `cohort` are expected."""
        room = cohort + self.spare * math.sqrt(cohort) + self.spare**2 / 6
        return max(1, math.ceil(round(room, 9)))  # an integer stays what it is, whatever its last bits

    def spec(self, s: Spec) -> Spec:
        """Needs a bounded input, and noise only once."""
        if not s.l2 < math.inf:
            raise Mistake(f"PoissonBinomial({self.multiplier}) needs a bounded input: put Clip(c) before it")
        if s.noise is not None:
            raise Mistake(f"PoissonBinomial({self.multiplier}) after another noise: one is enough")
        return replace(s, size=s.size + self._copies(s) - 1, noise=self.multiplier, form=Codes(self.bits))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Of the server, which fills the places."""
        return (
            "model: the server tosses a fair coin for each place of a round that no client took, and keeps it secret;"
            " against the server itself only the clients' coins count",
        )

    def check(self, scheme: Parts, task: Registered, before: Spec) -> None:
        """Refuse, before any round, noise that the count of an adaptive clip does not fit in."""
        cohort = scheme.sampling.cohort(task.clients)
        self._scale(before, Plan(0, torch.empty(0), None, cohort, cohort))

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Heads minus tails of each number's coins."""
        copies = self._copies(ctx.spec)
        if copies > 1:
            x = torch.cat([x[:, :-1], (x[:, -1:] / math.sqrt(copies)).expand(-1, copies)], dim=1)
        scale = self._scale(ctx.spec, ctx.plan)
        return ctx.draws.heads(x, scale, self.edge, self.coins, "coins", ctx.plan.round)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Fair coins for the missing, then back to the scale of the updates."""
        places = self.places(ctx.plan.cohort)
        if total.count > places:
            raise Aborted(f"round {ctx.plan.round}: a cohort of {total.count} is larger than its {places} places")
        missing = (places - total.count) * self.coins
        body = total.body + ctx.secret.fair(total.body.numel(), missing, "coins", ctx.plan.round, "server")
        body /= 2 * self.coins * self._scale(ctx.spec, ctx.plan)
        copies = self._copies(ctx.spec)
        if copies > 1:
            body = torch.cat([body[:-copies], body[-copies:].sum(0, keepdim=True) / math.sqrt(copies)])
        return replace(total, body=body)

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """The server knows its own coins, so only those of `present` clients count against it; of an upload its own."""
        whole = self.multiplier * spread(self.places(plan.cohort), self.edge)
        seen = whole / spread(math.floor(present), self.edge) if present >= 1 else 0.0
        return Multipliers(self.multiplier, seen, whole / spread(1, self.edge))

    def slack(self, sampling: Sampling, population: int) -> float:
        """The probability that a client's presence decides whether a Poisson cohort exceeds its places.

        The client must be drawn, and as many others as there are places; more of them may be drawn and drop out.
        """
        if sampling.kind != "poisson":
            return 0.0
        from scipy.stats import binom  # slow to import

        rate, cohort = sampling.rate(population), sampling.cohort(population)
        return rate * float(binom.sf(self.places(cohort) - 1, population, rate))

    def _copies(self, s: Spec) -> int:
        """Of the last number; 1 where it is not a count."""
        return 1 if s.clip is None else math.ceil(COUNT / self.coins)

    def _scale(self, s: Spec, plan: Plan) -> float:
        """k."""
        scale = 1 / (self.multiplier * s.l2 * math.sqrt(self.coins) * spread(self.places(plan.cohort), self.edge))
        if s.clip is not None:
            count = math.sqrt(max(0.0, s.l2**2 - s.clip**2) / self._copies(s))  # as the norms imply
            if scale * count > self.edge:
                raise Mistake(
                    f"noise={self.multiplier} is so little that it would cut the count of AdaptiveClip: take more"
                    " noise, smaller cohorts, or Clip(c)"
                )
        return scale
