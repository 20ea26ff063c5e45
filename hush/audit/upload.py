"""One client's upload as whoever reads it has it, and what its numbers say of the update behind them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hush.core.memory import Memory
from hush.core.plans import planned
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Spec
from hush.core.task import Problem, Task
from hush.errors import Mistake
from hush.models.weights import flatten
from hush.random.seeds import PublicSeed, SecretSeed

Code = Literal["numbers", "signs", "bits"]


@dataclass(frozen=True, eq=False)
class Seen:
    """All that a reader of one upload has: the upload, the plan, the public problem, what the scheme says of uploads.

    `plan` names the coordinates and, where the scheme gives any, this client's seat. `records`: of how many rows the
    update is; the reader is taken to know it. There is nothing else of the client in here.
    """

    upload: Tensor
    plan: Plan
    problem: Problem
    spec: Spec
    records: int = 1

    def __post_init__(self) -> None:
        if self.spec.size < self.width:
            raise Mistake("an upload of fewer numbers than coordinates is not taken apart here: attack another scheme")

    @property
    def width(self) -> int:
        """How many coordinates the update has; what follows them in the upload is no part of it."""
        return (self.plan.weights if self.plan.live is None else self.plan.live).numel()

    @property
    def code(self) -> Code:
        """What a number of the upload is.

        numbers  a multiple of the update's, maybe with noise: floats as they are, of coins the heads minus tails
        signs    its sign, a random one where it is zero
        bits     its sign, plus where it is zero, and one bit of its magnitude, whose number the seat says
        """
        if self.spec.precision is not None:
            return "bits"
        return "signs" if self.spec.form.bits == 1 and self.spec.noise is None else "numbers"

    @cached_property
    def numbers(self) -> Tensor:
        """The update of the coordinates as far as it can be read off: itself up to a factor, or its signs."""
        found = self.upload[: self.width].double()
        return found.sign() if self.code == "bits" else found

    @cached_property
    def set_bits(self) -> Tensor:
        """Whether the bit of each magnitude is set, 1 or 0: -3, -1 are minus without it and with it, 1, 3 plus."""
        found = self.upload[: self.width].double()
        return (found + torch.where(found > 0, -1, 3)) / 2

    @cached_property
    def periods(self) -> Tensor:
        """After how much the bit of each magnitude is the same again: it is set in the second half of a period."""
        seats, precision, bound = self.plan.seats, self.spec.precision, self.spec.clip
        if seats is None or precision is None or bound is None:
            raise Mistake(f"numbers that are {self.code} have no bits with a place of their own: ask for numbers")
        place = (int(seats[0]) + torch.arange(self.width)) % (precision - 1)
        return bound * torch.exp2((place + 2 - precision).double())

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The numbers by the names of the model's parameters, zero where nothing was sent, and where something was."""
        flat, known = (torch.zeros(self.plan.weights.numel(), dtype=torch.float64) for _ in range(2))
        live = slice(None) if self.plan.live is None else self.plan.live
        flat[live], known[live] = self.numbers, 1.0
        layout = self.problem.layout
        return layout.views(flat), layout.views(known)

    @cached_property
    def rows(self) -> Tensor:
        """Public rows, which are like the client's."""
        found = self.problem.public or self.problem.test
        if found is None or not isinstance(found.inputs, Tensor) or not found.inputs.is_floating_point():
            raise Mistake("an attack guesses from public rows of dense numbers: give the task some as public or test")
        return found.inputs


def see(
    scheme: Scheme, task: Task, client: int, *, weights: Tensor | None = None, round: int = 1, seed: int = 0
) -> Seen:
    """What the client's own code sends in a round of a usual cohort, from the model's weights if no others are given.

    `seed` is both the public one and that of the simulated secrets.
    """
    if scheme.secure:
        raise Mistake("nobody reads an upload under a secure sum: attack the same scheme without it")
    if scheme.poll(task.layout) is not None:
        raise Mistake("coordinates that clients vote on take a round before this one: leave vote out")
    scheme.check(task)
    public, secret = PublicSeed(seed), SecretSeed.simulated(seed)
    live = scheme.coordinates.draw(task.problem, public, round, None)
    mean = scheme.sampling.cohort(task.clients)
    start = flatten(task.model) if weights is None else weights
    drawn = max(1, int(mean + 0.5))
    plan = planned(scheme, task.problem, public, round, start, live, drawn=drawn, mean=mean).to(slice(1))
    spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
    block = task.block(np.array([client]), secret, Memory())
    return Seen(scheme.client(block, plan)[0], plan, task.problem, spec, int(block.sizes[0]))
