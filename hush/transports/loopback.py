"""One client at a time, through packed bytes in both directions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from hush import wire
from hush.errors import Aborted
from hush.rng import SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total
from hush.task import Task
from hush.traffic import Traffic
from hush.weights import flatten


@dataclass(frozen=True)
class Loopback:
    """What a network would carry, carried in this process.

    A client knows the plan from its bytes, the initial weights and, where it can derive it, the live set.

    `lost(round, client)` tells which clients drop out before they upload.
    """

    lost: Callable[[int, int], bool] | None = None

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, traffic: Traffic
    ) -> Total:
        """The total of the cohort's uploads."""
        order = wire.pack_plan(plan, scheme.coordinates)
        start = flatten(task.model)
        derived = plan.live if scheme.coordinates.derivable else None
        spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
        answers: dict[int, bytes] = {}
        for client in cohort:
            members = np.array([client])
            if not scheme.apart:
                traffic.down(members, order)
            if self.lost is not None and self.lost(plan.round, int(client)):
                continue
            received = wire.unpack_plan(order.data, start, derived, scheme.coordinates)
            row = scheme.client(task, received, members, secret)[0]
            message = wire.pack_upload(row, received.round, order.digest, spec.bits)
            if not scheme.apart:
                traffic.up(members, message)
            answers[int(client)] = message.data
        if len(answers) < plan.floor:
            raise Aborted(f"round {plan.round}: {len(answers)} clients answered and the noise relies on {plan.floor:g}")

        def uploads() -> Iterator[tuple[Tensor, Tensor]]:
            for client, data in answers.items():
                row = wire.unpack_upload(data, spec.size, plan.round, order.digest, spec.bits)
                yield row.unsqueeze(0), task.split.sizes_of(np.array([client]))

        return scheme.aggregator.combine(uploads(), spec.size)
