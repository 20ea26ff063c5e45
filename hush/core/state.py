"""What a round leaves to the next."""

from dataclasses import dataclass, field, replace

from torch import Tensor

from hush.core.memory import Memory
from hush.core.task import Registered
from hush.core.traffic import Traffic
from hush.errors import Mistake
from hush.models import weights as flat
from hush.privacy.views import Participation


@dataclass
class Books:
    """What is kept per registered client, after round `round`: one copy for a whole run, which moves on with it."""

    round: int
    traffic: Traffic
    participation: Participation
    memory: Memory = field(default_factory=Memory)

    @classmethod
    def first(cls, clients: int) -> "Books":
        """Before the first round."""
        return cls(0, Traffic(clients), Participation(clients))

    def settle(self) -> None:
        """Count and keep what was noted in the round."""
        self.traffic.settle()
        self.memory.settle()

    def discard(self) -> None:
        """Forget what was noted of a round that did not come to its end."""
        self.traffic.discard()
        self.memory.discard()


@dataclass(frozen=True)
class State:
    """All that a round leaves to the next. Random streams need none of it: they are named, not kept.

    Weights, live set, clip, optimizer (what the server's step keeps), average and downlink_error (what the way down
    rounded off) stay as they are. The books move on with
    the loop: take a `copy` of the state while its round is the last one, to keep it beside a loop that goes on.
    """

    round: int
    weights: Tensor
    live: Tensor | None
    clip: float | None
    books: Books
    optimizer: Tensor | None = None
    average: Tensor | None = None
    downlink_error: Tensor | None = None

    @classmethod
    def first(cls, task: Registered) -> "State":
        """Before the first round: the model's own weights."""
        return cls(0, flat.flatten(task.problem.model), None, None, Books.first(task.clients))

    @property
    def released(self) -> Tensor:
        """The model's weights for others: the average where the scheme has one. Clients train from `weights`."""
        return self.weights if self.average is None else self.average

    @property
    def current(self) -> bool:
        """Whether the books are still those of this round."""
        return self.books.round == self.round

    @property
    def traffic(self) -> Traffic:
        """The bytes of each client."""
        return self._books().traffic

    @property
    def participation(self) -> Participation:
        """What each client took part in."""
        return self._books().participation

    @property
    def memory(self) -> Memory:
        """What each client kept."""
        return self._books().memory

    def copy(self) -> "State":
        """A state of its own: later rounds do not change it."""
        books = self._books()
        joined = Participation.of(books.participation.state())
        return replace(self, books=Books(self.round, books.traffic.copy(), joined, books.memory.copy()))

    def _books(self) -> Books:
        if not self.current:
            raise Mistake(
                f"the run has gone on from round {self.round} to {self.books.round}, and its books with it:"
                " take report.state.copy() before asking for the next round"
            )
        return self.books
