"""Clients in blocks, on the threads of this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from hush.core.clients import Clients, Opening, Order
from hush.core.engine import Engine
from hush.core.rounds import Accountant, Report, loop
from hush.core.scheme import Scheme
from hush.core.spec import Total, Uploads
from hush.core.state import State
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation import messages
from hush.models import workers
from hush.parts.aggregators.secure import run_name
from hush.parts.trainers.cohort import together
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Simulated:
    """Runs the client code on blocks of clients, several at a time.

    `block` clients train together, as many as suit the model if not given; `workers` threads, one for each core if not
    given, train blocks by `engine`. The sum is taken in the order of the clients. Memory grows with the workers, not
    with the cohort. One upload of a round is packed, and its bytes count for every client, since all uploads of a round
    have one size; a test holds the counts equal to Loopback's. `lost(round, client)` says which clients drop out
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

    def of(self, task: Task) -> "Blocks":
        """The clients of a task."""
        return Blocks(task, self)


@dataclass(frozen=True)
class Blocks:
    """The clients of a task, in blocks."""

    enrolled: Task
    how: Simulated

    def begin(self, terms: Opening) -> int:
        """They need nothing, and repeat a round by the same draws."""
        return 0

    def collect(self, order: Order) -> Total:
        """The total of the cohort's uploads."""
        scheme, plan, cohort, secret, books = order.scheme, order.plan, order.cohort, order.secret, order.books
        task, how, traffic, lost = self.enrolled, self.how, books.traffic, self.how.lost
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
        length = how.block or together(task.problem, task.train, plan.live)
        blocks = [slice(first, first + length) for first in range(0, len(cohort), length)]

        def train(block: slice) -> Uploads:
            members, own = cohort[block], plan.to(block)
            mine = task.block(members, secret, books.memory)
            return Uploads(scheme.client(mine, own, how.engine), mine.sizes, own.seats, members)

        def uploads() -> Iterator[Uploads]:
            # A device other than the CPU is busy enough with one thread.
            number = how.workers if how.engine.device == "cpu" else 1
            for place, found in enumerate(workers.spread(train, blocks, number)):
                if place == 0 and not (scheme.baseline or scheme.secure):
                    records = 1 if asked.weighted else None
                    named = messages.reference(packed.digest, int(cohort[0]))
                    upload = messages.pack_upload(found.rows[0], plan.round, named, asked.form, records)
                    traffic.up(cohort, upload)
                yield found
                del found  # before the next ones are made

        return scheme.aggregator.combine(uploads(), asked)


class Transport(Protocol):
    """Where the clients of a task are: in blocks here, in sessions here, on a cluster."""

    def of(self, task: Task) -> Clients:
        """The clients of a task."""
        ...


def rounds(
    scheme: Scheme,
    task: Task,
    *,
    rounds: int,
    seed: int = 0,
    delta: float = 1e-5,
    accountant: Accountant = "pld",
    transport: Transport | None = None,
    ledger: Ledger | None = None,
    secret: SecretSeed | None = None,
    state: State | None = None,
    replay: bool = False,
) -> Iterator[Report]:
    """Train on this machine, and report after every round: see hush.core.rounds.loop.

    `transport`: Simulated() if not given, or Loopback() for real messages between real sessions.
    """
    clients = (Simulated() if transport is None else transport).of(task)
    return loop(
        scheme,
        clients,
        rounds=rounds,
        seed=seed,
        delta=delta,
        accountant=accountant,
        ledger=ledger,
        secret=secret,
        state=state,
        replay=replay,
    )
