"""Clients in blocks, on the threads of this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from hush import wire, workers
from hush.errors import Mistake
from hush.rng import SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total, Uploads
from hush.state import Books
from hush.task import Task
from hush.trainers.cohort import Engine, block


@dataclass(frozen=True)
class Local:
    """Runs the client code on blocks of clients, several at a time.

    `block` clients train together, as many as suit the model if not given; `workers` threads, one for each core if not
    given, train blocks by `engine`. The sum is taken in the order of the clients. Memory grows with the workers, not
    with the cohort. One upload of a round is packed, and its bytes count for every client, since all uploads of a round
    have one size; a test holds the counts equal to Loopback's. `lost(round, client)` tells which clients drop out
    before they upload.
    """

    block: int | None = None
    lost: Callable[[int, int], bool] | None = None
    workers: int | None = None
    engine: Engine = Engine()

    def __post_init__(self) -> None:
        if self.block is not None and self.block < 1:
            raise Mistake(f"block={self.block} must be at least 1: how many clients train together")
        workers.count(self.workers)

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, books: Books
    ) -> Total:
        """The total of the cohort's uploads."""
        traffic, lost = books.traffic, self.lost
        # With seats the plans differ by a number of fixed size: one of them is packed for all.
        seat = None if plan.seats is None else np.zeros(1, np.int64)
        order = wire.pack_plan(replace(plan, seats=seat), scheme.coordinates, scheme.down.form)
        if not scheme.apart:
            traffic.down(cohort, order)
        asked = scheme.asked(plan, order.data, cohort, secret, traffic.summed)
        if lost is not None:
            kept = [place for place, client in enumerate(cohort.tolist()) if not lost(plan.round, client)]
            cohort, plan = cohort[kept], plan.to(kept)
        length = self.block or block(task, plan.live)
        blocks = [slice(first, first + length) for first in range(0, len(cohort), length)]

        def train(block: slice) -> Uploads:
            members, own = cohort[block], plan.to(block)
            rows = scheme.client(task, own, members, secret, self.engine, books.memory)
            return Uploads(rows, task.split.sizes_of(members), own.seats, members)

        def uploads() -> Iterator[Uploads]:
            # A device other than the CPU is busy enough with one thread.
            number = self.workers if self.engine.device == "cpu" else 1
            for place, found in enumerate(workers.spread(train, blocks, number)):
                if place == 0 and not (scheme.apart or scheme.secure):
                    traffic.up(cohort, wire.pack_upload(found.rows[0], plan.round, order.digest, asked.form))
                yield found
                del found  # before the next ones are made

        return scheme.aggregator.combine(uploads(), asked)
