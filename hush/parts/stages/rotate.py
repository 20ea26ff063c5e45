"""A rotation that spreads every update evenly over its coordinates."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from scipy import fft
from torch import Tensor

from hush.core.packing import FLOATS
from hush.core.protocols import Stage
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

LENGTH = 2**13  # of one transform: short enough for the cache


@dataclass(frozen=True)
class Rotate(Stage):
    """Random signs, then orthonormal cosine transforms: no coordinate of a sum is much larger than the others.

    A few weights, such as those of a last layer, may have most of an update's norm, in the same direction at every
    client: their sum would wrap modulo 2^bits long before the others'. Rotated, each number of a sum is near a normal
    one of variance |sum|^2 / d, which is what hush.privacy.grids leaves room for (randomised Hadamard transforms do the
    same in Kairouz, Liu, Steinke 2021). Signs are from the public seed. There is a transform for each of
    ceil(d / LENGTH) chunks; chunk p holds every so-many-th number from p on. Zeros fill the chunks to one fast length.

    Guarantee: none by itself. It is linear and keeps the norm, up to rounding, which Quantise behind it makes good.
    """

    seed: int = 0

    def spec(self, s: Spec) -> Spec:
        """A few numbers more, of the same norm."""
        if s.noise is not None or s.form != FLOATS:
            raise Mistake("Rotate after noise, codes or integers would undo them: put it behind Clip")
        return replace(s, size=math.prod(_shape(s.size)))

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """Each row, turned."""
        size = ctx.spec.size
        shape, signs = _shape(size), _signs(self.seed, size)
        padded = np.zeros(math.prod(shape), np.float32)
        turned = np.empty((len(x), padded.size), np.float32)
        for row, out in zip(x.numpy(), turned, strict=True):  # one by one, so that the bits are those of any block
            np.multiply(row, signs, out=padded[:size])
            out.reshape(shape)[:] = fft.dct(padded.reshape(shape), axis=0, norm="ortho")
        return torch.from_numpy(turned)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """The sum, turned back."""
        size = ctx.spec.size
        found = fft.idct(total.body.double().numpy().reshape(_shape(size)), axis=0, norm="ortho").ravel()[:size]
        return replace(total, body=torch.from_numpy(found * _signs(self.seed, size)))


def _shape(size: int) -> tuple[int, int]:
    """The length of a transform, and how many there are."""
    chunks = -(-size // LENGTH)
    return int(fft.next_fast_len(-(-size // chunks))), chunks


@lru_cache(maxsize=4)
def _signs(seed: int, size: int) -> npt.NDArray[np.float32]:
    bits = PublicSeed(seed).generator("rotate", size).integers(0, 2, size, np.int8)
    return (2 * bits - 1).astype(np.float32)
