"""The one loop: a generator of round reports."""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn

from hush import weights as flat
from hush.coordinates import All
from hush.errors import Aborted, Mistake
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, views
from hush.rng import PublicSeed, SecretSeed
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total
from hush.task import Task
from hush.traffic import Bytes, Traffic
from hush.transports import Local, Transport

Accountant = Literal["moments", "rdp", "pld"]


@dataclass
class State:
    """All that a round leaves to the next. Random streams need none of it: they are named, not kept."""

    round: int
    weights: Tensor
    live: Tensor | None
    clip: float | None
    traffic: Traffic
    participation: Participation

    @classmethod
    def first(cls, task: Task) -> "State":
        """Before the first round: the model's own weights."""
        return cls(0, flat.flatten(task.model), None, None, Traffic(task.clients), Participation(task.clients))

    def copy(self) -> "State":
        """A state of its own: later rounds do not change it."""
        traffic = Traffic(self.traffic.clients, self.traffic.counts.copy())
        return replace(self, traffic=traffic, participation=Participation.of(self.participation.state()))


@dataclass(frozen=True)
class Report:
    """One finished round, and the state after it. `epsilon` is per adversary; no guarantee is "none"."""

    round: int
    cohort: int
    aborted: bool
    clip: float | None
    bytes: Bytes
    epsilon: dict[str, float | str]
    seconds: float
    state: State
    task: Task

    @property
    def model(self) -> nn.Module:
        """The task's model, a copy, with the weights of this round."""
        model = copy.deepcopy(self.task.model)
        flat.load(model, self.state.weights)
        return model


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
    """Train, and report after every round. Evaluation, checkpoints and stopping are the caller's.

    `seed` drives public draws and, unless `secret` is given, simulated secret ones. `state` is that of an
    earlier report to go on from. Each round's event is in the ledger before anything of it is released.
    With `replay` the ledger is that of this very run, and a round that a killed process had begun is paid
    for already: simulated secrets repeat it bit for bit, others do not and count again.
    """
    if rounds < 1:
        raise Mistake(f"rounds={rounds} must be at least 1")
    scheme.check(task)
    transport = Local() if transport is None else transport
    ledger = Ledger() if ledger is None else ledger
    secret = SecretSeed.simulated(seed) if secret is None else secret
    state = State.first(task) if state is None else state.copy()
    paid = {event.round for event in ledger.events if event.label == "update"}
    if scheme.private and not paid.issuperset(range(1, state.round + 1)):
        raise Mistake(f"the ledger does not hold the {state.round} rounds of this state: give the run's own ledger")
    replay = replay and secret.repeatable
    if not replay:
        state.participation.catch_up(ledger.events)
    loop = _Loop(scheme, task, PublicSeed(seed), secret, transport, ledger, replay)
    for number in range(state.round + 1, rounds + 1):
        began = time.perf_counter()
        if number == 1:
            loop.elect(state)
        cohort, aborted = loop.round(state, number)
        spent = views(ledger.events, state.participation, delta, accountant)
        yield Report(
            round=number,
            cohort=cohort,
            aborted=aborted,
            clip=state.clip,
            bytes=state.traffic.summary(),
            epsilon=spent,
            seconds=time.perf_counter() - began,
            state=state.copy(),
            task=task,
        )


@dataclass(frozen=True)
class _Loop:
    scheme: Scheme
    task: Task
    seed: PublicSeed
    secret: SecretSeed
    transport: Transport
    ledger: Ledger
    replay: bool

    def elect(self, state: State) -> None:
        """The vote on the coordinates, for a scheme that has one, and the set where it is fixed."""
        election = self.scheme.coordinates.election(self.task.layout.parameters)
        votes = None
        if election is not None:
            trainer, stages = election
            poll = replace(self.scheme, coordinates=All(), trainer=trainer, stages=stages)
            try:
                votes = self._gather(poll, state, 0, "vote")[0].body
            except Aborted as aborted:
                raise Mistake(f"the vote on the coordinates failed, {aborted}: take larger cohorts") from aborted
        if self.scheme.coordinates.fixed:
            state.live = self.scheme.coordinates.draw(self.task, self.seed, 0, votes)

    def round(self, state: State, number: int) -> tuple[int, bool]:
        """One round: how many took part, and whether it was aborted. An aborted round moves nothing."""
        if not self.scheme.coordinates.fixed:
            state.live = self.scheme.coordinates.draw(self.task, self.seed, number, None)
        try:
            total, plan = self._gather(self.scheme, state, number, "update")
        except Aborted:
            state.round = number
            return 0, True
        moved = self.scheme.move(plan, total)
        if not bool(moved.isfinite().all()):
            raise Mistake(
                f"round {number}: the model's weights are no longer finite; the run stops here and the last"
                " good checkpoint stays: lower the training rate or check the model and the data for NaN"
            )
        state.round, state.weights = number, moved
        state.clip = total.clip if total.clip is not None else state.clip
        return total.count, False

    def _gather(self, scheme: Scheme, state: State, number: int, label: str) -> tuple[Total, Plan]:
        sampling, population = scheme.sampling, self.task.clients
        cohort: Members = sampling.draw(population, self.secret, number)
        floor = round((1 - sampling.tolerance) * len(cohort), 9)  # 0.3 of 10 is 3, not a hair more
        plan = Plan(number, state.weights, state.live, sampling.cohort(population), floor, state.clip)
        event = scheme.event(plan, population, label)
        if event is not None:
            # Charged before anything leaves a client; an aborted round stays charged.
            self.ledger.record(event, self.replay)
            state.participation.add(event, cohort)
        else:
            state.participation.join(cohort)
        if len(cohort) < sampling.floor:
            raise Aborted(f"round {number}: a cohort of {len(cohort)} is below the floor of {sampling.floor}")
        total = self.transport.gather(scheme, self.task, plan, cohort, self.secret, state.traffic)
        return scheme.server(plan, total, self.secret), plan
