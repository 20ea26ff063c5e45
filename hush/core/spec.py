"""What parts know of each other: the Spec before any data, the Plan of a round, the Total of a round."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.core.memory import Kept
from hush.core.packing import Floats, Form
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed
from hush.secure.tally import Tally

Members = npt.NDArray[np.int64]


class Rounding(NamedTuple):
    """Rows at their bound are `steps` of the grid long, rounded again with a probability of at most `beta`."""

    steps: float
    beta: float


@dataclass(frozen=True)
class Spec:
    """What is known of an upload before any data: its length, its norm, its noise.

    `l2` bounds what one client adds to the sum. `noise` is the multiplier of the summed noise: its
    deviation is `noise * l2`. `clip` is the bound in force that a stage moves from round to round, if there
    is one. `form` is how it is packed. `least` is the fewest uploads that can be combined. `precision`: they are single
    bits of numbers of so many, to be voted on and not added. `rounding`: how bounded rows became integers.
    """

    size: int
    l2: float = math.inf
    form: Form = Floats()
    noise: float | None = None
    weighted: bool = False
    clip: float | None = None
    least: int = 0
    precision: int | None = None
    rounding: Rounding | None = None


@dataclass(frozen=True)
class Plan:
    """The public terms of one round.

    `cohort` is the number of clients that the mean divides by (the expected number under Poisson
    sampling). `floor` is the number of clients that noise shares are sized for: so many shares have the multiplier of
    the noise. `seats` are the places in the cohort of the clients that the plan goes to, in a public random order,
    where the scheme asks for them. `spare` is the tolerated part of a cohort, which the floor leaves out: all shares
    of a cohort together have 1 / (1 - spare) times the variance of `floor` shares, whatever its size.

    `live` are the coordinates that travel up, None is all. With `joint` they are a part of those that train and travel
    down, the `pool` (None: all).
    """

    round: int
    weights: Tensor
    live: Tensor | None = None
    cohort: float = 1.0
    floor: float = 1.0
    clip: float | None = None
    seats: Members | None = None
    spare: float = 0.0
    pool: Tensor | None = None
    joint: bool = False

    @property
    def trained(self) -> Tensor | None:
        """The coordinates that train, None is all."""
        return self.pool if self.joint else self.live

    def reported(self, updates: Tensor) -> Tensor:
        """Of updates of what trains, one row per client, those of the live coordinates."""
        if not self.joint or self.live is None:
            return updates
        return updates[:, self.live if self.pool is None else torch.searchsorted(self.pool, self.live)]

    @property
    def drawn(self) -> int:
        """How many clients the shares of noise are of; the server's to know."""
        return round(self.floor / (1 - self.spare))

    def to(self, places: slice | list[int]) -> "Plan":
        """The plan as it goes to some of the cohort."""
        return self if self.seats is None else replace(self, seats=self.seats[places])


class Uploads(NamedTuple):
    """Some clients' uploads, one row each; the numbers of their records; their seats, where the scheme has any.

    `clients` says whose they are, where the aggregator must know. Where it takes nothing but a sum of integers
    (Aggregator.exact), `rows` may be one row, their sum.
    """

    rows: Tensor
    sizes: Tensor
    seats: Members | None = None
    clients: Members | None = None


Note = Callable[[Members, Tally, int], None]  # bytes of a secure sum, and those of the masked numbers among them


def _unnoted(members: Members, tally: Tally, payload: int) -> None:
    """Nobody counts."""


@dataclass(frozen=True)
class Asked:
    """What an aggregator may know of a round: how long uploads are and how they are packed, and who was asked.

    `announced` is what every client of the cohort got: the packed plan, the weights as they are at a client, over a
    channel the charter's digest.
    `note` counts the bytes of a secure sum, `run` names the run. `weighted`: the numbers of records travel. `secret`
    makes the keys of simulated clients.
    """

    size: int
    form: Form = Floats()
    round: int = 0
    floor: float = 0.0
    announced: tuple[bytes, ...] = ()
    cohort: Members = field(default_factory=lambda: np.empty(0, np.int64))
    secret: SecretSeed = field(default_factory=SecretSeed.system)
    note: Note = _unnoted
    run: str = ""
    weighted: bool = False
    registered: Tensor | None = None  # of every client, the number of its records
    second: bytes = b""  # the sealing key of the second server, where there are two
    relay: Callable[..., Any] | None = None  # what opens a round with a second server that is elsewhere


class Length(NamedTuple):
    """How long a released mean of bounded uploads is, beside their bound, and how long its noise is expected to be.

    All three follow from what is released: nothing else of any upload is in them.
    """

    mean: float
    bound: float
    noise: float | None


@dataclass(frozen=True)
class Total:
    """What the server sees of the uploads: their sum, how many, and their summed weight.

    `refused` says, in a sentence each, which uploads it did not take; `survivors` whose are in the sum, where some of
    those that were taken are not. `length`: see Length, where uploads are bounded.
    """

    body: Tensor
    count: int
    weight: float
    clip: float | None = None
    refused: tuple[str, ...] = ()
    survivors: tuple[int, ...] | None = None
    length: Length | None = None


class Multipliers(NamedTuple):
    """What noise counts for: against readers of the models, the server that sees the sum, a reader of one upload."""

    model: float
    server: float
    upload: float


class Lengths(NamedTuple):
    """The norms that a clip meets, of clients' updates or of records' gradients, and its bound."""

    norms: Tensor
    bound: float


@dataclass(frozen=True)
class ClientContext:
    """What a stage may know at the clients: its incoming Spec, the plan, and what is theirs.

    `memory` is what each client kept from the rounds before, where it can keep something.
    """

    spec: Spec
    plan: Plan
    sizes: Tensor
    draws: Draws
    memory: Kept | None = None


@dataclass(frozen=True)
class ServerContext:
    """What a stage may know at the server: its incoming Spec, the plan, and draws of the server's own."""

    spec: Spec
    plan: Plan
    secret: SecretSeed
