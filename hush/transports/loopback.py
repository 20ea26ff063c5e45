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
    of an upload on its way. An upload that is not exactly right is refused, and the round goes on with the others.
    """

    lost: Callable[[int, int], bool] | None = None
    line: Callable[[int, int, bytes], bytes] | None = None

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, books: Books
    ) -> Total:
        """The total of the cohort's uploads."""
        if scheme.secure and self.line is not None:
            raise Mistake("line is for uploads that travel one by one: the messages of a secure sum are signed")
        start = flatten(task.model)
        derived = plan.live if scheme.coordinates.derivable else None
        answers: list[Uploads] = []
        refused: list[str] = []
        form = scheme.down.form
        order = wire.pack_plan(plan, scheme.coordinates, form) if plan.seats is None else None
        facts = scheme.asked(plan, order.data if order else b"", cohort, secret, books.traffic.summed)
        for place, client in enumerate(cohort.tolist()):
            members = np.array([client])
            sent = order or wire.pack_plan(plan.to([place]), scheme.coordinates, form)
            if not scheme.apart:
                books.traffic.down(members, sent)
            if self.lost is not None and self.lost(plan.round, client):
                continue
            received = wire.unpack_plan(sent.data, start, derived, scheme.coordinates, scheme.seated, form)
            row = scheme.client(task, received, members, secret, memory=books.memory)[0]
            if scheme.secure:
                answers.append(Uploads(row.unsqueeze(0), task.split.sizes_of(members), None, members))
                continue
            message = wire.pack_upload(row, received.round, sent.digest, facts.form)
            if not scheme.apart:
                books.traffic.up(members, message)
            data = message.data if self.line is None else self.line(plan.round, client, message.data)
            try:
                row = wire.unpack_upload(data, facts.size, plan.round, sent.digest, facts.form)
            except Mistake as mistake:
                books.memory.forget(members)  # as if it had not answered
                refused.append(f"client {client}: {mistake}")
                continue
            answers.append(Uploads(row.unsqueeze(0), task.split.sizes_of(members), plan.to([place]).seats))
        try:
            total = scheme.aggregator.combine(answers, facts)
            return replace(total, refused=(*refused, *total.refused))
        except Aborted as aborted:
            aborted.refused = (*refused, *aborted.refused)
            raise
