"""The same for one record: a client's own training with the record and without it, as a reader of its upload sees it.

The model is linear and so is its loss, so that a record's gradient is its input, whatever the weights. All records but
one are zero, and that one is far longer than any bound. Where batches are balanced by leaving records out, the others
are as long: those of its own class point away from it, those of the other class to where it does. Without it they
cancel, in the sum and in its signs; with it one more of the other class comes in, and the sum moves by two. In the
second round the loss has the other sign.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hush.audit.trials import Trials, World
from hush.audit.worlds import EXCESS
from hush.core.plain import All
from hush.core.plans import planned
from hush.core.protocols import named
from hush.core.scheme import Scheme
from hush.core.task import Block, Enrolled, Population, Problem
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.models.losses import Loss
from hush.privacy.events import Event, kind, replaced
from hush.privacy.views import Participation, views
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed, SecretSeed

MOST = 64  # records of a client


@dataclass(frozen=True)
class RecordWorlds:
    """A scheme whose trainer protects records, at a client that has no more of them than a batch: all are drawn."""

    scheme: Scheme
    size: int
    clients: int = 6000
    views: ClassVar[tuple[str, ...]] = ("upload",)
    cohort: ClassVar[int] = 1

    @property
    def present(self) -> World:
        """The record is there."""
        return World(True, 1.0)

    def absent(self, view: str) -> World:
        """It is not; where batches are of a fixed size, another one is in its place."""
        return World(True, -1.0) if replaced(kind(self._event(1)).neighbours) == 2 else World(False, 0.0)

    def stated(self, delta: float) -> dict[str, float | None]:
        """The epsilon of a trial that hush states, by its own ledger."""
        books, events = Participation(1), [self._event(number) for number in (1, 2)]
        books.probabilities = [events[0].batch]
        for event in events:
            books.add(event, [0])
        found = views(events, books, delta)["upload"]
        return {"upload": found if isinstance(found, float) else None}

    def seen(self, world: World, trials: int, secret: SecretSeed) -> Trials:
        """So many trials of a world, each a client with draws of its own."""
        names, found = tuple(range(trials)), []
        whole = replace(self.scheme, coordinates=All())
        for number, problem in enumerate(self._problems, 1):
            plan = planned(whole, problem, PublicSeed(0), number, torch.zeros(self.size), None, drawn=1, mean=1.0)
            block = Block(problem, self._population(world), np.zeros(trials, np.int64), Draws(secret, names))
            found.append(self.scheme.client(block, plan).double())
        return Trials({"upload": torch.cat(found, 1)}, [], [])

    def _population(self, world: World) -> Population:
        factors, classes = torch.zeros(self._records), torch.ones(self._records, dtype=torch.int64)
        classes[1 : 1 + (self._records + 1) // 2] = 0  # as many as of class 1, the record counted, or one more
        if getattr(self.scheme.trainer, "balance", "none") == "downsample":  # whatever it says of its own reach
            factors = 1.0 - 2.0 * classes
        factors[0] = world.factor
        x = EXCESS * factors.unsqueeze(1) * self._direction
        # Without it the others must be as likely as before; where they would be likelier its place stays, empty.
        gone = not world.drawn and self._sure(self._records - 1)
        rows = Samples(x[gone:], classes[gone:])
        return Population(rows, Split.of([range(len(rows))]))

    def _event(self, round: int) -> Event:
        task = Enrolled(self._problems[0], torch.tensor([self._records]), population=self.clients)
        found = self.scheme.trainer.event(round, self.scheme.sampling, task)
        if found is None:
            raise Mistake(f"{named(self.scheme.trainer)} protects no record: there is no record to audit")
        return replace(found, rate=1.0)  # the attacker knows that the client was drawn

    @cached_property
    def _direction(self) -> Tensor:
        """Of the record: as far along in each number, so that signs show it, and not one way in all."""
        signs = PublicSeed(0).generator("record of an audit").integers(2, size=self.size)
        return torch.from_numpy(signs).to(torch.float32).mul_(2).sub_(1)

    @cached_property
    def _records(self) -> int:
        """As many as a batch has, and two at least: a record has a partner where batches are balanced."""
        return next((n for n in range(MOST, 1, -1) if self._sure(n)), 2)

    def _sure(self, records: int) -> bool:
        found = self.scheme.trainer.probability(torch.tensor([max(1, records)]))
        return found is not None and float(found) == 1 and records > 0

    @cached_property
    def _problems(self) -> tuple[Problem, Problem]:
        def made(loss: Loss) -> Problem:
            return Problem(nn.Linear(self.size, 1, bias=False), loss)

        return made(lambda output, target: output.mean()), made(lambda output, target: -output.mean())
