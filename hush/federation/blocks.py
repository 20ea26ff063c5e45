"""A round of simulated clients in blocks, wherever the blocks are trained."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from hush.core.clients import Opening, Order
from hush.core.engine import Engine
from hush.core.memory import Memory
from hush.core.scheme import Scheme
from hush.core.spec import Members, Plan, Total, Uploads
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation import messages
from hush.federation.trial import walk
from hush.parts.aggregators.secure import run_name
from hush.parts.trainers.cohort import together
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Work:
    """What the blocks of a round need to know beside the task: the same for all of them."""

    scheme: Scheme
    plan: Plan
    cohort: Members
    secret: SecretSeed
    engine: Engine

    def train(self, task: Task, block: slice, memory: Memory) -> Uploads:
        """The uploads of a block of the cohort. What its clients are to keep is noted in the memory."""
        members, own = self.cohort[block], self.plan.to(block)
        mine = task.block(members, self.secret, memory)
        return Uploads(self.scheme.client(mine, own, self.engine), mine.sizes, own.seats, members)


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

    def begin(self, terms: Opening) -> None:
        """A trial of what they will do; they repeat a round by the same draws."""
        task = self.enrolled
        walk(terms.scheme, task.problem, task.population, task.clients, self.engine)

    def collect(self, order: Order) -> Total:
        """The total of the cohort's uploads."""
        scheme, plan, cohort, secret, books = order.scheme, order.plan, order.cohort, order.secret, order.books
        task, traffic, lost = self.enrolled, books.traffic, self.lost
        # With seats the plans differ by a number of fixed size: one of them is packed for all.
        seat = None if plan.seats is None else np.zeros(1, np.int64)
        packed = messages.pack_plan(replace(plan, seats=seat), scheme.coordinates, scheme.downlink.form)
        if not scheme.baseline:
            traffic.down(cohort, messages.counted(packed, len(cohort)) if scheme.secure else packed)
        run = run_name(secret) if scheme.secure else ""
        asked = scheme.asked(plan, packed.data, cohort, secret, traffic.summed, run)
        if lost is not None:
            kept = [place for place, client in enumerate(cohort.tolist()) if not lost(plan.round, client)]
            cohort, plan = cohort[kept], plan.to(kept)
        length = self.block or together(task.problem, task.train, plan.trained)
        blocks = [slice(first, first + length) for first in range(0, len(cohort), length)]
        work = Work(scheme, plan, cohort, secret, self.engine)

        def uploads() -> Iterator[Uploads]:
            for place, found in enumerate(self.crew.train(work, blocks, books.memory)):
                if place == 0 and not (scheme.baseline or scheme.secure):
                    records = 1 if asked.weighted else None
                    named = messages.reference(packed.digest, int(cohort[0]))
                    upload = messages.pack_upload(found.rows[0], plan.round, named, asked.form, records)
                    traffic.up(cohort, upload)
                yield found
                del found  # before the next ones are made

        return scheme.aggregator.combine(uploads(), asked)
