"""What a network would carry, carried in this process: real sessions, each with what is its own alone."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from hush.core.clients import Opening, Order
from hush.core.engine import Engine
from hush.core.protocols import Roster
from hush.core.spec import Total
from hush.core.task import Enrolled, Problem, Task
from hush.errors import Mistake
from hush.federation.channel import InProcess
from hush.federation.charter import Charter, digests, roster_digest
from hush.federation.policy import Policy
from hush.federation.remote import Remote
from hush.federation.session import ClientSession
from hush.federation.trial import walk
from hush.parts.aggregators.secure import identity, run_name
from hush.random.draws import Draws
from hush.secure.keys import Identity

UPLOADS = ("upload", "mask", "numbers")  # the phases in which a client sends its numbers


@dataclass(frozen=True)
class Loopback:
    """A session for each client, with its own rows, draws, memory and ledger; between them and the server only bytes.

    `lost(round, client)` says which clients drop out before they upload. `line(round, client, data)` is what becomes
    of an upload on its way. An upload that is not exactly right is refused, and the round goes on with the others.
    """

    lost: Callable[[int, int], bool] | None = None
    line: Callable[[int, int, bytes], bytes] | None = None
    policy: Policy = Policy()

    def of(self, task: Task) -> "Sessions":
        """The clients of a task."""
        return Sessions(task, self)


@dataclass
class Sessions:
    """Clients as sessions in this process, opened when they are first drawn.

    Their draws are names under one simulated seed, as in every simulation; all else is the client's own.
    """

    enrolled: Task
    how: Loopback
    _terms: Opening | None = None
    _charter: Charter | None = None
    _open: dict[int, ClientSession] = field(default_factory=dict)
    _people: dict[int, Identity] = field(default_factory=dict)

    @cached_property
    def _problem(self) -> Problem:
        """What clients have of it: test rows are the server's."""
        return replace(self.enrolled.problem, test=None)

    @cached_property
    def _roster(self) -> Roster:
        return tuple((client, one.public) for client, one in self._people.items())

    def begin(self, terms: Opening) -> None:
        """A trial of what the clients will do, and the charter, to which every session agrees."""
        task, sizes = self.enrolled, self.enrolled.sizes
        walk(terms.scheme, task.problem, task.population, task.clients, Engine())
        self._terms, self._open = terms, {}
        if terms.scheme.secure:
            self._people = {client: identity(terms.secret, client) for client in range(len(sizes))}
        self._charter = Charter(
            run=run_name(terms.secret),
            scheme=terms.scheme.to_json(),
            seed=terms.seed,
            population=len(sizes),
            rounds=terms.rounds,
            delta=terms.delta,
            records=int(sizes.min()) if terms.scheme.level == "record" else 1,
            roster=roster_digest(self._roster) if terms.scheme.secure else "",
            **digests(self._problem),
        )

    def collect(self, order: Order) -> Total:
        """A round over bytes."""
        if self._charter is None:
            raise Mistake("these clients have no charter yet: begin() comes first")
        scheme, number, memory = order.scheme, order.plan.round, order.books.memory
        if scheme.secure and self.how.line is not None:
            raise Mistake("line is for uploads that travel one by one: the messages of a secure sum are signed")
        cohort = order.cohort.tolist()
        keys = {client: self._people[client].public for client in cohort} if scheme.secure else {}
        fresh = set(cohort)

        def session(client: int) -> ClientSession:
            """With what the client kept, at its first message of the round."""
            found = self._session(client)
            if client in fresh:
                fresh.remove(client)
                found.memory = memory.own(client)
            return found

        lost, line, gone = self.how.lost, self.how.line, set[int]()
        channel = InProcess(
            session,
            None if lost is None else lambda phase, client: phase in UPLOADS and lost(number, client),
            None if line is None else lambda phase, client, data: line(number, client, data),
        )
        registered = Enrolled(self._problem, self.enrolled.sizes)
        remote = Remote(registered, channel, self._charter.run, self._charter.digest, keys, dropped=gone.add)
        total = remote.collect(order)
        taken = [client for client in cohort if client not in gone] if total.survivors is None else total.survivors
        for client in taken:
            if client not in fresh:
                memory.take_over(self._open[client].memory)
        return total

    def _session(self, client: int) -> ClientSession:
        """This client, with what is its own."""
        assert self._terms is not None
        assert self._charter is not None
        if client not in self._open:
            secret = self._terms.secret
            self._open[client] = ClientSession(
                self._charter,
                self._terms.scheme,
                self._problem,
                self.enrolled.population.own(client),
                Draws(secret, (client,)),
                identity=self._people.get(client),
                roster=self._roster if self._people else (),
                policy=self.how.policy,
                simulation=True,
            )
        return self._open[client]
