"""The server's side of a round over a channel: plans down, phases, what the aggregator makes of the answers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from hush.core.clients import Opening, Order
from hush.core.packing import FLOATS
from hush.core.protocols import Roster
from hush.core.spec import Total, Uploads
from hush.core.task import Registered
from hush.errors import Aborted, Refused
from hush.federation import messages
from hush.federation.channel import Channel
from hush.federation.messages import Message


@dataclass(frozen=True)
class Remote:
    """Clients that are reached over a channel alone. `keys` are their public keys, where sums are secure.

    `run` and `mark` are those of the charter. A client that refuses, or whose answer is refused, counts as one that has
    dropped out. `timeout` is the most that a phase takes, in seconds.
    """

    enrolled: Registered
    channel: Channel
    run: str
    mark: bytes
    keys: Mapping[int, bytes]
    timeout: float | None = None
    dropped: Callable[[int], None] | None = None  # hears of each client whose answer was not taken

    def begin(self, terms: Opening) -> None:
        """The charter was agreed to before."""

    def collect(self, order: Order) -> Total:
        """The total of the uploads of whoever answers in time."""
        scheme, plan, cohort = order.scheme, order.plan, order.cohort.tolist()
        sent = self._plans(order)
        spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
        digests = {client: message.digest for client, message in sent.items()}

        def unpack(client: int, data: bytes) -> Uploads:
            row, records = messages.unpack_upload(
                data, spec.size, plan.round, digests[client], spec.form, spec.weighted
            )
            registered = int(self.enrolled.sizes[client])
            if spec.weighted and records > registered:
                raise Refused(f"it says that it has {records} records, and registered {registered}: refused")
            # Far beyond what noise does: one client must not carry the weights off to where they are not finite.
            share = (spec.noise or 0.0) / math.sqrt(max(plan.floor, 1.0))
            if spec.form == FLOATS and float(row.double().norm()) > spec.l2 * (1 + 10 * share * math.sqrt(spec.size)):
                raise Refused(f"its norm is far beyond the bound of {spec.l2:g}: refused")
            seats = None if plan.seats is None else plan.seats[[cohort.index(client)]]
            return Uploads(row.unsqueeze(0), torch.tensor([records]), seats, order.cohort[[cohort.index(client)]])

        people = tuple((client, self.keys[client]) for client in cohort) if scheme.secure else ()
        first = sent[cohort[0]].data if cohort and scheme.secure else b""
        asked = scheme.asked(plan, first, order.cohort, order.secret, order.books.traffic.summed, self.run)
        asked = replace(asked, registered=self.enrolled.sizes)
        round = scheme.aggregator.open(asked, people, unpack)
        waiting = {client: self._with_roster(message, people).data for client, message in sent.items()}
        refused: list[str] = []
        try:
            while waiting:
                answers, declined = self.channel.phase(round.phase, waiting, self.timeout)
                for client in waiting:
                    try:
                        if client in declined:
                            raise Refused(declined[client])
                        if client in answers:
                            self._count(order, client, answers[client], spec.form.length(spec.size))
                            round.take(client, answers[client])
                    except Refused as why:
                        refused.append(f"client {client}: {why}")
                        if self.dropped is not None:
                            self.dropped(client)
                waiting = round.advance()
            total = round.total()
        except Aborted as why:
            why.refused = (*refused, *why.refused)
            raise
        return replace(total, refused=(*refused, *total.refused))

    def _plans(self, order: Order) -> dict[int, Message]:
        """The plan as each client of the cohort gets it, counted with what stands around it."""
        scheme, plan = order.scheme, order.plan
        form, cohort = scheme.downlink.form, order.cohort.tolist()
        same = messages.pack_plan(plan, scheme.coordinates, form, self.mark) if plan.seats is None else None
        sent = {
            client: same or messages.pack_plan(plan.to([place]), scheme.coordinates, form, self.mark)
            for place, client in enumerate(cohort)
        }
        people = tuple((client, self.keys[client]) for client in cohort) if scheme.secure else ()
        for place, message in enumerate(sent.values()):
            if not scheme.baseline:
                order.books.traffic.down(order.cohort[[place]], self._with_roster(message, people))
        return sent

    def _with_roster(self, plan: Message, people: Roster) -> Message:
        return messages.with_roster(plan, people) if people else plan

    def _count(self, order: Order, client: int, answer: bytes, payload: int) -> None:
        """The bytes of a plain upload; those of a secure sum are counted by its phases."""
        if order.scheme.secure or order.scheme.baseline:
            return
        place = order.cohort.tolist().index(client)
        message = Message(answer, max(0, len(answer) - payload))
        order.books.traffic.up(order.cohort[[place]], message)
