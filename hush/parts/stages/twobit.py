"""Two bits per weight: the sign, and one bit of the magnitude."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core.packing import Codes, Floats
from hush.core.protocols import Claim, Stage
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.errors import Mistake

Floats64 = npt.NDArray[np.float64]

# Where a bound times a power of two up to 2^63 stays far inside float64, and float32 still carries the numbers.
LEAST, MOST = 2.0**-100, 2.0**100
PIECE = 2**15  # numbers that are coded at a time, while they are in the cache


@dataclass(frozen=True)
class TwoBit(Stage):
    """The sign of g and one bit of its magnitude in p-1 bits (paper A, Algorithm 1; p = `precision`).

    q = min(floor(|g| 2^(p-1) / m), 2^(p-1) - 1), with the public bound m. The client in seat s sends bit number
    (s + j) mod (p-1) of the q of parameter j, so that p-1 clients send each bit of each number once. BitVote puts
    them together. With `follow` the next m is the largest number of this round's mean, which is never more than m:
    a bound that was too small stays so.
    Guarantee: none. Whoever knows the seat, and the server gave it, reads the bit as it is: see `paper_epsilon`.
    """

    settings: ClassVar[tuple[str, ...]] = ("precision", "bound", "follow")

    precision: int = 32
    bound: float = field(kw_only=True)
    follow: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if not LEAST <= self.bound <= MOST:
            raise Mistake(
                f"bound={self.bound} must be positive and finite, from {LEAST:g} to {MOST:g}: the largest number of"
                " an update that is not cut"
            )

    @property
    def claim(self) -> Claim:
        """The paper's epsilon, and why it is none."""
        return Claim(
            "two bits of each weight travel as they are; given the client's seat, which the server draws, an upload is"
            " a function of the update, and updates that differ in one bit are distinguished with certainty",
            paper_epsilon(self.precision),
            f"ln(p/(p-2)) at p={self.precision}, for two numbers that differ in one bit, if nobody knew which bit was"
            " sent; this is not differential privacy",
        )

    def spec(self, s: Spec) -> Spec:
        """Refused behind what the votes would not keep."""
        name = f"TwoBit({self.precision})"
        if s.noise is not None:
            raise Mistake(f"{name} after Noise sends bits of the noise, which a vote does not sum: leave Noise out")
        if s.form != Floats():
            raise Mistake(f"{name} after Sign or another code has no magnitudes to send: leave the other out")
        if s.l2 < math.inf:
            raise Mistake(f"{name} after Clip: a vote keeps no norm and no guarantee; leave Clip out, bound=m cuts")
        if s.weighted:
            raise Mistake(f"{name} after Weigh() would vote on weighted numbers: leave Weigh out, each client counts 1")
        return replace(
            s, form=Codes(2), clip=self._bound(s), least=max(s.least, self.precision - 1), precision=self.precision
        )

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """In place: -3, -1 for minus with bit 0 and 1, and 1, 3 for plus. Zero and NaN count as plus zero.

        Bit l of q is set just where half of floor(q / 2^l) has a fraction. Scaling by 2^-(l+1) is exact, so the
        arithmetic stays in float64 for 63 bits as well.
        """
        seats, period, size = ctx.plan.seats, self.precision - 1, x.shape[1]
        if seats is None:
            raise Mistake(
                f"TwoBit({self.precision}) needs the clients' seats: put BitVote({self.precision}) as aggregator"
            )
        length = min(size, -(-PIECE // period) * period)  # in whole periods: the same powers for every piece
        scale = 2.0**period / self._bound(ctx.spec)
        bits = np.arange(length + period) % period
        scales, tops = np.ldexp(scale, -bits - 1), np.ldexp(1.0, period - 1 - bits)
        scratch = np.empty((2, length))
        for row, seat in zip(x.numpy(), seats.tolist(), strict=True):
            for start in range(0, size, length):
                part = row[start : start + length]
                own = slice(seat % period, seat % period + len(part))
                _code(part, scales[own], tops[own], scratch[:, : len(part)])
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Times m, and the bound of the next round."""
        bound = moved = self._bound(ctx.spec)
        body = total.body * bound
        if self.follow:
            moved = float(torch.linalg.vector_norm(body, math.inf)) / max(1, total.count)
        return replace(total, body=body, clip=max(moved, LEAST) if moved > 0 else bound)

    def _bound(self, s: Spec) -> float:
        return self.bound if s.clip is None else s.clip


def paper_epsilon(precision: int) -> float:
    """ln(p / (p-2)), the figure of the paper's Theorem 1, which is not differential privacy.

    Its neighbours differ in one bit of one number, and its randomness is which bit is sent. The server itself draws
    that. Given the seat an upload is a function of the update: epsilon is infinite.
    """
    check_precision(precision)
    return math.log(precision / (precision - 2))


def check_precision(precision: int) -> None:
    """The paper's p: a sign and p-1 bits."""
    if precision == 2:
        raise Mistake("p=2 has one place and ln(p/(p-2)) is infinite: take p from 3 to 64")
    if not 3 <= precision <= 64:
        raise Mistake(f"p={precision} must be from 3 to 64: a sign and p-1 bits of the magnitude")


def _code(part: npt.NDArray[np.float32], scales: Floats64, tops: Floats64, scratch: Floats64) -> None:
    negative, (half, below) = np.less(part, 0).view(np.int8), scratch
    with np.errstate(invalid="ignore"):  # infinity has no fraction, and is cut
        np.multiply(np.abs(part, out=part), scales, out=half)
        cut = half >= tops  # all bits of 2^(p-1) - 1 are set
        half -= np.floor(half, out=below)
        bit = (half >= 0.5) | cut
    np.copyto(part, 2 * bit.view(np.int8) - 4 * negative + np.int8(1))
