"""The batches of a block of clients, gathered when they are needed."""

from collections.abc import Callable

import torch
from torch import Tensor

Gather = Callable[[int, slice], tuple[Tensor, Tensor]]


def cut(passes: Tensor, size: int, step: int) -> Tensor:
    """The part of this step: each pass is cut in batches of `size`, the last may be smaller; then they begin again.

    passes: (clients, passes, rows of a pass); what comes out: (clients, rows of the batch).
    """
    turn, piece = divmod(step, -(-passes.shape[2] // size))
    return passes[:, turn % passes.shape[1], piece * size : (piece + 1) * size]


class Batches:
    """Inputs and targets for each step, with a leading client axis.

    gather(step, who): those of some clients. again: every step has the same, so they are gathered once. rough: the
    model changes what it is given, so each step gets a copy.
    """

    def __init__(
        self, clients: int, steps: int, gather: Gather, again: bool, rough: bool, device: torch.device
    ) -> None:
        self.clients, self.steps, self.rough, self.device = clients, steps, rough, device
        self._gather = gather
        self._kept = self._made(0, slice(None)) if again else None

    def get(self, step: int, who: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """The inputs and targets of these clients in this step."""
        if self._kept is None:
            return self._made(step, who)
        inputs, targets = self._kept[0][who], self._kept[1][who]
        return (inputs.clone() if self.rough else inputs), targets

    def _made(self, step: int, who: slice) -> tuple[Tensor, Tensor]:
        inputs, targets = self._gather(step, who)
        return inputs.to(self.device), targets.to(self.device)
