"""What parts tell each other: the Spec before any data, the Plan of a round, the Total of a round."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from hush.rng import SecretSeed

Members = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spec:
    """What is known of an upload before any data: its length, its norm, its noise.

    `l2` bounds what one client adds to the sum. `noise` is the multiplier of the summed noise: its
    deviation is `noise * l2`. `clip` is the adaptive bound in force, if there is one.
    """

    size: int
    l2: float = math.inf
    bits: int = 32
    noise: float | None = None
    weighted: bool = False
    clip: float | None = None


@dataclass(frozen=True)
class Plan:
    """The public terms of one round.

    `cohort` is the number of clients that the mean divides by (the expected number under Poisson
    sampling). `floor` is the fewest clients that the noise relies on: each share is sized for it, and
    with fewer survivors the round is aborted.
    """

    round: int
    weights: Tensor
    live: Tensor | None
    cohort: float
    floor: float
    clip: float | None = None


@dataclass(frozen=True)
class Total:
    """What the server sees of the uploads: their sum, how many, and their summed weight."""

    body: Tensor
    count: int
    weight: float
    clip: float | None = None


@dataclass(frozen=True)
class Context:
    """What a stage may know while it works: its incoming Spec, the plan, the rows' clients, the secrets."""

    spec: Spec
    plan: Plan
    clients: Members
    sizes: Tensor
    secret: SecretSeed
