"""Compressive sensing: a few numbers of a transform, from which the server rebuilds a sparse update."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from scipy import fft
from torch import Tensor

from hush.core.packing import FLOATS
from hush.core.protocols import Recovery, Stage
from hush.core.spec import ClientContext, ServerContext, Spec, Total
from hush.errors import Mistake
from hush.models import workers
from hush.parts import recovery
from hush.parts.recovery import Array, Chunks, Places
from hush.random.seeds import PublicSeed

PIECE = 2**16  # numbers that are recovered at a time, so that they stay in the cache


@dataclass(frozen=True)
class Sense(Stage, Recovery):
    """y = A x: floor(ratio * n) rows of orthonormal cosine transforms of the update's chunks (FL-CS, U 5).

    Chunk p holds every chunks-th number of the update from p on, so that each has its part of every layer: a chunk
    of one dense layer could not be recovered. The rows are drawn once from the public seed, evenly over the chunks.
    A is linear and |A x| <= |x|: sums and momentum can be taken of y, and `recover` runs once a round, at the server.
    Guarantee: none by itself; put Clip and Noise behind it.
    """

    settings: ClassVar[tuple[str, ...]] = ("ratio", "chunks")

    ratio: float
    chunks: int = 200
    seed: int = 0
    iterations: int = 30

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise Mistake(f"ratio={self.ratio} must be in (0, 1]: the numbers that travel for each weight")
        if self.chunks < 1:
            raise Mistake(f"chunks={self.chunks} must be at least 1: in how many parts the update is transformed")
        if self.iterations < 1:
            raise Mistake(f"iterations={self.iterations} of the recovery must be at least 1")

    @property
    def recovery(self) -> "Sense":
        """The step recovers the update."""
        return self

    def spec(self, s: Spec) -> Spec:
        """Fewer numbers, of any length."""
        if s.noise is not None:
            raise Mistake("Sense after Noise would drop most of the noise: put Sense before Clip and Noise")
        if s.l2 < math.inf or s.form != FLOATS:
            raise Mistake("Sense after a bound or a code would undo it: put Sense before Clip, Sign and the like")
        return replace(s, size=self.count(s.size))

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """A x of each row."""
        size = x.shape[1]
        cut = _map(self, size)
        padded = np.zeros((cut.width, self.chunks), np.float32)
        y = np.empty((len(x), len(cut.places)), np.float32)
        for row, sent in zip(x.numpy(), y, strict=True):  # one by one, so that the bits are those of any block
            padded.ravel()[:size] = row
            fft.dct(padded, axis=0, norm="ortho").ravel().take(cut.places, out=sent)
        return torch.from_numpy(y)

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """Nothing: the step that moves the weights recovers the update, of the mean or of its momentum."""
        return total

    def count(self, size: int) -> int:
        """floor(ratio * size), with room for the rounding of the product."""
        count = math.floor(self.ratio * size + 1e-9)
        if self.chunks > size:
            raise Mistake(f"chunks={self.chunks} is more than the {size} numbers of an update: lower it")
        if count < self.chunks:
            raise Mistake(
                f"ratio={self.ratio} of {size} weights is {count} numbers for {self.chunks} chunks, and each needs one:"
                " raise ratio or lower chunks"
            )
        return count

    def recover(self, y: Tensor, size: int) -> Tensor:
        """The update of `size` numbers that y, of one update or of a sum, stands for; see hush.parts.recovery."""
        cut = _map(self, size)
        if y.numel() != len(cut.places):
            raise Mistake(f"{y.numel()} numbers cannot be recovered: {self} sends {len(cut.places)} for {size} weights")
        scale = float(y.abs().max())
        if scale == 0 or not math.isfinite(scale):
            return torch.full((size,), scale if scale == 0 else math.nan)
        known = (y.double() / scale).float().numpy()  # so that no square is lost to the range of float32
        found = np.zeros((cut.length, self.chunks), np.float32)

        def work(first: int) -> Array:
            return recovery.recover(known[cut.part(first)], cut.block(first), self.iterations)

        firsts = range(0, self.chunks, cut.step)
        for first, part in zip(firsts, workers.spread(work, firsts), strict=True):
            found[:, first : first + cut.step] = part.T
        return torch.from_numpy(found.ravel()[:size]) * scale


@dataclass(frozen=True, eq=False)
class _Map:
    """The rows of the chunks, as places in the (width, chunks) array of the transforms, chunk by chunk."""

    places: Places
    counts: Places
    width: int
    length: int

    @property
    def step(self) -> int:
        """How many chunks are recovered together: a multiple of what one instruction transforms."""
        return 16 * max(1, PIECE // self.width // 16)

    def part(self, first: int) -> slice:
        """Where the numbers of the chunks from `first` on stand in y."""
        return slice(int(self.counts[:first].sum()), int(self.counts[: first + self.step].sum()))

    def block(self, first: int) -> Chunks:
        """The chunks from `first` on, with their rows as places in a (step, width) array."""
        row, chunk = np.divmod(self.places[self.part(first)], len(self.counts))
        counts = self.counts[first : first + self.step]
        return Chunks((chunk - first) * self.width + row, counts, self.width, self.length)


@lru_cache(maxsize=8)
def _map(sense: Sense, size: int) -> _Map:
    count, chunks = sense.count(size), sense.chunks
    length = math.ceil(size / chunks)
    # Zeros up to a length whose transform is fast; where all rows are sent there is no room for them.
    width = length if count == size else int(fft.next_fast_len(length))
    counts = np.full(chunks, count // chunks)
    counts[: count % chunks] += 1
    rng = PublicSeed(sense.seed).generator("sense", size, chunks)
    rows = [np.sort(rng.choice(width, int(number), replace=False)) * chunks for number in counts]
    return _Map(np.concatenate([row + chunk for chunk, row in enumerate(rows)]), counts, width, length)
