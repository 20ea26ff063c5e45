"""Clients in blocks, in this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hush import wire
from hush.errors import Aborted, Mistake
from hush.rng import SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total
from hush.task import Task
from hush.traffic import Traffic

# Numbers per block, at most: where training a block together stops paying on a CPU.
BLOCK = 2**22


@dataclass(frozen=True)
class Local:
    """Runs the client code on blocks of clients. `block` is chosen by the model's size if not given.

    Uploads are not packed one by one: one of each block is, and its bytes count for every client of the
    block, since all uploads of a round have one size. A test holds the counts equal to Loopback's.
    `lost(round, client)` tells which clients drop out before they upload.
    """

    block: int | None = None
    lost: Callable[[int, int], bool] | None = None

    def __post_init__(self) -> None:
        if self.block is not None and self.block < 1:
            raise Mistake(f"block={self.block} must be at least 1: how many clients train together")

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, traffic: Traffic
    ) -> Total:
        """The total of the cohort's uploads."""
        order = wire.pack_plan(plan, scheme.coordinates)
        traffic.down(cohort, order)
        lost = self.lost
        if lost is not None:
            cohort = cohort[[not lost(plan.round, int(k)) for k in cohort]]
        size = scheme.specs(scheme.width(plan), plan.clip)[-1].size
        if len(cohort) < plan.floor:
            traffic.up(cohort, wire.pack_upload(torch.zeros(size), plan.round, order.digest))  # sent in vain
            raise Aborted(f"round {plan.round}: {len(cohort)} clients answered and the noise relies on {plan.floor:g}")
        block = self.block or max(1, min(256, BLOCK // plan.weights.numel()))

        def uploads() -> Iterator[tuple[Tensor, Tensor]]:
            for first in range(0, len(cohort), block):
                members = cohort[first : first + block]
                rows = scheme.client(task, plan, members, secret)
                traffic.up(members, wire.pack_upload(rows[0], plan.round, order.digest))
                yield rows, task.split.sizes[torch.from_numpy(members)]

        return scheme.aggregator.combine(uploads(), size)
