"""A small problem, a charter for it, and sessions that answer it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from hush.catalogue.entries import scheme as named
from hush.catalogue.secure_form import secured
from hush.core.protocols import Roster
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.federation import messages
from hush.federation.charter import Charter, digests, roster_digest
from hush.federation.session import ClientSession
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed, SecretSeed
from hush.secure import Identity

COHORT, ROUNDS, SEED = 6, 5, PublicSeed(7)


@dataclass(frozen=True)
class Federation:
    """A charter, and what makes sessions and plans for it."""

    task: Task
    scheme: Scheme
    charter: Charter
    people: Mapping[int, Identity] = field(default_factory=dict)  # where sums are secure

    def secured(self) -> "Federation":
        """The same with a secure sum."""
        scheme, people = secured(self.scheme, self.task), {k: Identity.new() for k in range(self.task.clients)}
        made = replace(self, scheme=scheme, people=people)
        return replace(made, charter=replace(self.charter, scheme=scheme.to_json(), roster=roster_digest(made.roster)))

    @property
    def roster(self) -> Roster:
        return tuple((client, one.public) for client, one in self.people.items())

    def session(self, client: int = 3, **other: object) -> ClientSession:
        keys = {"identity": self.people[client], "roster": self.roster} if self.people else {}
        given = {"charter": self.charter, "simulation": True, **keys, **other}
        own, draws = self.task.population.own(client), Draws(SecretSeed.simulated(1), (client,))
        return ClientSession(given.pop("charter"), self.scheme, self.task.problem, own, draws, **given)

    def plan(self, round: int = 1, mark: bytes | None = None, **change: object) -> bytes:
        """A plan of an honest server, or one that differs in this."""
        start, live = flatten(self.task.model), self.scheme.coordinates.draw(self.task.problem, SEED, 0, None)
        plan = Plan(round, start, live, float(COHORT), float(COHORT))
        form = self.scheme.downlink.form
        mark = self.charter.mark if mark is None else mark
        found = messages.pack_plan(replace(plan, **change), self.scheme.coordinates, form, mark)
        return messages.with_cohort(found, range(COHORT)).data if self.people else found.data


@pytest.fixture
def federation(task: Task) -> Callable[..., Federation]:
    """By the name of a scheme and its settings."""

    def make(name: str = "fl-top-dp", **settings: object) -> Federation:
        given = {"ratio": 0.1, "clip": 0.5, "noise": 2.0, "rate": 0.2, "batch": 5, **settings}
        given = {key: value for key, value in given.items() if value is not None}
        scheme = named(name, sampling=Fixed(COHORT), **given)
        charter = Charter(
            run="trial",
            scheme=scheme.to_json(),
            seed=SEED.value,
            population=task.clients,
            rounds=ROUNDS,
            delta=1e-5,
            records=int(task.sizes.min()),
            **digests(task.problem),
        )
        return Federation(task, scheme, charter)

    return make
