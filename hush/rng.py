"""Public and secret randomness, as two types that cannot be confused.

Every draw is named by labels (what for, which round, which client), so that no stream is ever used
twice and a resumed run needs no generator state. A stream is keyed by 128 bits of
SHA-256(domain, seed, labels).
"""

import hashlib
import json
import os
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Label = str | int


def _key(domain: str, seed: int, labels: tuple[Label, ...]) -> int:
    text = json.dumps(["hush-1", domain, seed, *labels])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


@dataclass(frozen=True)
class PublicSeed:
    """A seed that everybody knows: initial weights, coordinate sets, public batches."""

    value: int

    def generator(self, *labels: Label) -> np.random.Generator:
        """The stream of these labels, the same for everybody who knows the seed."""
        return np.random.Generator(np.random.Philox(key=_key("public", self.value, labels)))


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
        """A repeatable source for a simulation, apart from every PublicSeed."""
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
        """A stream for choices (cohorts, local batches); never for deployed noise."""
        key = int.from_bytes(os.urandom(16), "little") if self.value is None else self._key(labels)
        return np.random.Generator(np.random.Philox(key=key))

    def normal(self, size: int, *labels: Label) -> Tensor:
        """`size` standard normal numbers in float32."""
        if self.value is not None:
            return torch.from_numpy(self.generator(*labels).standard_normal(size, dtype=np.float32))
        return torch.from_numpy(_system_normal(size))

    def _key(self, labels: tuple[Label, ...]) -> int:
        assert self.value is not None
        return _key("secret", self.value, labels)


def _system_normal(size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Box and Muller's transform of the operating system's bits, in float64."""
    half = (size + 1) // 2
    bits = np.frombuffer(os.urandom(16 * half), dtype="<u8") >> np.uint64(11)
    uniform = (bits.astype(np.float64) + 0.5) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[:half]))
    angle = 2.0 * np.pi * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].astype(np.float32)
