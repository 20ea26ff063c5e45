"""Weights by the number of records."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from hush.core.packing import FLOATS
from hush.core.protocols import Parts, Stage, named
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.core.task import Registered
from hush.errors import Mistake


@dataclass(frozen=True)
class Weigh(Stage):
    """The mean weighted by |D_k|: sum of |D_k| x_k / sum of |D_k| (FL-STD, Alg. 4).

    The server knows every |D_k|, as in the paper. No guarantee can stand on it: the weights and their
    sum are private facts.
    """

    scales: ClassVar[bool] = True

    def spec(self, s: Spec) -> Spec:
        """Refused behind a bound, which it would break."""
        if s.noise is not None or s.l2 < float("inf"):
            raise Mistake("Weigh() after Clip or Noise breaks their bound: leave it out, weights are uniform under DP")
        if s.form != FLOATS:
            raise Mistake("Weigh() after a stage that rounds or picks has numbers that it cannot pack: leave it out")
        return replace(s, weighted=True)

    def check(self, scheme: Parts, task: Registered, before: Spec) -> None:
        """Refuse trainers that protect records, whose number it reveals."""
        if scheme.level == "record":
            raise Mistake(
                f"Weigh() under {named(scheme.trainer)} reveals each client's number of records: leave it out"
            )

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """|D_k| x_k."""
        return x * ctx.sizes.to(x.dtype).unsqueeze(1)

    def factors(self, norms: Tensor, ctx: ClientContext) -> Tensor:
        """|D_k|."""
        return ctx.sizes.double()

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """So that body / count is the weighted mean; nobody's is nothing."""
        if total.count == 0:
            return total
        return replace(total, body=total.body * (total.count / total.weight))
