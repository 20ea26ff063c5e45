"""A round of simulated clients in blocks, wherever the blocks are trained."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from hush.core import sums
from hush.core.clients import Opening, Order
from hush.core.engine import Engine
from hush.core.memory import Memory
from hush.core.packing import FLOATS
from hush.core.scheme import Scheme
from hush.core.spec import Members, Plan, Total, Uploads
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation import messages
from hush.federation.trial import walk
from hush.models import workers
from hush.parts.aggregators.secure import run_name
from hush.parts.trainers.cohort import together
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Work:
    """What the blocks of a round need to know beside the task: the same for all of them.

    `added`: a block gives the sum of what its clients have, behind the stages that need single rows.
    """

    scheme: Scheme
    plan: Plan
    cohort: Members
    secret: SecretSeed
    engine: Engine
    added: bool = False

    def compact(self, task: Task, memory: Memory) -> int | None:
        """How many clients are best added up at a time, where blocks are added and none needs a row of its own."""
        if not self.added or not len(self.cohort):
            return None
        return sums.compact(self.scheme, task.block(self.cohort, self.secret, memory), self.plan, self.engine)

    def train(self, task: Task, block: slice, memory: Memory) -> Uploads:
        """The uploads of a block of the cohort. What its clients are to keep is noted in the memory."""
        members, own = self.cohort[block], self.plan.to(block)
        mine = task.block(members, self.secret, memory)
        if self.added:
            found = sums.summed(self.scheme, mine, own, self.engine)
        else:
            found = self.scheme.client(mine, own, self.engine)
        return Uploads(found, mine.sizes, own.seats, members)


def check(block: int | None) -> None:
    """Refuse blocks of nobody."""
    if block is not None and block < 1:
        raise Mistake(f"block={block} must be at least 1: how many clients train together")


class Crew(Protocol):
    """Who trains the blocks of a task: threads of this process, or processes of a cluster."""

    def train(self, work: Work, blocks: Sequence[slice], memory: Memory) -> Iterator[Uploads]:
        """The uploads of each block, in their order. What clients are to keep is noted in the memory."""
        ...


@dataclass(frozen=True)
class Simulation:
    """The clients of a task, in blocks of `block`, trained by a crew; see Simulated."""

    enrolled: Task
    crew: Crew
    engine: Engine = Engine()
    block: int | None = None
    lost: Callable[[int, int], bool] | None = None
    exact: bool = False

    def begin(self, terms: Opening) -> None:
        """A trial of what they will do; they repeat a round by the same draws."""
        task = self.enrolled
        walk(terms.scheme, task.problem, task.population, task.clients, self.engine)

    def collect(self, order: Order) -> Total:
        """The total of the cohort's uploads."""
        scheme, plan, cohort, secret, books = order.scheme, order.plan, order.cohort, order.secret, order.books
        task, traffic, lost = self.enrolled, books.traffic, self.lost
        # With seats the plans differ by a number of fixed size: one of them is packed for all.
        one = plan if plan.seats is None else replace(plan, seats=np.zeros(1, np.int64))
        packed = messages.pack_plan(one, scheme.coordinates, scheme.downlink.form)
        if not scheme.baseline:
            traffic.down(cohort, messages.counted(packed, cohort.tolist()) if scheme.secure else packed)
        run = run_name(secret) if scheme.secure else ""
        asked = scheme.asked(plan, packed.data, cohort, secret, traffic.summed, run)
        if lost is not None:
            kept = [place for place, client in enumerate(cohort.tolist()) if not lost(plan.round, client)]
            cohort, plan = cohort[kept], plan.to(kept)
        plain = asked.form == FLOATS or asked.form.modulus is not None  # whose every row packs to the same length
        added = sums.addable(scheme) is not None and plain and not self.exact
        work = Work(scheme, plan, cohort, secret, self.engine, added)
        length = self.block or work.compact(task, books.memory)
        length = length or together(task.problem, task.train, plan.trained)
        if self.block is None:  # as large as each other, whatever the number of workers
            length = max(1, math.ceil(len(cohort) / max(1, math.ceil(len(cohort) / length))))
        blocks = [slice(first, first + length) for first in range(0, len(cohort), length)]

        def uploads() -> Iterator[Uploads]:
            for place, found in enumerate(self.crew.train(work, blocks, books.memory)):
                if place == 0 and not (scheme.baseline or scheme.secure):
                    records = 1 if asked.weighted else None
                    named = messages.reference(packed.digest, int(cohort[0]))
                    row = torch.zeros(asked.size) if added else found.rows[0]  # all of a round have one size
                    upload = messages.pack_upload(row, plan.round, named, asked.form, records)
                    traffic.up(cohort, upload)
                yield found
                del found  # before the next ones are made
            if added and len(cohort):
                with workers.alone():
                    noise = sums.together(scheme, plan, len(cohort), secret)
                yield Uploads(noise, torch.empty(0), clients=cohort[:0])

        return scheme.aggregator.combine(uploads(), asked)
