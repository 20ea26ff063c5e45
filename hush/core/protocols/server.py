"""The server's side of a scheme: which weights, what it sees of the uploads, how it moves, how weights travel down."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from torch import Tensor

from hush.core.packing import Form
from hush.core.protocols.clients import ClientRound, Parts, Sampling, Trainer, anew
from hush.core.protocols.stages import Recovery, Stage
from hush.core.single import Single, Unpack
from hush.core.spec import Asked, Spec, Total, Uploads
from hush.core.task import Problem, Registered
from hush.models.weights import Layout
from hush.privacy.sums import Secure
from hush.random.seeds import PublicSeed

Roster = tuple[tuple[int, bytes], ...]  # of each client of a cohort, its number and its public key


class Secrecy(NamedTuple):
    """How a secure sum hides uploads: the whole protocol or its outcome alone, and against whom."""

    mode: Secure
    servers: int
    corrupt: float


class Coordinates(Protocol):
    """A rule that picks the live coordinates of a round.

    whole      all weights, in their order
    fixed      one set for the whole training, so that only these travel down as well
    derivable  every client finds the set from public data and seed, so that the set itself never travels
    probes     the set is chosen on the public batch
    joint      a round's set is a part of a fixed one, the pool: all of that trains and travels down
    """

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def whole(self) -> bool:
        return False

    @property
    def fixed(self) -> bool: ...
    @property
    def derivable(self) -> bool: ...
    @property
    def probes(self) -> bool:
        return False

    @property
    def joint(self) -> bool:
        return False

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse, before any training, what this rule cannot work on."""
        return None

    def count(self, layout: Layout) -> int:
        """How many coordinates are live."""
        ...

    def draw(self, problem: Problem, seed: PublicSeed, round: int, votes: Tensor | None) -> Tensor | None:
        """The sorted live coordinates; None is all of them."""
        ...

    def down(self, layout: Layout) -> int:
        """How many weights travel down."""
        return self.count(layout) if self.fixed else layout.parameters

    def pool(self, problem: Problem, seed: PublicSeed) -> Tensor | None:
        """The sorted coordinates that the sets of all rounds are of; None is all of them."""
        return None

    def visits(self, round: int) -> int:
        """How often the set of this round was live, this round included."""
        return round

    def election(self, layout: Layout) -> tuple[Trainer, tuple[Stage, ...]] | None:
        """The round before the first in which the clients vote on the set, if there is one."""
        return None


def sent_down(coordinates: Coordinates, live: Tensor | None, pool: Tensor | None = None) -> Tensor | slice:
    """Which weights travel down: the live ones where they stay the same, else those that they are of."""
    found = live if coordinates.fixed else pool
    return slice(None) if found is None else found


class ServerRound(Protocol):
    """The server's side of a round: the messages of a phase in any order, then the next phase."""

    @property
    def phase(self) -> str:
        """Its name."""
        ...

    def take(self, client: int, data: bytes) -> None:
        """A client's message; Refused where it is not right, and the round goes on without it."""
        ...

    def advance(self) -> dict[int, bytes]:
        """Close the phase: the next message for each client that goes on, none after the last phase."""
        ...

    def total(self) -> Total:
        """What came of it, after the last phase."""
        ...


class Aggregator(Protocol):
    """Turns uploads into one Total.

    adds       it adds them up as they are, for the server to see: a secure sum may take its place
    exact      its uploads are integers, and their sum is all it takes: where blocks are made they may be added already
    secrecy    how it hides the uploads from the server, if it does
    precision  it votes on the bits of numbers of so many, by the clients' seats in the cohort; None: it adds
    """

    def __init_subclass__(cls, **given: object) -> None:
        """A combine of one's own is described anew: whether it adds is not a parent's to say."""
        super().__init_subclass__(**given)
        anew(cls, "combine", adds=False, exact=False)

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def adds(self) -> bool:
        return False

    @property
    def exact(self) -> bool:
        return False

    @property
    def secrecy(self) -> Secrecy | None:
        return None

    @property
    def precision(self) -> int | None:
        return None

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client."""
        ...

    def join(self, asked: Asked, roster: Roster, own: object, records: int) -> ClientRound | None:
        """At a client with its own key: its side of the protocol; None where it sends its upload and is done."""
        return None

    def open(self, asked: Asked, roster: Roster, unpack: Unpack) -> ServerRound:
        """At the server: a round over messages. One phase, the uploads, where nothing else is said."""
        return Single(self.combine, asked, unpack)

    def check(self, scheme: Parts, task: Registered, upload: Spec) -> None:
        """Refuse uploads that it cannot combine."""
        return None

    def tolerance(self, dropout: float) -> float:
        """The part of a cohort that noise shares are better not sized for, if clients drop out so often."""
        return 0.0

    def slack(self, sampling: Sampling, population: int, tolerance: float) -> float:
        """The probability that one client's presence decides whether a round is aborted here."""
        return 0.0

    def threshold(self, cohort: int, floor: float) -> int:
        """The fewest clients of a cohort whose sum is opened, where noise shares are sized for `floor` of them."""
        return 1

    def colluding(self, cohort: int) -> int:
        """How many clients of a cohort may help the server, and reveal their noise to it; 0 where it needs no help."""
        return 0


class Step(Protocol):
    """Moves the weights by the mean update.

    recovery  what it rebuilds updates by, if they come as fewer numbers
    stays     the shared model does not move: each client has its own
    """

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def recovery(self) -> Recovery | None:
        return None

    @property
    def stays(self) -> bool:
        return False

    def move(
        self, weights: Tensor, live: Tensor | None, mean: Tensor, optimizer: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """New weights, and what the server keeps for the next round (None at first); the old ones stay as they are."""
        ...

    def check(self, scheme: Parts, task: Registered) -> None:
        """Refuse parts that it does not go with."""
        return None


class Downlink(Protocol):
    """What becomes of the weights on their way to the clients.

    `form` is how they are packed, `bits` what each takes. `exact`: they arrive as they are.
    """

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def exact(self) -> bool:
        return False

    @property
    def bits(self) -> int: ...
    @property
    def form(self) -> Form: ...

    def send(self, weights: Tensor, downlink_error: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The weights that clients get, and the downlink error from then on; None is none."""
        ...
