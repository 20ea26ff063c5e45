"""Public and secret randomness, as two types that cannot be confused.

Every draw is named by labels (what for, which round, which client), so that no stream is ever used
twice and a resumed run needs no generator state. A stream is keyed by SHA-256(domain, seed, labels):
128 bits of it for numpy's Philox generator, which makes choices; all 256 bits for the cipher that makes noise.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hush.random.bernoulli import fair, toss
from hush.random.discrete import add_noise, round_within
from hush.random.normal import add_normals
from hush.random.tables import discrete_normal, skellam

Label = str | int


def _key(domain: str, seed: int, labels: tuple[Label, ...]) -> bytes:
    text = json.dumps(["hush-1", domain, seed, *labels])
    return hashlib.sha256(text.encode()).digest()


def _generator(key: bytes) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key[:16], "<u8")))


@dataclass(frozen=True)
class PublicSeed:
    """A seed that everybody knows: initial weights, coordinate sets, public batches."""

    value: int

    def generator(self, *labels: Label) -> np.random.Generator:
        """The stream of these labels, the same for everybody who knows the seed."""
        return _generator(_key("public", self.value, labels))


@dataclass(frozen=True)
class SecretSeed:
    """Randomness that an adversary must not know: noise, cohorts, local batches.

    `SecretSeed.system()` draws from the operating system's generator and cannot be repeated: the one
    for deployments. `SecretSeed.simulated(seed)` repeats: for simulations only, and the run's card
    says so.
    """

    value: int | None

    @classmethod
    def simulated(cls, seed: int) -> "SecretSeed":
        """A repeatable source for a simulation, independent of every PublicSeed."""
        return cls(seed)

    @classmethod
    def system(cls) -> "SecretSeed":
        """The operating system's generator."""
        return cls(None)

    @property
    def repeatable(self) -> bool:
        """Whether the same labels give the same draw again."""
        return self.value is not None

    def generator(self, *labels: Label) -> np.random.Generator:
        """A stream for choices (cohorts, local batches); never for noise."""
        return _generator(self._draw("secret", labels))

    def key(self, *labels: Label) -> bytes:
        """32 bytes, as a key of its own."""
        return self._draw("key", labels)

    def add_normals(self, x: Tensor, scale: float, rows: Sequence[int], *labels: Label) -> Tensor:
        """Add scale * N to x, in place, with independent standard normal numbers.

        A row's numbers are named by the labels and its number in `rows` (a client's, say): they are the same
        in whatever block the row stands. See hush.random.normal for what they are made of.
        """
        key = self._draw("normal", labels)
        if self.repeatable:
            return add_normals(x, scale, key, rows, torch.float32)
        # The key is new for each call, and rows are distinguished by their place, whatever their numbers.
        return add_normals(x, scale, key, range(len(rows)), torch.float64)

    def normal(self, size: int, *labels: Label) -> Tensor:
        """`size` standard normal numbers in float32."""
        return self.add_normals(torch.zeros(1, size, dtype=torch.float32), 1.0, [0], *labels)[0]

    def heads(self, x: Tensor, scale: float, edge: float, coins: int, rows: Sequence[int], *labels: Label) -> Tensor:
        """Replace each number of x, in place, by heads minus tails of `coins` coins of probability 1/2 + scale *
        number.

        The product is cut at +-edge. A row's coins are named as its noise is. See hush.random.bernoulli.
        """
        key = self._draw("coins", labels)
        return toss(x, scale, edge, coins, key, rows if self.repeatable else range(len(rows)))

    def fair(self, size: int, coins: int, *labels: Label) -> Tensor:
        """Heads minus tails of `coins` fair coins, `size` times, in float64."""
        return fair(size, coins, self._draw("fair", labels))

    def add_skellam(self, x: Tensor, variance: float, rows: Sequence[int], *labels: Label) -> Tensor:
        """Add differences of two Poisson numbers of this variance to int32 rows, in place, modulo 2^32.

        A row's numbers are named as its normal ones are. See hush.random.discrete.
        """
        key = self._draw("skellam", labels)
        return add_noise(x, skellam(variance), key, rows if self.repeatable else range(len(rows)))

    def add_discrete_normals(self, x: Tensor, deviation: float, rows: Sequence[int], *labels: Label) -> Tensor:
        """Add integers k, of probabilities proportional to exp(-k^2 / (2 deviation^2)), to int32 rows, as above."""
        key = self._draw("discrete normal", labels)
        return add_noise(x, discrete_normal(deviation), key, rows if self.repeatable else range(len(rows)))

    def round_within(
        self, x: Tensor, step: float, limit: float, tries: int, rows: Sequence[int], *labels: Label
    ) -> Tensor:
        """x / step, stochastically rounded to int32 rows whose squares add up to at most `limit`.

        A row's draws are named as its noise is. See hush.random.discrete.
        """
        key = self._draw("rounding", labels)
        return round_within(x, step, limit, tries, key, rows if self.repeatable else range(len(rows)))

    def _draw(self, domain: str, labels: tuple[Label, ...]) -> bytes:
        return os.urandom(32) if self.value is None else _key(domain, self.value, labels)
