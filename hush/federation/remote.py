"""The server's side of a round over a channel: plans down, phases, what the aggregator makes of the answers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from hush.core.clients import Opening, Order
from hush.core.packing import FLOATS
from hush.core.protocols import ServerRound
from hush.core.spec import Total, Uploads
from hush.core.task import Registered
from hush.errors import Aborted, Mistake, Refused
from hush.federation import messages
from hush.federation.channel import Channel
from hush.federation.charter import mark_of
from hush.federation.claims import Claims
from hush.federation.messages import Message

MOST = 1e6  # of a number of an upload: weights of a model are far below
GUESSED = 2**64


@dataclass(frozen=True)
class Remote:
    """Clients that are reached over a channel alone. `keys` are their public keys, where sums are secure.

    `run` and `charter`: the run's name and the charter's digest. A client that refuses, or whose answer is refused,
    counts as one that has dropped out. `timeout` is the most that a phase takes, in seconds.
    """

    enrolled: Registered
    channel: Channel
    run: str
    charter: str
    keys: Mapping[int, bytes]
    timeout: float | None = None
    claims: Claims | None = None  # of the server: rounds whose plans have left, whatever became of them
    simulation: bool = False  # a rehearsal, whose draws repeat
    relay: Callable[..., ServerRound] | None = None  # opens a round with a second server
    dropped: Callable[[int], None] | None = None  # hears of each client whose answer was not taken
    taken: Callable[[int, tuple[int, ...]], None] | None = None  # hears whose uploads a round took

    def begin(self, terms: Opening) -> int | None:
        """The charter was agreed to before. Draws that others could repeat are refused: cohorts, the server's noise."""
        begun = None if self.claims is None else self.claims.last(self.run)
        source, secret = terms.scheme.source, terms.secret
        if self.simulation or not secret.repeatable:
            return begun
        if source is None or not source.correlated:
            raise Mistake("draws that repeat are for simulations: give secret=SecretSeed.system() to a server")
        if secret.value is not None and secret.value < GUESSED:
            raise Mistake("a secret seed below 2^64 may be guessed: take one of 128 bits from the operating system")
        return begun

    def collect(self, order: Order) -> Total:
        """The total of the uploads of whoever answers in time."""
        scheme, plan, cohort = order.scheme, order.plan, order.cohort.tolist()
        if self.claims is not None:
            try:
                self.claims.claim(self.run, self.charter, plan.round)
            except Refused as why:
                raise Mistake(
                    f"round {plan.round} was begun before by a server that was stopped: begin a new run"
                ) from why
        sent = self._plans(order)
        spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
        references = {client: messages.reference(message.digest, client) for client, message in sent.items()}

        def unpack(client: int, data: bytes) -> Uploads:
            row, records = messages.unpack_upload(
                data, spec.size, plan.round, references[client], spec.form, spec.weighted
            )
            registered = int(self.enrolled.sizes[client])
            if spec.weighted and records > registered:
                raise Refused(f"it says that it has {records} records, and registered {registered}: refused")
            # Far beyond what noise does: one client must not carry the weights off to where they are not finite.
            added = scheme.source is not None and scheme.source.shared
            share = (spec.noise or 0.0) / math.sqrt(max(plan.floor, 1.0)) if added else 1e-6
            if spec.form == FLOATS and float(row.double().norm()) > spec.l2 * (1 + 10 * share * math.sqrt(spec.size)):
                raise Refused(f"its norm is far beyond the bound of {spec.l2:g}: refused")
            if float(row.abs().max()) > MOST * records:
                raise Refused(f"it has numbers beyond {MOST:g}, which no update has: refused")
            seats = None if plan.seats is None else plan.seats[[cohort.index(client)]]
            return Uploads(row.unsqueeze(0), torch.tensor([records]), seats, order.cohort[[cohort.index(client)]])

        people = tuple((client, self.keys[client]) for client in cohort) if scheme.secure else ()
        first = sent[cohort[0]].data if cohort and scheme.secure else b""
        asked = scheme.asked(plan, first, order.cohort, order.secret, order.books.traffic.summed, self.run)
        announced = (*asked.announced, self.charter.encode()) if scheme.secure else ()
        asked = replace(asked, registered=self.enrolled.sizes, announced=announced, relay=self.relay)
        round = scheme.aggregator.open(asked, people, unpack)
        waiting = {client: message.data for client, message in self._with_cohort(sent, scheme.secure).items()}
        refused: list[str] = []
        answered = dict.fromkeys(cohort, False)
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
                        answered[client] = client in answers
                    except Refused as why:
                        answered[client] = False
                        refused.append(f"client {client}: {why}")
                        if self.dropped is not None:
                            self.dropped(client)
                waiting = round.advance()
            total = round.total()
            if self.taken is not None:
                present = tuple(client for client, there in answered.items() if there)
                self.taken(plan.round, present if total.survivors is None else tuple(total.survivors))
        except Aborted as why:
            why.refused = (*refused, *why.refused)
            raise
        return replace(total, refused=(*refused, *total.refused))

    def _plans(self, order: Order) -> dict[int, Message]:
        """The plan as each client of the cohort gets it, counted with what stands around it."""
        scheme, plan = order.scheme, order.plan
        form, cohort, mark = scheme.downlink.form, order.cohort.tolist(), mark_of(self.charter)
        same = messages.pack_plan(plan, scheme.coordinates, form, mark) if plan.seats is None else None
        sent = {
            client: same or messages.pack_plan(plan.to([place]), scheme.coordinates, form, mark)
            for place, client in enumerate(cohort)
        }
        for place, message in enumerate(self._with_cohort(sent, scheme.secure).values()):
            if not scheme.baseline:
                order.books.traffic.down(order.cohort[[place]], message)
        return sent

    def _with_cohort(self, plans: dict[int, Message], secure: bool) -> dict[int, Message]:
        """The cohort before each plan of a secure sum; one that is all clients' is held once, however many they are."""
        different = {id(plan): plan for plan in plans.values()} if secure else {}
        made = {which: messages.with_cohort(plan, plans) for which, plan in different.items()}
        return {client: made.get(id(plan), plan) for client, plan in plans.items()}

    def _count(self, order: Order, client: int, answer: bytes, payload: int) -> None:
        """The bytes of a plain upload; those of a secure sum are counted by its phases."""
        if order.scheme.secure or order.scheme.baseline:
            return
        place = order.cohort.tolist().index(client)
        message = Message(answer, max(0, len(answer) - payload))
        order.books.traffic.up(order.cohort[[place]], message)
