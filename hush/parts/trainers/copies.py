"""One parameter of a layer for each of a few clients: what they began with, and what the live coordinates moved by."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Weights:
    """One parameter of a layer, for all clients of a chunk.

    base: the value that the round began with. spot: its live coordinates; None is all of them. moved: one
    row per client, what its live coordinates have moved by. own: one copy per client, kept at base + moved;
    None where the layer works with the base and `moved` alone, or until the caller lends a place for it.
    """

    base: Tensor
    spot: Tensor | None
    moved: Tensor | None
    own: Tensor | None

    @property
    def live(self) -> bool:
        """Whether anything of it trains."""
        return self.spot is None or len(self.spot) > 0

    def reset(self) -> None:
        """The clients' copies back at the base; `moved` is the caller's to clear."""
        if self.own is None:
            return
        if self.spot is None:
            self.own.copy_(self.base.expand_as(self.own))
        else:
            self.own.view(len(self.own), -1)[:, self.spot] = self.base.flatten()[self.spot]

    def of(self, client: int) -> Tensor:
        """The client's copy, or the one that all share."""
        return self.base if self.own is None else self.own[client]

    def step(self, first: int, gradients: Tensor, rate: float) -> None:
        """w <- w - rate * gradient at the live coordinates of clients first, first + 1, ..., one row each."""
        if self.spot is None:
            assert self.own is not None
            self.own[first : first + len(gradients)].add_(gradients, alpha=-rate)
        elif len(self.spot):
            self.shift(first, gradients.reshape(len(gradients), -1)[:, self.spot], rate)

    def shift(self, first: int, gradients: Tensor, rate: float) -> None:
        """The same step with the gradients of the live coordinates alone."""
        who = slice(first, first + len(gradients))
        if self.spot is not None:
            assert self.moved is not None
            moved = self.moved[who].add_(gradients, alpha=-rate)
            if self.own is not None:
                self.own[who].view(len(gradients), -1)[:, self.spot] = self.base.flatten()[self.spot] + moved


@dataclass(frozen=True)
class Narrow:
    """The channels of a convolution whose weights are live: gradients of the others are not computed.

    spot: the live coordinates within a weight of these channels alone.
    """

    out: Tensor
    into: Tensor
    spot: Tensor

    @classmethod
    def of(cls, layer: nn.Conv2d, weight: Weights) -> "Narrow | None":
        """None where that spares nothing."""
        if weight.spot is None or not len(weight.spot) or layer.groups > 1:
            return None
        area = layer.weight[0, 0].numel()
        pair, inner = weight.spot // area, weight.spot % area
        out, row = torch.unique(pair // layer.in_channels, return_inverse=True)
        into, column = torch.unique(pair % layer.in_channels, return_inverse=True)
        if len(out) * len(into) > 0.8 * layer.out_channels * layer.in_channels:
            return None
        return cls(out, into, (row * len(into) + column) * area + inner)
