"""One parameter of a layer for each of a few clients: what they began with, and what the live coordinates moved by."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from hush.parts.trainers.history import History


@dataclass
class Turn:
    """Which clients of a chunk the next batch holds, and whether any of the chunk has left the base.

    widest: the most numbers that a convolution has made of one client's rows.
    """

    first: int = 0
    clients: int = 1
    started: bool = False
    widest: int = 0

    @property
    def who(self) -> slice:
        """Their places in the chunk."""
        return slice(self.first, self.first + self.clients)


@dataclass
class Weights:
    """One parameter of a layer, for all clients of a chunk.

    base: the value that the round began with. spot: its live coordinates; None is all of them. own: one copy per
    client. moved: where there are no copies, one row per client of what its live coordinates have moved by. history:
    the same in another form. Where all train `own`, and else `moved`, lies in the rows of the clients' updates.
    """

    base: Tensor
    spot: Tensor | None
    own: Tensor | None = None
    moved: Tensor | None = None
    history: History | None = None
    live: bool = field(init=False)  # whether anything of it trains
    keep: Tensor | None = field(init=False, default=None)  # 1 at live coordinates and 0 at the others, if there are any

    def __post_init__(self) -> None:
        self.live = self.spot is None or self.spot.numel() > 0
        if self.spot is not None and self.own is not None:
            self.keep = self.base.new_zeros(self.base.numel()).index_fill_(0, self.spot, 1).view(self.base.shape)

    def reset(self) -> None:
        """All clients back at the base."""
        if self.moved is not None:
            self.moved.zero_()
        if self.own is not None and self.history is None:
            self.own.copy_(self.base.expand_as(self.own))

    def of(self, client: int) -> Tensor:
        """The client's copy, or the one that all share."""
        return self.base if self.own is None else self.own[client]

    def step(self, who: slice, gradients: Tensor, rate: float) -> None:
        """w <- w - rate * gradient at the live coordinates of these clients, one gradient each."""
        if self.own is None:
            return
        if self.keep is None:
            self.own[who].sub_(gradients, alpha=rate)
        else:
            self.own[who].addcmul_(gradients, self.keep, value=-rate)

    def report(self, out: Tensor) -> None:
        """What the live coordinates of the first clients have moved by, at their place in the rows of the updates."""
        if self.spot is None:
            out -= self.base.flatten()
        elif self.own is not None:
            out[:] = self.own[: len(out)].flatten(1)[:, self.spot] - self.base.flatten()[self.spot]


@dataclass(frozen=True)
class Narrow:
    """The channels of a convolution whose weights are live: gradients of the others are not computed.

    spot: the live coordinates within a weight of these channels alone.
    """

    out: Tensor
    into: Tensor
    spot: Tensor

    @classmethod
    def of(cls, layer: nn.Conv2d, weight: Weights, last: bool) -> "Narrow | None":
        """None where that spares nothing; `last`: channels come last, where picking some of them costs more."""
        if weight.spot is None or not len(weight.spot) or layer.groups > 1:
            return None
        area = layer.weight[0, 0].numel()
        pair, inner = weight.spot // area, weight.spot % area
        out, row = torch.unique(pair // layer.in_channels, return_inverse=True)
        into, column = torch.unique(pair % layer.in_channels, return_inverse=True)
        if len(out) * len(into) > (0.5 if last else 0.8) * layer.out_channels * layer.in_channels:
            return None
        return cls(out, into, (row * len(into) + column) * area + inner)
