"""What a linear layer has moved by, as the rows that it read and the slopes of its outputs: W_c = W + A_c' X_c.

Each step adds a client's rows to X_c and -rate times their slopes to A_c. As long as these are few, products with W are
one for all clients, products with A_c and X_c are small, and no client needs a copy of the weights.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hush.parts.trainers import products

LARGE = 2**18  # weights of a layer from which on copies of it leave the cache
FEW = 4  # so many times larger is a product with W, or more, than one with all of A and X


@dataclass(frozen=True)
class Outer:
    """A_c' X_c of some clients, at this place of their rows."""

    clients: slice
    place: slice
    x: Tensor
    a: Tensor


class History:
    """X: (clients, rows of all steps, inputs) and A: (clients, rows of all steps, outputs), for a chunk of clients."""

    def __init__(self, base: Tensor, steps: int) -> None:
        self.base, self.steps, self.held = base, steps, 0
        self.x = self.a = base.new_empty(0, 0)

    def begin(self, clients: int, rows: int) -> bool:
        """Forget what was; false where so many rows of all clients in a step are too many for each in the end."""
        most, (outputs, inputs) = rows // clients * self.steps, self.base.shape
        if not few(self.base, most):
            return False
        self.held = 0
        self.x, self.a = self.base.new_empty(clients, most, inputs), self.base.new_empty(clients, most, outputs)
        return True

    def outputs(self, rows: Tensor) -> Tensor:
        """Rows of each client, (clients, rows, inputs), times its own weights."""
        y = products.outputs(rows.flatten(0, 1), self.base).view(*rows.shape[:2], -1)
        if self.held:
            y.baddbmm_(torch.bmm(rows, self.x[:, : self.held].mT), self.a[:, : self.held])
        return y

    def inputs(self, slopes: Tensor) -> Tensor:
        """The gradient of the inputs."""
        back = products.inputs(slopes.flatten(0, 1), self.base).view(*slopes.shape[:2], -1)
        if self.held:
            back.baddbmm_(torch.bmm(slopes, self.a[:, : self.held].mT), self.x[:, : self.held])
        return back

    def step(self, rows: Tensor, slopes: Tensor, rate: float) -> None:
        """W_c <- W_c - rate * slopes' rows."""
        where = slice(self.held, self.held + rows.shape[1])
        self.x[:, where] = rows
        self.a[:, where] = slopes * -rate
        self.held = where.stop

    def report(self, clients: slice, place: slice) -> Outer:
        """What these clients have moved by, given away; `place`: of the weights in a row of updates."""
        return Outer(clients, place, self.x[:, : self.held], self.a[:, : self.held])


def few(weight: Tensor, rows: int) -> bool:
    """Whether so many rows of a client in all steps are few."""
    outputs, inputs = weight.shape
    return FEW * rows * (outputs + inputs) <= outputs * inputs
