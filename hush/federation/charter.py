"""What opens a federation: all that its members agree to before the first round, and its digest."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TypedDict

from hush.core.protocols import Roster
from hush.core.scheme import Scheme
from hush.core.task import Problem
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake, Refused
from hush.models.weights import flatten
from hush.parts.registry import from_json

SHORT = 8  # bytes of the digest that stand in every plan


@dataclass(frozen=True)
class Charter:
    """The public terms of a whole run, as canonical JSON.

    run         its name, which no other run has
    scheme      the scheme and every setting of its parts, as hush.core.serialise writes it
    seed        the public one: coordinates, rotations, seats
    population  how many clients are registered
    rounds      how many there are at most
    delta       of every stated epsilon
    records     the smallest number of records of a client, where records are protected
    roster      SHA-256 of the numbers and public keys of all registered clients, where sums are secure
    weights, public, layout   SHA-256 of the first weights, of the public batch, of the names and shapes of the weights
    server      the server's public key; empty in a simulation
    second      the introduction of the second server (hush.secure.sealed), where a sum has two
    problem     what a client makes its model and its rows of, as hush.experiment.brief writes it; empty where it is
                given both otherwise
    """

    run: str
    scheme: str
    seed: int
    population: int
    rounds: int
    delta: float
    records: int
    weights: str
    public: str
    layout: str
    roster: str = ""
    server: str = ""
    second: str = ""
    problem: str = ""
    format: int = 2

    @cached_property
    def json(self) -> str:
        """All of it, with sorted keys and no spaces: the same text at every member."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(b"hush charter\n" + self.json.encode()).hexdigest()

    @property
    def mark(self) -> bytes:
        """What stands of the digest in every plan."""
        return mark_of(self.digest)

    @classmethod
    def read(cls, text: str) -> "Charter":
        """From its JSON; what is not exactly a charter is refused."""
        try:
            found = json.loads(text)
            kinds = {field.name: field.type for field in fields(cls)}
            if not isinstance(found, dict) or set(found) != set(kinds):
                raise ValueError("its keys are not those of a charter")
            for name, value in found.items():
                if type(value) is not kinds[name]:
                    raise ValueError(f"{name} is of another type")
            charter = cls(**found)
            if not all(1 <= number < 2**32 for number in (charter.population, charter.rounds, charter.records)):
                raise ValueError("its numbers of clients, rounds or records are not from 1 to 2^32")
            if not 0 < charter.delta < 1:
                raise ValueError(f"delta={charter.delta} is not between 0 and 1")
            same = charter.json == text
        except (ValueError, RecursionError) as error:
            raise Refused(f"this is no charter of hush: {error}") from None
        if not same or charter.format != 2:
            raise Refused("this charter is not written as hush writes it, or by another version")
        return charter

    def decoded(self, *others: type) -> Scheme:
        """Its scheme, of hush's parts and these; one that is not known, not whole or impossible is refused."""
        try:
            return from_json(self.scheme, *others)
        except Mistake as why:
            raise Refused(f"the charter's scheme is refused: {why}") from why

    def check(self, problem: Problem) -> None:
        """Refuse a charter for another model, other first weights or another public batch than this client has."""
        own = digests(problem)
        for name, theirs, mine in (
            ("weights", self.weights, own["weights"]),
            ("public", self.public, own["public"]),
            ("layout", self.layout, own["layout"]),
        ):
            if theirs != mine:
                raise Refused(f"the charter's {name} is not that of this client: {theirs[:16]}, {mine[:16]}")


def mark_of(digest: str) -> bytes:
    """What stands in every plan of the charter with this digest."""
    return bytes.fromhex(digest)[:SHORT]


def roster_digest(people: Roster) -> str:
    """SHA-256 of all registered clients, by their numbers."""
    found = hashlib.sha256(b"hush roster\n")
    for number, key in sorted(people):
        found.update(number.to_bytes(8, "little") + key)
    return found.hexdigest()


class Digests(TypedDict):
    """What a charter says of its problem."""

    weights: str
    public: str
    layout: str


def digests(problem: Problem) -> Digests:
    """SHA-256 of the first weights, the public batch and the layout."""
    layout = problem.layout
    shapes = json.dumps([[name, list(shape)] for name, shape in zip(layout.names, layout.shapes, strict=True)])
    return {
        "weights": hashlib.sha256(flatten(problem.model).numpy().tobytes()).hexdigest(),
        "public": "" if problem.public is None else _of_rows(problem.public),
        "layout": hashlib.sha256(shapes.encode()).hexdigest(),
    }


def _of_rows(samples: Samples) -> str:
    dense = samples.inputs.dense() if isinstance(samples.inputs, Sparse) else samples.inputs
    found = hashlib.sha256(str(tuple(dense.shape)).encode())
    found.update(dense.contiguous().numpy().tobytes())
    found.update(samples.targets.contiguous().numpy().tobytes())
    return found.hexdigest()
