"""Clients in blocks, on the threads of this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hush import wire, workers
from hush.errors import Aborted, Mistake
from hush.rng import SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total
from hush.task import Task
from hush.traffic import Traffic
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
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, traffic: Traffic
    ) -> Total:
        """The total of the cohort's uploads."""
        order = wire.pack_plan(plan, scheme.coordinates)
        if not scheme.apart:
            traffic.down(cohort, order)
        lost = self.lost
        if lost is not None:
            cohort = cohort[[not lost(plan.round, int(k)) for k in cohort]]
        spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
        if len(cohort) < plan.floor:
            traffic.up(
                cohort, wire.pack_upload(torch.ones(spec.size), plan.round, order.digest, spec.bits)
            )  # sent in vain
            raise Aborted(f"round {plan.round}: {len(cohort)} clients answered and the noise relies on {plan.floor:g}")
        length = self.block or block(task, plan.live)
        blocks = [cohort[first : first + length] for first in range(0, len(cohort), length)]

        def train(members: Members) -> tuple[Tensor, Tensor]:
            return scheme.client(task, plan, members, secret, self.engine), task.split.sizes_of(members)

        def uploads() -> Iterator[tuple[Tensor, Tensor]]:
            # A device other than the CPU is busy enough with one thread.
            number = self.workers if self.engine.device == "cpu" else 1
            for place, (rows, sizes) in enumerate(workers.spread(train, blocks, number)):
                if place == 0 and not scheme.apart:
                    traffic.up(cohort, wire.pack_upload(rows[0], plan.round, order.digest, spec.bits))
                yield rows, sizes
                del rows  # before the next ones are made

        return scheme.aggregator.combine(uploads(), spec.size)
