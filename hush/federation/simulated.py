"""Clients in blocks, on the threads of this process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hush.core.clients import Clients
from hush.core.engine import Engine
from hush.core.memory import Memory
from hush.core.rounds import Accountant, Report, loop
from hush.core.scheme import Scheme
from hush.core.spec import Uploads
from hush.core.state import State
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.blocks import Simulation, Work, check
from hush.models import workers
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed


@dataclass(frozen=True)
class Simulated:
    """Runs the client code on blocks of clients, several at a time.

    `block` clients train together, as many as suit the model if not given; `workers` threads, one for each core if not
    given, train blocks by `engine`. The sum is taken in the order of the clients. Memory grows with the workers, not
    with the cohort. One upload of a round is packed, and its bytes count for every client, since all uploads of a round
    have one size; a test holds the counts equal to Loopback's. `lost(round, client)` says which clients drop out
    before they upload.

    Where a sum of the uploads is all that is asked for, blocks are added as they are trained, and noise whose shares
    add up to noise of the same kind is drawn once. `exact` makes each upload as a client on a network would.
    """

    block: int | None = None
    lost: Callable[[int, int], bool] | None = None
    workers: int | None = None
    engine: Engine = Engine()
    exact: bool = False

    def __post_init__(self) -> None:
        check(self.block)
        workers.count(self.workers)

    def of(self, task: Task) -> Simulation:
        """The clients of a task."""
        # A device other than the CPU is busy enough with one thread.
        number = self.workers if self.engine.device == "cpu" else 1
        return Simulation(task, Threads(task, number), self.engine, self.block, self.lost, self.exact)


@dataclass(frozen=True)
class Threads:
    """Blocks on so many threads of this process."""

    task: Task
    number: int | None = None

    def train(self, work: Work, blocks: Sequence[slice], memory: Memory) -> Iterator[Uploads]:
        """The uploads of each block, in their order."""
        return workers.spread(lambda block: work.train(self.task, block, memory), blocks, self.number)


class Transport(Protocol):
    """Where the clients of a task are: in blocks here, in sessions here, on a cluster."""

    def of(self, task: Task) -> Clients:
        """The clients of a task."""
        ...


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
    """Train on this machine, and report after every round: see hush.core.rounds.loop.

    `transport`: Simulated() if not given, Cluster() for the machines of a Ray cluster, or Loopback() for real messages
    between real sessions.
    """
    if not isinstance(scheme, Scheme):
        raise Mistake(f"scheme of type {type(scheme).__name__} is none: make one by hush.scheme(name, ...)")
    if not isinstance(task, Task):
        raise Mistake(f"task of type {type(task).__name__} is none: make one by hush.Task(model, loss, train, split)")
    clients = (Simulated() if transport is None else transport).of(task)
    return loop(
        scheme,
        clients,
        rounds=rounds,
        seed=seed,
        delta=delta,
        accountant=accountant,
        ledger=ledger,
        secret=secret,
        state=state,
        replay=replay,
    )
