"""What happens to an update between training and the wire, and back at the server."""

from typing import NamedTuple, Protocol

from torch import Tensor

from hush.core.protocols.clients import Parts, Sampling, anew, named
from hush.core.spec import ClientContext, Multipliers, Plan, ServerContext, Spec, Total
from hush.core.task import Registered
from hush.errors import Mistake
from hush.privacy import grids
from hush.privacy.events import Level


class Claim(NamedTuple):
    """A guarantee that a paper states and that does not hold: why not, its epsilon, and how that was found."""

    reason: str
    epsilon: float
    how: str


class Room(NamedTuple):
    """What integers for a secure sum are to fit: `clients` rows at most, of which noise relies on `floor`.

    bits      of a number; None: the fewest at which rounding adds at most the fraction `rounding` to the noise
    kind      of the integer noise
    seed      the public one
    """

    clients: int
    floor: float
    bits: int | None = None
    rounding: float = 0.05
    kind: grids.NoiseKind = "skellam"
    seed: int = 0


class Recovery(Protocol):
    """Rebuilds an update from fewer numbers."""

    def recover(self, y: Tensor, size: int) -> Tensor: ...


class Stage(Protocol):
    """Both halves of a mechanism: encode at the client, decode at the server.

    level           whom its noise protects: "client" (it is a Source then), or nobody
    keeps_integers  what is integers in front of it is so behind it
    remembers       clients keep a row of numbers for it between rounds
    scales          encode multiplies each row by a number, `factors`, that depends on the row's norm alone
    additive        encode adds to each row, modulo what the sum is taken by, what does not depend on the row
    recovery        what rebuilds an update from the decoded sum, where decode leaves that to the step
    claim           a guarantee of its paper that does not hold
    """

    def __init_subclass__(cls, **given: object) -> None:
        """An encode of one's own is described anew: what a parent says of its own is given up."""
        super().__init_subclass__(**given)
        anew(cls, "encode", scales=False, additive=False, keeps_integers=False)

    @property
    def settings(self) -> tuple[str, ...]:
        return ()

    @property
    def level(self) -> Level | None:
        return None

    @property
    def keeps_integers(self) -> bool:
        return False

    @property
    def remembers(self) -> bool:
        return False

    @property
    def scales(self) -> bool:
        return False

    @property
    def additive(self) -> bool:
        return False

    @property
    def recovery(self) -> Recovery | None:
        return None

    @property
    def claim(self) -> Claim | None:
        return None

    def spec(self, s: Spec) -> Spec:
        """What is known of the output, given the input; a wrong combination is refused here."""
        ...

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """At the client: one row per client. The input is the stage's to change, and may be the output."""
        ...

    def factors(self, norms: Tensor, ctx: ClientContext) -> Tensor:
        """Where it scales: what encode multiplies rows of these norms by, in float64."""
        return norms.new_ones(len(norms))

    def together(self, x: Tensor, ctx: ClientContext, clients: int) -> Tensor:
        """Where it is additive: x, one row, with what so many clients add in all, of the same distribution."""
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """At the server, in reverse order."""
        ...

    def check(self, scheme: Parts, task: Registered, before: Spec) -> None:
        """Refuse parts that it does not go with; `before` is the Spec in front of it."""
        return None


class Source(Stage, Protocol):
    """A stage whose noise protects clients: it states Spec.noise, and what that is worth against whom.

    shared       each client adds a share of it, and decode adds those of the clients that were drawn and did not
                 answer; else a trusted server adds all of it
    floating     its noise is of real numbers, drawn in floating point
    correlated   it takes back noise of earlier rounds: clients keep to public turns, and no round is released twice
    integer      which integer noise it is, if it is
    assumptions  what its guarantee assumes beyond the sampling and the clients' honesty, in sentences for the card
    """

    @property
    def level(self) -> Level:
        return "client"

    @property
    def shared(self) -> bool: ...
    @property
    def floating(self) -> bool:
        return True

    @property
    def correlated(self) -> bool:
        return False

    @property
    def integer(self) -> grids.NoiseKind | None:
        return None

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def multipliers(self, s: Spec, plan: Plan, present: float) -> Multipliers:
        """Against readers of the models, the server, and a reader of one upload; `s` is the Spec in front of it.

        `present`: how many clients' noise the server does not know.
        """
        ...

    def slack(self, sampling: Sampling, population: int) -> float:
        """The probability that one client's presence decides whether its noise aborts a round."""
        return 0.0

    def in_integers(self, before: Spec, room: Room) -> tuple[Stage, ...]:
        """The stages in its place for a secure sum, worth as much by the ledger's own accounting."""
        raise Mistake(f"{named(self)} has no form in integers, which a secure sum adds: take Noise, or no secure sum")
