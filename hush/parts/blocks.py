"""Coordinates in turn: each round the whole cohort sends one block of them."""

from dataclasses import dataclass
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from hush.core.plain import All
from hush.core.protocols import Coordinates, Parts, named
from hush.core.task import Problem, Registered
from hush.errors import Mistake
from hush.models.weights import Layout
from hush.random.seeds import PublicSeed

Interleave = Literal["columns", "weights"]


@dataclass(frozen=True)
class Blocks(Coordinates):
    """`number` blocks of the coordinates `of`, one a round, in turn.

    Clients train all of them and send the round's block. A block is every number-th weight of the set or, with
    "columns", every number-th column of the weight matrices, with all rows of a column: what one direction of the
    input says. A bias is a column of its own.

    Guarantee: that of the stages behind it, unchanged. Which block is sent is public, and the clip bounds what is sent:
    each round is one release of sensitivity S, of however few numbers.
    """

    settings: ClassVar[tuple[str, ...]] = ("blocks",)

    number: int
    of: Coordinates = All()
    interleave: Interleave = "weights"
    fixed: ClassVar[bool] = False
    derivable: ClassVar[bool] = True
    joint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.number < 1:
            raise Mistake(f"blocks={self.number} must be at least 1: how many blocks take turns")
        if self.interleave not in ("columns", "weights"):
            raise Mistake(f"interleave={self.interleave!r} is not known: choose columns or weights")
        if not (self.of.fixed and self.of.derivable):
            raise Mistake(f"blocks are of one set that every client can derive, and {named(self.of)} has none: fix it")
        if self.interleave == "columns" and not self.of.whole:
            raise Mistake(f"columns of a part of the weights, by {named(self.of)}, are uneven: interleave weights")

    @property
    def blocks(self) -> int:
        """What the settings call `number`."""
        return self.number

    @property
    def probes(self) -> bool:
        """Whether the set is chosen on the public batch."""
        return self.of.probes

    def check(self, scheme: Parts, task: Registered) -> None:
        """At least one coordinate in each block; clients, not records, are what is bounded by block."""
        self.of.check(scheme, task)
        if scheme.trainer.level is not None:
            raise Mistake(
                f"{named(scheme.trainer)} protects records at every weight, sent or not, so that blocks gain nothing"
                " there: leave them out"
            )
        held = int(self._columns(task.layout).max()) + 1 if self.interleave == "columns" else self.of.count(task.layout)
        if self.number > held:
            raise Mistake(f"blocks={self.number} of {held} {self.interleave}: take fewer blocks")

    def count(self, layout: Layout) -> int:
        """The coordinates of the largest block."""
        if self.interleave == "columns":
            return int(torch.bincount(self._columns(layout) % self.number).max())
        return -(-self.of.count(layout) // self.number)

    def down(self, layout: Layout) -> int:
        """All of the set: a client that was away missed the other blocks."""
        return self.of.count(layout)

    def visits(self, round: int) -> int:
        """Once in `number` rounds."""
        return (round - 1) // self.number + 1

    def pool(self, problem: Problem, seed: PublicSeed) -> Tensor | None:
        """The set that the blocks are of, found once for a problem."""
        known = _pools.setdefault(problem, {})
        which = self.of, seed.value
        if which not in known:
            known[which] = self.of.draw(problem, seed, 0, None)
        return known[which]

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor:
        """The round's block."""
        turn, pool = (round - 1) % self.number, self.pool(problem, seed)
        if self.interleave == "columns":
            known = _turns.setdefault(problem, {})
            if (self.number, turn) not in known:
                known[self.number, turn] = (self._columns(problem.layout) % self.number == turn).nonzero().flatten()
            return known[self.number, turn]
        return (
            torch.arange(turn, problem.layout.parameters, self.number)
            if pool is None
            else pool[turn :: self.number].contiguous()
        )

    @staticmethod
    def _columns(layout: Layout) -> Tensor:
        """Of every weight, the number of its column among those of all parameters."""
        found, before = [], 0
        for name, shape in zip(layout.names, layout.shapes, strict=True):
            if name not in layout.buffers:
                width = shape.numel() // shape[0] if shape else 1
                found.append(torch.arange(shape.numel()) % width + before)
                before += width
        return torch.cat(found)


_turns: WeakKeyDictionary[Problem, dict[tuple[int, int], Tensor]] = WeakKeyDictionary()
_pools: WeakKeyDictionary[Problem, dict[tuple[Coordinates, int], Tensor | None]] = WeakKeyDictionary()
