"""What the clients of a block have to say of the live coordinates, where only their sum is asked for."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

PIECE = 2**16  # numbers whose norm is taken at a time
NORMAL = 2.0**-126  # the smallest normal number of float32


class Updates(Protocol):
    """One update for each client of a block, in whatever form adds up fastest."""

    def norms(self) -> Tensor:
        """Of each update the L2 norm, or a little more, in float64; not finite just where it is not."""
        ...

    def rows(self) -> Tensor:
        """One row for each client, given away."""
        ...

    def scaled(self, factors: Tensor) -> "Updates":
        """Each times its own factor, which is float64; an update whose norm is not finite times 0 is zero."""
        ...

    def sum(self) -> Tensor:
        """Of all clients, one row of int64 or of float64, or of float32 where nothing is more precise."""
        ...


@dataclass(frozen=True)
class Rows(Updates):
    """Rows as they are, and a factor for each that is yet to be multiplied by."""

    x: Tensor
    factors: Tensor | None = None

    def norms(self) -> Tensor:
        """Times the factors."""
        found = norms(self.x)
        return found if self.factors is None else found * self.factors

    def rows(self) -> Tensor:
        """Times the factors."""
        if self.factors is None:
            return self.x
        if _small(self.factors):
            return (self.x.double() * self.factors.unsqueeze(1)).to(self.x.dtype)
        return self.x.mul_(self.factors.to(self.x.dtype).unsqueeze(1))

    def scaled(self, factors: Tensor) -> "Rows":
        """Multiplied when they are added."""
        none = factors == 0
        x = self.x.masked_fill(none.unsqueeze(1), 0.0) if bool(none.any()) else self.x
        return Rows(x, factors if self.factors is None else self.factors * factors)

    def sum(self) -> Tensor:
        """Integers exactly; else products with the factors are added in float32, a block at a time."""
        if not self.x.is_floating_point():
            return self.x.sum(0, dtype=torch.int64)
        factors = self.x.new_ones(len(self.x), dtype=torch.float64) if self.factors is None else self.factors
        if _small(factors):
            return factors @ self.x.double()
        return (factors.to(self.x.dtype) @ self.x).double()


def norms(x: Tensor) -> Tensor:
    """The L2 norm of each row, in float64, where no square of a float32 over- or underflows."""
    # In pieces: torch makes a float64 copy of what it takes the norm of, which is to stay in the cache.
    pieces = torch.split(x, max(1, PIECE // max(1, len(x))), dim=1)
    found = [torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64) for piece in pieces]
    whole: Tensor = torch.linalg.vector_norm(torch.stack(found), dim=0)
    return whole


def _small(factors: Tensor) -> bool:
    """Whether some are below the normal numbers of float32, where they would be too coarse."""
    return bool(((factors > 0) & (factors < NORMAL)).any())


@dataclass(frozen=True)
class Grouped(Updates):
    """The updates of groups of clients, with their places among all; who is in none has an update of zero."""

    parts: tuple[tuple[list[int], Updates], ...]
    clients: int
    size: int

    def norms(self) -> Tensor:
        """Each at its client's place."""
        found = torch.zeros(self.clients, dtype=torch.float64)
        for places, part in self.parts:
            found[places] = part.norms()
        return found

    def rows(self) -> Tensor:
        """Each at its client's place."""
        found = torch.zeros(self.clients, self.size)
        for places, part in self.parts:
            found[places] = part.rows()
        return found

    def scaled(self, factors: Tensor) -> "Grouped":
        """Each group with its own."""
        parts = tuple((places, part.scaled(factors[places])) for places, part in self.parts)
        return Grouped(parts, self.clients, self.size)

    def sum(self) -> Tensor:
        """Of all groups."""
        total = torch.zeros(self.size, dtype=torch.float64)
        for _, part in self.parts:
            total += part.sum()
        return total
