"""Weights by the number of records."""

from dataclasses import dataclass, replace

from torch import Tensor

from hush.errors import Mistake
from hush.packing import FLOATS
from hush.spec import Context, Spec, Total


@dataclass(frozen=True)
class Weigh:
    """The mean weighted by |D_k|: sum of |D_k| x_k / sum of |D_k| (FL-STD, Alg. 4).

    The server knows every |D_k|, as in the paper. No guarantee can stand on it: the weights and their
    sum are private facts.
    """

    def spec(self, s: Spec) -> Spec:
        """Refused behind a bound, which it would break."""
        if s.noise is not None or s.l2 < float("inf"):
            raise Mistake("Weigh() after Clip or Noise breaks their bound: leave it out, weights are uniform under DP")
        if s.form != FLOATS:
            raise Mistake("Weigh() after a stage that rounds or picks has numbers that it cannot pack: leave it out")
        return replace(s, weighted=True)

    def encode(self, x: Tensor, ctx: Context) -> Tensor:
        """|D_k| x_k."""
        return x * ctx.sizes.to(x.dtype).unsqueeze(1)

    def decode(self, total: Total, ctx: Context) -> Total:
        """So that body / count is the weighted mean; nobody's is nothing."""
        if total.count == 0:
            return total
        return replace(total, body=total.body * (total.count / total.weight))
