"""One bit per weight."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hush.core.packing import Codes
from hush.core.protocols import Stage
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.errors import Mistake


@dataclass(frozen=True)
class Sign(Stage):
    """The sign of every coordinate of the update, +1 or -1; a zero gets a random one (FL-SIGN, C Alg. 3 and 4).

    The server keeps the sign of the sum, and draws one where the clients are even. One bit each on the wire.
    Without noise this hides the size of an update and nothing more.
    Guarantee: none by itself; what is sent has the norm sqrt(size), which a Noise behind it can stand on.
    """

    def spec(self, s: Spec) -> Spec:
        """Refused where it would undo what was done before."""
        if s.noise is not None:
            raise Mistake("Sign() after Noise leaves shares that no longer add up: put it before Clip and Noise")
        if s.l2 < math.inf:
            raise Mistake("Sign() after Clip sends the same signs: leave Clip out, or put it behind")
        if s.weighted:
            raise Mistake("Sign() after Weigh() drops the weights: leave Weigh out")
        return replace(s, l2=math.sqrt(s.size), form=Codes(1))

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """+1 or -1."""
        x = _signs(x)
        for place, row in enumerate(x):
            _settle(row, ctx.draws.generator(place, "zero", ctx.plan.round))
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """The majority."""
        body = _signs(total.body.to(torch.float32, copy=True))  # sums of signs and noise: none is too small for it
        _settle(body, ctx.secret.generator("tie", ctx.plan.round))
        return replace(total, body=body)


def _signs(x: Tensor) -> Tensor:
    """In place: +1, -1, or 0 for zero and for what is not a number."""
    return x.sign_().nan_to_num_(nan=0.0)


def _settle(row: Tensor, rng: np.random.Generator) -> None:
    """Random signs in place of zeros."""
    count = row.numel() - int(np.count_nonzero(row.numpy()))
    if count:
        bits = np.unpackbits(np.frombuffer(rng.bytes((count + 7) // 8), np.uint8), count=count)
        row[row == 0] = torch.from_numpy(bits).to(row.dtype).mul_(2).sub_(1)
