"""Updates in which the weights of large linear layers are not made, but rows and slopes of all steps (history.py)."""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from hush.core.updates import Rows, Updates, norms
from hush.parts.trainers import products
from hush.parts.trainers.grams import gram
from hush.parts.trainers.history import Outer
from hush.parts.trainers.span import LEAST, lengths

PIECE = 128  # outputs of a layer in one product of a sum: a large one takes several times the memory of what it gives


@dataclass(frozen=True)
class Mixed(Updates):
    """One row for each client, with nothing yet at the places of `outer`."""

    x: Tensor
    outer: tuple[Outer, ...]
    factors: Tensor | None = None

    @property
    def others(self) -> list[slice]:
        """What lies between these places."""
        places = sorted({(one.place.start, one.place.stop) for one in self.outer})
        edges = [(0, 0), *places, (self.x.shape[1], self.x.shape[1])]
        return [slice(end, start) for (_, end), (start, _) in pairwise(edges) if start > end]

    def norms(self) -> Tensor:
        """Of all parts together."""
        found = torch.zeros(len(self.x), dtype=torch.float64)
        for place in self.others:
            found = torch.hypot(found, norms(self.x[:, place]))
        for one in self.outer:
            grams = torch.stack([gram(rows, False) for rows in one.x])
            found[one.clients] = torch.hypot(found[one.clients], lengths(grams, one.a))
        return found if self.factors is None else found * self.factors

    def rows(self) -> Tensor:
        """With these places filled."""
        for one in self.outer:
            for row, x, a in zip(self.x[one.clients], one.x, one.a, strict=True):
                row[one.place] = products.weights(a, x).flatten()
        return Rows(self.x, self.factors).rows()

    def scaled(self, factors: Tensor) -> Updates:
        """Multiplied when they are added."""
        if bool((factors < LEAST).any()):
            return Rows(self.rows()).scaled(factors)
        return replace(self, factors=factors if self.factors is None else self.factors * factors)

    def sum(self) -> Tensor:
        """Of each layer one product over the rows of all clients, in its precision: half the memory."""
        total = self.x.new_zeros(self.x.shape[1])
        for place in self.others:
            total[place] = Rows(self.x[:, place], self.factors).sum().to(total.dtype)
        for one in self.outer:
            a = one.a
            if self.factors is not None:
                a = a * self.factors[one.clients].to(a.dtype)[:, None, None]
            lines = total[one.place].view(a.shape[2], -1)
            for part in (slice(first, first + PIECE) for first in range(0, len(lines), PIECE)):
                lines[part] += products.weights(a[:, :, part].flatten(0, 1), one.x.flatten(0, 1))
        return total
