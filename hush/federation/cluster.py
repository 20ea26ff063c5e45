"""Clients in blocks, on the machines of a Ray cluster."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hush.core.engine import Engine
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.blocks import Simulation, check
from hush.federation.nodes import Actors, connect
from hush.models import workers
from hush.parts.trainers.cohort import choose


@dataclass(frozen=True)
class Cluster:
    """Runs the client code on blocks of clients as Simulated does, on workers of a cluster: the same bits.

    `address`: "local" for processes of this machine, "auto" or HOST:PORT for a cluster that runs. `workers` of one core
    each, as many as the cluster has if not given. The data are placed once per node. What clients keep travels to the
    worker and back. `block`, `lost`, `engine` and `exact` are those of Simulated.
    """

    address: str = "local"
    block: int | None = None
    lost: Callable[[int, int], bool] | None = None
    workers: int | None = None
    engine: Engine = Engine()
    exact: bool = False

    def __post_init__(self) -> None:
        check(self.block)
        workers.count(self.workers)
        if self.engine.device != "cpu":
            raise Mistake(f"device={self.engine.device!r}: the workers of a cluster train on their CPUs: leave it out")

    def of(self, task: Task) -> Simulation:
        """The clients of a task, once the workers have it."""
        number = connect(self.address, self.workers)
        # Chosen here: each worker would measure for itself, and might find otherwise.
        engine = replace(self.engine, kind=self.engine.kind or choose(task.problem, task.population))
        placed = Task(task.model, task.loss, task.train, task.split, public=task.public)  # test rows are the server's
        return Simulation(task, Actors.of(placed, number), engine, self.block, self.lost, self.exact)
