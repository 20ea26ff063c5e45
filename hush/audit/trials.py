"""What a trial is made of: updates that are given, the turns of its rounds, its world, and what is seen of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.protocols import Trainer
from hush.core.spec import Plan
from hush.core.task import Block


@dataclass(frozen=True, eq=False)
class Given(Trainer):
    """Updates as they are given, in place of training: `rows` of the clients of these names."""

    rows: Tensor
    names: tuple[int, ...]

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        """A copy: stages work in place."""
        if block.draws.names == self.names:
            return self.rows.clone()
        return self.rows[[self.names.index(name) for name in block.draws.names]]


class Turn(NamedTuple):
    """A round of a trial: its number, the sign of the client's update (0: it is not its turn), how many drop out."""

    number: int
    sign: float
    lost: int


class World(NamedTuple):
    """What the client does: is it drawn, and by which factor is its update multiplied."""

    drawn: bool
    factor: float


class Trials(NamedTuple):
    """Of each trial what each adversary sees, the turns side by side.

    Where the client is present, turn by turn, `noise`: what is released less what the clients add; `added`: what the
    one client adds, before the noise.
    """

    views: dict[str, Tensor]
    noise: list[Tensor]
    added: list[Tensor]

    @classmethod
    def together(cls, parts: Sequence["Trials"]) -> "Trials":
        """The trials of all parts, one behind the other."""
        return cls(
            {view: torch.cat([part.views[view] for part in parts]) for view in parts[0].views},
            [torch.cat(turn) for turn in zip(*(part.noise for part in parts), strict=True)],
            [torch.cat(turn) for turn in zip(*(part.added for part in parts), strict=True)],
        )
