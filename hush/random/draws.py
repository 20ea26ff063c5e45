"""The secret draws of some clients, each client's by a name of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from hush.random.seeds import Label, SecretSeed


@dataclass(frozen=True)
class Draws:
    """What the clients of a block draw in secret: client i's numbers are those of the name `names[i]`.

    In a simulation the names are the clients' numbers, so that no draw depends on who else is in the block. A client of
    a network has one name and the operating system's generator. Who holds it draws for these names alone.
    """

    _secret: SecretSeed = field(repr=False)
    names: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def repeatable(self) -> bool:
        """Whether the same labels give the same draw again: in simulations."""
        return self._secret.repeatable

    def pick(self, places: Sequence[int]) -> "Draws":
        """Those of some of the clients."""
        return Draws(self._secret, tuple(self.names[place] for place in places))

    def generator(self, place: int, *labels: Label) -> np.random.Generator:
        """One client's stream for choices; never for noise."""
        return self._secret.generator(*labels, self.names[place])

    def add_normals(self, x: Tensor, scale: float, *labels: Label) -> Tensor:
        """Add scale * N to x, in place, a row for each client."""
        return self._secret.add_normals(x, scale, self.names, *labels)

    def heads(self, x: Tensor, scale: float, edge: float, coins: int, *labels: Label) -> Tensor:
        """Replace each number of x, in place, by heads minus tails of `coins` coins; see SecretSeed.heads."""
        return self._secret.heads(x, scale, edge, coins, self.names, *labels)

    def add_skellam(self, x: Tensor, variance: float, *labels: Label) -> Tensor:
        """Add Skellam noise of this variance to int32 rows, in place, modulo 2^32."""
        return self._secret.add_skellam(x, variance, self.names, *labels)

    def add_discrete_normals(self, x: Tensor, deviation: float, *labels: Label) -> Tensor:
        """Add discrete Gaussian noise to int32 rows, in place, modulo 2^32."""
        return self._secret.add_discrete_normals(x, deviation, self.names, *labels)

    def round_within(self, x: Tensor, step: float, limit: float, tries: int, *labels: Label) -> Tensor:
        """x / step, stochastically rounded to int32 rows whose squares add up to at most `limit`."""
        return self._secret.round_within(x, step, limit, tries, self.names, *labels)
