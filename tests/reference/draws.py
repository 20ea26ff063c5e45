"""The random draws of a run by their names, as the twins take them."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import next_fast_len
from torch import Tensor

from hush.random.seeds import PublicSeed, SecretSeed
from reference.normal import normals


@dataclass(frozen=True)
class Draws:
    """Cohorts of `size` clients, or with each client at probability `rate`, or by `turns`, out of `population`."""

    seed: int
    population: int
    size: int | None = None
    rate: float | None = None
    turns: int | None = None

    def cohort(self, t: int) -> list[int]:
        """The set K of round t."""
        if self.turns is not None:
            order = PublicSeed(0).generator("turns", self.population).permutation(self.population).tolist()
            return sorted(client for place, client in enumerate(order) if place % self.turns == (t - 1) % self.turns)
        rng = SecretSeed.simulated(self.seed).generator("cohort", t)
        size = self.size if self.rate is None else rng.binomial(self.population, self.rate)
        return sorted(rng.choice(self.population, size, replace=False, shuffle=False).tolist())

    @property
    def expected(self) -> float:
        """The expected |K|."""
        if self.turns is not None:
            return self.population / self.turns
        return float(self.size) if self.rate is None else self.rate * self.population

    def batches(self, rows: Tensor, batch: int, steps: int, t: int, client: int) -> list[Tensor]:
        """The batch B of every local iteration."""
        if len(rows) <= batch:
            return [rows] * steps
        rng = SecretSeed.simulated(self.seed).generator("batch", t, client)
        orders = rng.permuted(np.tile(np.arange(len(rows)), (steps, 1)), axis=1)
        return [rows[torch.tensor(order[:batch])] for order in orders]

    def ballot(self, rows: Tensor, batch: int, client: int) -> Tensor:
        """The one batch on which a client finds what to vote for."""
        order = SecretSeed.simulated(self.seed).generator("ballot", client).permutation(len(rows))
        return rows[torch.tensor(order[:batch])]

    def noise(self, size: int, t: int, who: int | str) -> Tensor:
        """Standard normal numbers of one client, or of the server."""
        labels, row = (["noise", t], who) if isinstance(who, int) else (["noise", t, who], 0)
        return self._normal(size, row, *labels)

    def kept(self, size: int, t: int) -> Tensor:
        """z_t: those that a trusted server draws for round t, and keeps."""
        return self._normal(size, 0, "correlated noise", t)

    def _normal(self, size: int, row: int, *labels: str | int) -> Tensor:
        key = hashlib.sha256(json.dumps(["hush-1", "normal", self.seed, *labels]).encode()).digest()
        return torch.tensor(normals(key, row, size), dtype=torch.float64)

    def lone(self, t: int) -> int:
        """The one client of a round of one."""
        rng = SecretSeed.simulated(self.seed).generator("cohort", t)
        return int(rng.choice(self.population, 1, replace=False, shuffle=False)[0])

    def coins(self, *labels: str | int) -> Callable[[int], list[int]]:
        """Random bits, the highest of each byte first."""
        rng = SecretSeed.simulated(self.seed).generator(*labels)

        def toss(count: int) -> list[int]:
            drawn = rng.bytes((count + 7) // 8)
            return [drawn[i // 8] >> (7 - i % 8) & 1 for i in range(count)]

        return toss

    def seats(self, t: int, count: int) -> list[int]:
        """The places of a cohort's clients, in its order."""
        return PublicSeed(self.seed).generator("seats", t).permutation(count).tolist()

    def heads(self, bias: Tensor, coins: int, t: int, client: int) -> Tensor:
        """Heads minus tails of `coins` coins of probability 1/2 + bias; twin: tests/random/test_bernoulli.py."""
        secret = SecretSeed.simulated(self.seed)
        return secret.heads(bias[None].clone(), 1.0, 1 / 16, coins, [client], "coins", t)[0]

    def fair(self, size: int, coins: int, t: int) -> Tensor:
        """Heads minus tails of the server's fair coins."""
        return SecretSeed.simulated(self.seed).fair(size, coins, "coins", t, "server")

    def uniform(self, *labels: str | int) -> Callable[[], float]:
        """Numbers from 0 to 1."""
        rng = SecretSeed.simulated(self.seed).generator(*labels)
        return lambda: float(rng.random(dtype=np.float32))

    def sensed(self, n: int, count: int, chunks: int, seed: int) -> Tensor:
        """The dense matrix of FL-CS: rows of the cosine transform of each chunk, which is every chunks-th number."""
        length = -(-n // chunks)
        width = length if count == n else int(next_fast_len(length, real=True))
        rng = PublicSeed(seed).generator("sense", n, chunks)
        counts = [count // chunks + (chunk < count % chunks) for chunk in range(chunks)]
        matrix = torch.zeros(count, n, dtype=torch.float64)
        line = 0
        for chunk, number in enumerate(counts):
            for row in sorted(rng.choice(width, number, replace=False).tolist()):
                for place in range(len(range(chunk, n, chunks))):
                    scale = math.sqrt((1 if row == 0 else 2) / width)
                    matrix[line, chunk + place * chunks] = scale * math.cos(math.pi * (2 * place + 1) * row / 2 / width)
                line += 1
        return matrix

    def coordinates(self, n: int, count: int, t: int) -> list[int]:
        """A random set of `count` coordinates; t = 0 is the set for the whole training."""
        rng = PublicSeed(self.seed).generator("coordinates", t)
        return sorted(rng.choice(n, count, replace=False, shuffle=False).tolist())
