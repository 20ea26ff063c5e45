"""One client at a time, through packed bytes in both directions."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hush import wire
from hush.errors import Aborted, Mistake
from hush.rng import SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total, Uploads
from hush.state import Books
from hush.task import Task
from hush.weights import flatten


@dataclass(frozen=True)
class Loopback:
    """What a network would carry, carried in this process.

    A client knows the plan from its bytes, the initial weights and, where it can derive it, the live set.

    `lost(round, client)` tells which clients drop out before they upload. `line(round, client, data)` is what becomes
    of an upload on its way. An upload that is not exactly right is refused, and the round goes on with the others if
    they are enough.
    """

    lost: Callable[[int, int], bool] | None = None
    line: Callable[[int, int, bytes], bytes] | None = None

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, books: Books
    ) -> Total:
        """The total of the cohort's uploads."""
        start = flatten(task.model)
        derived = plan.live if scheme.coordinates.derivable else None
        spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
        answers: list[Uploads] = []
        refused: list[str] = []
        order = wire.pack_plan(plan, scheme.coordinates) if plan.seats is None else None
        for place, client in enumerate(cohort.tolist()):
            members = np.array([client])
            asked = order or wire.pack_plan(plan.to([place]), scheme.coordinates)
            if not scheme.apart:
                books.traffic.down(members, asked)
            if self.lost is not None and self.lost(plan.round, client):
                continue
            received = wire.unpack_plan(asked.data, start, derived, scheme.coordinates, plan.seats is not None)
            row = scheme.client(task, received, members, secret, memory=books.memory)[0]
            message = wire.pack_upload(row, received.round, asked.digest, spec.form)
            if not scheme.apart:
                books.traffic.up(members, message)
            data = message.data if self.line is None else self.line(plan.round, client, message.data)
            try:
                row = wire.unpack_upload(data, spec.size, plan.round, asked.digest, spec.form)
            except Mistake as mistake:
                books.memory.forget(members)  # as if it had not answered
                refused.append(f"client {client}: {mistake}")
                continue
            answers.append(Uploads(row.unsqueeze(0), task.split.sizes_of(members), plan.to([place]).seats))
        try:
            if len(answers) < plan.floor:
                raise Aborted(f"round {plan.round}: {len(answers)} clients answered and it relies on {plan.floor:g}")
            return replace(scheme.aggregator.combine(answers, spec.size), refused=tuple(refused))
        except Aborted as aborted:
            aborted.refused = tuple(refused)
            raise
