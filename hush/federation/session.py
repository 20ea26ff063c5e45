"""One client of a federation: its own rows, draws, memory, ledger and policy, and nothing of anybody else's."""

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Lock, Thread

import numpy as np
import torch
from torch import Tensor

from hush.core.engine import Engine
from hush.core.memory import Kept, Memory
from hush.core.protocols import ClientRound, Coordinates, Roster
from hush.core.scheme import Scheme
from hush.core.spec import Asked, Plan
from hush.core.task import Block, Enrolled, Population, Problem
from hush.errors import Aborted, Mistake, Refused
from hush.federation import messages
from hush.federation.charter import Charter, roster_digest
from hush.federation.claims import Claims
from hush.federation.notebook import Notebook
from hush.federation.policy import Policy, largest, smallest
from hush.models.metrics import evaluate_loss
from hush.models.weights import flatten
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, least, views
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed
from hush.secure.keys import Identity
from hush.secure.messages import DOWN
from hush.secure.sealed import introduced
from hush.secure.turns import alone


class ClientSession:
    """Answers one server's messages, phase by phase, round by round.

    A plan is unpacked, held against the charter and the policy, claimed and charged to the client's own ledger, in this
    order, before anything is trained. `memory` is what the client keeps between rounds; who holds the session settles
    or discards it, when it is known whether the upload was taken. With a `notebook` it is kept on disk, and the server
    says with the next plan whether it was. `ahead`: train on a thread from the plan on, while the phases of a secure
    sum that need no numbers are answered. What a server sends wrongly is Refused.

    The name of its draws is the number that it is registered under. Where it is not a `simulation`, its draws are the
    operating system's, and claims and ledger are on disk: another process of the same client knows what it answered.
    """

    def __init__(
        self,
        charter: Charter,
        scheme: Scheme,
        problem: Problem,
        own: Population,
        draws: Draws,
        *,
        identity: Identity | None = None,
        roster: Roster = (),
        ledger: Ledger | None = None,
        claims: Claims | None = None,
        policy: Policy | None = None,
        engine: Engine = Engine(),
        notebook: Notebook | None = None,
        ahead: bool = False,
        simulation: bool = False,
    ) -> None:
        if len(own) != 1 or len(draws) != 1:
            raise Mistake(f"a session is of one client, and not of {len(own)}: give it its own rows and draws alone")
        ledger, claims = ledger or Ledger(), claims or Claims()
        if not simulation:
            _deployed(charter, scheme, draws, ledger, claims)
        charter.check(problem)
        if charter.scheme != scheme.to_json():
            raise Refused("the charter's scheme is not the one that this client was given")
        policy = Policy() if policy is None else policy
        policy.agree(charter, scheme)
        if scheme.secure and (roster_digest(roster) != charter.roster or len(roster) != charter.population):
            raise Refused("the roster is not the charter's: who else is registered decides what a secure sum hides")
        people = dict(roster)
        if len(people) != len(roster):
            raise Refused("the roster has a client's number twice: which key is that client's is not said")
        size = int(own.split.sizes[0])
        if scheme.level == "record" and size < charter.records:
            raise Refused(f"the charter counts on {charter.records} records at least, and this client has {size}")
        self._enrolled = Enrolled(problem, torch.tensor([size]), own.data, charter.population)
        for part in filter(None, (scheme, scheme.poll(problem.layout))):
            try:
                part.check(self._enrolled)
            except Mistake as why:
                raise Refused(f"the charter's scheme is refused: {why}") from why
        _try(problem, own)
        self._lock, self._people = Lock(), people
        self.charter, self.policy, self.memory, self.ledger = charter, policy, Memory(), ledger
        self._scheme, self._problem, self._own, self._draws = scheme, problem, own, draws
        self._identity, self._engine, self._claims = identity, engine, claims
        self._notebook, self._ahead, self._turning = notebook, ahead, Lock()
        self._second = second_of(charter)
        self._start = flatten(problem.model)
        for part in filter(None, (scheme, scheme.poll(problem.layout))):  # a vote has noise of its own
            self.policy.weigh(smallest_event(part, self._enrolled))
        self._live: dict[tuple[Coordinates, int], Tensor | None] = {}  # the set that was derived last
        self._round: ClientRound | None = None
        self._numbers: Callable[[], Tensor] | None = None

    @alone
    def answer(self, data: bytes, taken: int | None = None) -> bytes:
        """What this client says to a message; Refused where it does not take part. One at a time, from any thread.

        taken: the last round of which the server has taken its upload, where it says so.
        """
        try:
            return self._go_on(data) if data[: len(DOWN)] == DOWN else self._begin(data, taken)
        except (Mistake, Aborted, ArithmeticError) as why:  # numbers of a plan that no arithmetic takes
            raise Refused(str(why)) from why

    def spent(self, *more: Event) -> dict[str, float | str]:
        """Epsilon by view of all that its ledger holds, of every federation, and of these events, at its own delta.

        Against the server of a plain sum a round counts with a single share: nobody can show that others answered.
        """
        events, joined = (*self.ledger.events, *more), Participation(1)
        joined.catch_up(events)
        return views(events, joined, self.policy.delta, "pld")

    def _begin(self, data: bytes, taken: int | None) -> bytes:
        """The first message of a round: the plan, and of a secure sum its cohort."""
        roster: Roster = ()
        if self._scheme.secure:
            data, cohort = messages.split_cohort(data, largest(self._scheme, self.charter.population))
            if not self._people.keys() >= set(cohort):
                raise Refused("the cohort has clients that are not on the charter's roster: refused")
            roster = tuple((client, self._people[client]) for client in cohort)
        # Of a round whose upload nobody said was taken nothing stays, nor does one that still trains add to this one.
        with self._turning:
            self.memory.discard()
            if self._notebook is not None and taken is not None:
                self.memory = self._notebook.turn(taken)
            else:
                self.memory = self.memory.copy()
        number = messages.round_of(data)
        scheme = self._scheme_of(number)
        plan = self._plan(scheme, data, number)
        self.policy.check(self.charter, scheme, plan)
        if roster and not math.isclose(plan.floor, (1 - scheme.tolerance) * len(roster), abs_tol=1e-6):
            raise Refused(f"round {number} has noise shares for {plan.floor:g} of {len(roster)} clients: refused")
        least = smallest(scheme, self.charter.population)
        if scheme.secure and len(roster) < least:  # no cohort of an honest server, so that it shows nothing of one
            raise Refused(
                f"round {number} has a cohort of {len(roster)}, and the charter's have {least} at least: refused"
            )
        spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
        announced = (data, plan.weights.numpy().tobytes(), self.charter.digest.encode()) if scheme.secure else ()
        asked = Asked(spec.size, spec.form, number, plan.floor, announced, run=self.charter.run, weighted=spec.weighted)
        asked = replace(asked, second=self._second)
        memory = self.memory
        kept = Kept(memory, self._draws.names)
        block = Block(self._problem, self._own, np.zeros(1, np.int64), self._draws, kept)
        records = int(block.sizes[0])
        joined = scheme.aggregator.join(asked, roster, self._identity, records)
        self._charge(scheme, plan)  # when all else is right: a server cannot make a client pay for nothing

        def train() -> Tensor:
            row = scheme.client(block, plan, self._engine)[0]
            with self._turning:
                if self._notebook is not None and self.memory is memory:
                    self._notebook.note(memory, number)
            return row

        if joined is None:
            weight = records if spec.weighted else None
            reference = messages.reference(messages.digest(data), self._draws.names[0])
            return messages.pack_upload(train(), number, reference, spec.form, weight).data
        self._round, self._numbers = joined, _started(train) if self._ahead else train
        return joined.first(self._numbers)

    def _go_on(self, data: bytes) -> bytes:
        """A later phase of a secure sum."""
        if self._round is None or self._numbers is None:
            raise Refused("this client is in no round that has another phase: refused")
        return self._round.answer(data, self._numbers)

    def _scheme_of(self, number: int) -> Scheme:
        """The scheme of a round: the vote on the coordinates is round 0."""
        if number:
            return self._scheme
        poll = self._scheme.poll(self._problem.layout)
        if poll is None:
            raise Refused("round 0 is a vote on the coordinates, and the charter's scheme holds none: refused")
        return poll

    def _plan(self, scheme: Scheme, data: bytes, number: int) -> Plan:
        coordinates = scheme.coordinates
        place = coordinates, 0 if coordinates.fixed else number
        if coordinates.derivable and place not in self._live:
            live = coordinates.draw(self._problem, PublicSeed(self.charter.seed), place[1], None)
            self._live = {place: live}
        derived = self._live[place] if coordinates.derivable else None
        form, mark = scheme.downlink.form, self.charter.mark
        pool = coordinates.pool(self._problem, PublicSeed(self.charter.seed))
        plan = messages.unpack_plan(data, self._start, derived, coordinates, scheme.seated, form, mark, pool)
        named = None if coordinates.derivable else plan.live
        if named is not None and len(named) != coordinates.count(self._problem.layout):
            raise Refused(f"plan of round {number} names {len(named)} coordinates, not as many as agreed: refused")
        return replace(plan, spare=scheme.spare)

    def _charge(self, scheme: Scheme, plan: Plan) -> None:
        """Claim the round, and charge it, on disk; a round that would overspend the client's own budget is refused."""
        event = scheme.event(plan, self._enrolled, "update" if plan.round else "vote")
        with self.ledger.alone():
            if event is not None and self.policy.epsilon:
                spent = self.spent(event)
                for view, most in self.policy.epsilon.items():
                    found = spent.get(view, "none")
                    if isinstance(found, str) or found > most:  # by how much is not the server's business
                        raise Refused(f"round {plan.round} would bring epsilon of the {view} view past the budget")
            self._claims.claim(self.charter.run, self.charter.digest, plan.round)
            if event is not None:
                self.ledger.record(event)


def second_of(charter: Charter) -> bytes:
    """The sealing key of the charter's second server, if it has one: another's than the first server's."""
    if not charter.second:
        return b""
    try:
        key, sealing = introduced(bytes.fromhex(charter.second))
    except (ValueError, Mistake) as why:
        raise Refused(f"the charter's second server is refused: {why}") from why
    if key.hex() == charter.server:
        raise Refused("the charter's two servers have one key: one that is both sees everything")
    return sealing


def smallest_event(scheme: Scheme, enrolled: Enrolled) -> Event | None:
    """The event of a round of the largest cohort, in which a client's share of the noise is the smallest."""
    population, problem = enrolled.clients, enrolled.problem
    live = torch.arange(scheme.coordinates.count(problem.layout))
    floor = (1 - scheme.spare) * largest(scheme, population)
    weights = flatten(problem.model)
    plan = Plan(1, weights, live, scheme.sampling.cohort(population), floor, spare=scheme.spare)
    event = scheme.event(replace(plan, clip=scheme.specs(len(live))[-1].clip), enrolled)
    return None if event is None else least(event)


def _started(train: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The same, begun at once on a thread of its own, which dies with the process."""
    found: Future[Tensor] = Future()

    def go() -> None:
        try:
            found.set_result(train())
        except BaseException as why:
            found.set_exception(why)

    Thread(target=go, daemon=True, name="training").start()
    return found.result


def _deployed(charter: Charter, scheme: Scheme, draws: Draws, ledger: Ledger, claims: Claims) -> None:
    """What a client of a real server cannot do without, whatever the server says."""
    if not charter.server:
        raise Refused("the charter names no server, as one of a simulation: refused")
    if draws.repeatable:
        raise Mistake("draws that repeat are for simulations: give SecretSeed.system() to a client of a server")
    if ledger.path is None or claims.path is None:
        raise Mistake("a client of a server keeps its ledger and its claims on disk: give Ledger(path), Claims(path)")
    secrecy = scheme.aggregator.secrecy
    if secrecy is not None and secrecy.servers != 1 and not charter.second:
        raise Refused("the charter names no second server, for which a half of each upload is sealed")


def _try(problem: Problem, own: Population) -> None:
    """One pass over the client's own rows: a label that the model does not know is found before anything is charged."""
    try:
        evaluate_loss(problem, flatten(problem.model), own.data, workers=1)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        why = str(error).strip().splitlines()[0]
        raise Mistake(f"the model cannot be trained on this client's rows ({why}): check inputs and labels") from None
