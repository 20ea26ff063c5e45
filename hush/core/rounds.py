"""The one loop: a generator of round reports."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from torch import Tensor, nn

from hush.core.clients import Clients, Opening, Order
from hush.core.plans import planned
from hush.core.protocols import named
from hush.core.scheme import Scheme
from hush.core.spec import Length, Members, Plan, Total
from hush.core.state import State
from hush.core.task import Registered
from hush.core.traffic import Bytes
from hush.errors import Aborted, Mistake, integer
from hush.models import fit
from hush.models import weights as flat
from hush.privacy.accountants import check
from hush.privacy.events import Event, EventKind, kind, kinds
from hush.privacy.ledger import Ledger
from hush.privacy.views import Spent
from hush.random.seeds import PublicSeed, SecretSeed

Accountant = Literal["moments", "rdp", "pld"]
_UNDECLARED = (
    "the guarantee of this secure sum holds only if no client drops out: declare a dropout rate"
    " (sampling.dropout) and start again"
)
Went = tuple[State, int, str | None, tuple[str, ...], Length | None]
Payment = tuple[Event | None, Members]  # what a cohort pays for; None where there is no guarantee


@dataclass(frozen=True)
class Report:
    """One finished round, and the state after it (see State on how long it holds).

    `reason` says why a round was aborted, `refused`, in a sentence each, which uploads the server did not take.
    `length`: of the mean that it released, where uploads are bounded.
    """

    round: int
    cohort: int
    aborted: bool
    clip: float | None
    bytes: Bytes
    seconds: float
    state: State
    task: Registered
    spent: Spent
    delta: float
    accountant: Accountant
    reason: str | None = None
    refused: tuple[str, ...] = ()
    standalone: bool = False
    length: Length | None = None

    @cached_property
    def epsilon(self) -> dict[str, float | str]:
        """Epsilon per adversary up to this round, "none" without a guarantee; computed when first read."""
        return self.spent.epsilon(self.delta, self.accountant)

    @property
    def models(self) -> Iterator[Tensor]:
        """The weights that this round releases: the shared ones, or each client's own where each is alone."""
        if not self.standalone:
            yield self.state.released
            return
        size = self.state.weights.numel()
        for client in range(self.task.clients):
            yield self.state.weights + self.state.memory.rows(np.array([client]), size)[0]

    @property
    def model(self) -> nn.Module:
        """The task's model, a copy, with the weights of this round."""
        if self.standalone:
            raise Mistake("each client trains alone and has a model of its own: take the weights from report.models")
        return flat.loaded(self.task.problem.model, self.state.released)


def loop(
    scheme: Scheme,
    clients: Clients,
    *,
    rounds: int,
    seed: int = 0,
    delta: float = 1e-5,
    accountant: Accountant = "pld",
    ledger: Ledger | None = None,
    secret: SecretSeed | None = None,
    state: State | None = None,
    replay: bool = False,
) -> Iterator[Report]:
    """Train with these clients, and report after every round. Evaluation, checkpoints and stopping are the caller's.

    `seed` drives public draws and, unless `secret` is given, simulated secret ones. `state` is that of an
    earlier report to go on from. What cannot be trained or judged is refused before the ledger is touched. Each round's
    event is in the ledger before anything of it is released. With `replay` the ledger is that of this very run, and a
    round that a killed process had begun is paid for already: simulated secrets repeat it bit for bit where the same
    kernels compute (elsewhere it would be another release under the same noise), others do not and count again. The
    clients must be simulated as they were: one draw for a sum is another than those of each client.
    """
    rounds = integer("rounds", rounds)
    task = clients.enrolled
    fit.check(task.problem, task.parts)
    scheme.check(task)
    check(delta, accountant)
    ledger = Ledger() if ledger is None else ledger
    secret = SecretSeed.simulated(seed) if secret is None else secret
    state = State.first(task) if state is None else state.copy()
    probabilities = scheme.probabilities(task)
    if probabilities is not None:
        state.participation.probabilities = probabilities
    events = ledger.events
    paid = {event.round for event in events if event.label == "update"}
    short = state.participation.charged > len(events) or not paid.issuperset(range(1, state.round + 1))
    if scheme.private and short:
        raise Mistake(f"the ledger does not hold the {state.round} rounds of this state: give the run's own ledger")
    if scheme.private and any(event.sampling != scheme.sampling.kind for event in events):
        raise Mistake(f"sampling={scheme.sampling.kind} is not that of the ledger's events: give a ledger of its own")
    replay = replay and secret.repeatable
    if scheme.source is not None and scheme.source.correlated:
        noise = named(scheme.source)
        if not secret.repeatable:
            raise Mistake(f"{noise} draws earlier noise again: give a secret seed that repeats")
        if not replay and len(events) > state.participation.charged:
            raise Mistake(f"{noise} hides no round that is released twice: begin anew, or give replay=True")
        _check_turns(scheme, task, secret, state)
    begun = clients.begin(Opening(scheme, seed, secret, rounds, delta))
    if not replay:
        state.participation.catch_up([event for event in events if begun is None or event.round <= begun])
    # A ledger ahead of the state, after a kill, is reported as its rounds are repeated.
    counts = kinds(events[: state.participation.charged])
    unasked = events if begun is not None else ()  # what an earlier process paid for and did not ask for counts once
    turn = _Loop(scheme, clients, PublicSeed(seed), secret, ledger, replay, counts, unasked)
    for number in range(state.round + 1, rounds + 1):
        began = time.perf_counter()
        try:
            went = turn.skip if begun is not None and number <= begun else turn.round
            state, cohort, reason, refused, length = went(state, number)
        except BaseException:
            state.books.discard()  # the state stays as it was, and may be resumed from
            raise
        yield Report(
            round=number,
            cohort=cohort,
            aborted=reason is not None,
            clip=state.clip,
            bytes=state.traffic.summary(),
            seconds=time.perf_counter() - began,
            state=state,
            task=task,
            spent=Spent(tuple(counts.items()), state.participation.extremes()),
            delta=delta,
            accountant=accountant,
            reason=reason,
            refused=refused,
            standalone=scheme.standalone,
            length=length,
        )


def _check_turns(scheme: Scheme, task: Registered, secret: SecretSeed, state: State) -> None:
    """Refuse to go on with other turns than the state's rounds had."""
    turns = np.zeros(task.clients, np.int64)
    for number in range(1, state.round + 1):
        turns[scheme.sampling.draw(task.clients, secret, number)] += 1
    if not np.array_equal(turns, state.participation.rounds):
        raise Mistake(
            f"{named(scheme.source)} counts on the turns of the rounds before: go on with the sampling they had"
        )


@dataclass(frozen=True)
class _Loop:
    scheme: Scheme
    clients: Clients
    seed: PublicSeed
    secret: SecretSeed
    ledger: Ledger
    replay: bool
    counts: Counter[EventKind]  # of the events that the books hold
    unasked: tuple[Event, ...] = ()

    @property
    def task(self) -> Registered:
        """What is public of the clients."""
        return self.clients.enrolled

    def round(self, state: State, number: int) -> Went:
        """One round: the state after it, how many took part, why it was aborted if it was, and what was refused.

        An aborted round moves nothing. The books are written last: a round that fails leaves them alone.
        """
        charges: list[Payment] = []
        if number == 1:
            state = self._elect(state, charges)
        state = self._turn(state, number)
        pool = self.scheme.coordinates.pool(self.task.problem, self.seed)
        got, downlink_error = self.scheme.send(number, state.weights, state.live, state.downlink_error, pool)
        try:
            total, plan = self._gather(self.scheme, replace(state, weights=got), number, "update", charges)
        except Aborted as aborted:
            state.memory.discard()
            average = self.scheme.averaged(state.average, state.weights, number, state.live)
            state = replace(state, average=average)
            return self._close(state, number, charges), 0, str(aborted), aborted.refused, None
        moved, optimizer = self.scheme.move(state.weights, plan, total, state.optimizer)
        if not bool(moved.isfinite().all()):
            raise Mistake(
                f"round {number}: the model's weights are no longer finite; the run stops here, with its last"
                " checkpoint: lower the training rate or check the model and the data for NaN"
            )
        clip = total.clip if total.clip is not None else state.clip
        average = self.scheme.averaged(state.average, moved, number, state.live)
        state = replace(
            state, weights=moved, clip=clip, optimizer=optimizer, average=average, downlink_error=downlink_error
        )
        return self._close(state, number, charges), total.count, None, total.refused, total.length

    def skip(self, state: State, number: int) -> Went:
        """A round that an earlier process began and did not finish: nothing of it is known, and it stays charged."""
        if number == 1:
            if self.scheme.poll(self.task.layout) is not None:
                raise Mistake("the server stopped while clients voted on the coordinates: begin a new run")
            state = self._elect(state, [])
        state = self._turn(state, number)
        state = replace(state, average=self.scheme.averaged(state.average, state.weights, number, state.live))
        return self._close(state, number, []), 0, f"round {number}: the server was stopped in it", (), None

    def _turn(self, state: State, number: int) -> State:
        """The state with the round's own coordinates, where they are not fixed."""
        found = self.scheme.coordinates
        return state if found.fixed else replace(state, live=found.draw(self.task.problem, self.seed, number, None))

    def _elect(self, state: State, charges: list[Payment]) -> State:
        """The vote on the coordinates, for a scheme that has one, and the set where it is fixed."""
        poll, votes = self.scheme.poll(self.task.layout), None
        if poll is not None:
            try:
                votes = self._gather(poll, state, 0, "vote", charges)[0].body
            except Aborted as aborted:
                raise Mistake(f"the vote on the coordinates failed, {aborted}: take larger cohorts") from aborted
        found = self.scheme.coordinates
        return replace(state, live=found.draw(self.task.problem, self.seed, 0, votes)) if found.fixed else state

    def _gather(
        self, scheme: Scheme, state: State, number: int, label: str, charges: list[Payment]
    ) -> tuple[Total, Plan]:
        sampling, population = scheme.sampling, self.task.clients
        cohort: Members = sampling.draw(population, self.secret, number)
        problem, mean = self.task.problem, sampling.cohort(population)
        plan = planned(
            scheme, problem, self.seed, number, state.weights, state.live, drawn=len(cohort), mean=mean, clip=state.clip
        )
        event = scheme.event(plan, self.task, label)
        if event is not None:
            # On disk before anything leaves a client; an aborted round stays charged.
            self.ledger.record(event, self.replay or event in self.unasked)
        charges.append((event, cohort))
        least = max(sampling.floor, scheme.specs(scheme.width(plan), plan.clip)[-1].least)
        if len(cohort) < least:
            raise Aborted(f"round {number}: a cohort of {len(cohort)} is below the floor of {least}")
        # An abort is seen by everybody. That of a secure sum is accounted for by the dropout that was declared.
        reliable = scheme.secure and scheme.level == "client" and sampling.kind != "once" and not sampling.dropout
        try:
            total = self.clients.collect(Order(scheme, plan, cohort, self.secret, state.books))
        except Aborted as aborted:
            if reliable:
                raise Mistake(f"{aborted}; {_UNDECLARED}") from aborted
            raise
        if reliable and total.count < len(cohort):
            raise Mistake(f"round {number}: {len(cohort) - total.count} of {len(cohort)} dropped out; {_UNDECLARED}")
        if total.count != plan.floor:  # what was planned with
            charges[-1] = scheme.event(plan, self.task, label, total.count), cohort
        try:
            return scheme.server(plan, total, self.secret), plan
        except Aborted as aborted:
            aborted.refused = total.refused
            raise

    def _close(self, state: State, number: int, charges: list[Payment]) -> State:
        """The state after the round, its bytes and participations in the books."""
        books = state.books
        books.round = -1  # nobody's, should this be interrupted half-way
        for event, cohort in charges:
            if event is not None:
                books.participation.add(event, cohort)
                self.counts[kind(event)] += 1
            else:
                books.participation.join(cohort)
        books.settle()
        books.round = number
        return replace(state, round=number)
