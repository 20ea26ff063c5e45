"""All that hush knows of Ray, in the one module that imports it: a cluster, its workers, and what runs there."""

import contextlib
import copy
import logging
import os
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hush.core.memory import Memory
from hush.core.spec import Uploads
from hush.core.task import Task
from hush.errors import Aborted, Mistake
from hush.federation.blocks import Work
from hush.federation.parcels import Parcel, pack, unpack
from hush.models import workers
from hush.models.kernels import kernels

TRIES = 3  # that blocks, or a run, of a lost worker are begun again
PATIENCE = 120.0  # seconds for a cluster to make room for a worker
STORE = (
    2**28
)  # bytes of a local object store for each worker, and as much again for four; what is not used is not taken
Steps = Callable[[Any, int], Iterator[tuple[Any, ...]]]  # of an order and a number of threads: messages
Hear = Callable[[int, tuple[Any, ...]], None]  # the place of an order, and a message


def connect(address: str, number: int | None = None) -> int:
    """Join the cluster at this address, or start one on this machine ("local"): how many workers it is to have.

    A process is in one cluster: what it joined or started before is taken. A local one ends with the process.
    """
    ray = _ray()
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == "local":
            cores, memory = workers.count(number), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            store = max(2**27, min(STORE * (cores + 4), memory // 4))
            quiet |= {"include_dashboard": False, "num_cpus": cores, "object_store_memory": store}
        else:
            _reach(address)
            quiet["address"] = address
        try:
            with _calm():
                ray.init(**quiet)
        except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
            if address == "auto":
                raise Mistake(
                    "--cluster auto finds no cluster here: start one by `ray start --head`, or say local"
                ) from None
            first = str(error).strip().partition("\n")[0]
            raise Mistake(f"--cluster {address} cannot be joined ({first}): start Ray there, or say local") from None
    cores = int(ray.cluster_resources().get("CPU", 0))
    if (number or 1) > cores:
        raise Mistake(f"workers={number} are more than the {cores} cores of the cluster: take fewer")
    return number or cores


def leave() -> None:
    """Leave the cluster; a local one ends."""
    _pool.clear()
    _ray().shutdown()


def _ray() -> Any:
    try:
        with _calm():
            import ray
    except ImportError:
        raise Mistake("--cluster needs Ray, which is not installed: pip install 'hush-fl[ray]'") from None
    return ray


@contextlib.contextmanager
def _calm() -> Iterator[None]:
    """Ray's own warnings are not for whoever runs hush."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _reach(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for a minute."""
    if address == "auto":
        return
    host, sign, port = address.rpartition(":")
    if not (sign and host and port.isdigit()) or "/" in host:
        raise Mistake(f"--cluster {address} must be local, auto or HOST:PORT, as of `ray start --head`")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise Mistake(f"--cluster {address} cannot be reached ({error}): start Ray there, or say local") from None


class Worker:
    """A process of the cluster, with one math thread. It reads the task where its node keeps it."""

    def __init__(self, like: str) -> None:
        workers.begin()
        self.like, self.here = like, kernels()
        self.held: tuple[Any, Task] | None = None
        self.given: tuple[Any, Work] | None = None

    def ready(self) -> int:
        """Its process; refused where the last bits would come out otherwise than at whoever asked."""
        if self.here != self.like:
            raise Mistake(
                f"a worker computes by {self.here}, and this machine by {self.like}, whose last bits may differ:"
                " take machines of one kind, with the same libraries"
            )
        return os.getpid()

    def task(self, reference: Any) -> Task:
        """That of the reference, fetched once. Its rows stay where they are; a model may be written to."""
        if self.held is None or self.held[0] != reference:
            found: Task = unpack(_ray().get(reference))
            own = Task(copy.deepcopy(found.model), found.loss, found.train, found.split, public=found.public)
            self.held = reference, own
        return self.held[1]

    def work(self, reference: Any) -> Work:
        """That of the round, fetched once."""
        if self.given is None or self.given[0] != reference:
            self.given = reference, unpack(_ray().get(reference), own=True)
        return self.given[1]

    def train(self, references: list[Any], block: slice, memory: Parcel) -> tuple[Parcel, Parcel]:
        """The uploads of a block, and what its clients are to keep; of the task and the round, where they lie."""
        workers.begin()
        self.ready()
        task, work = self.task(references[0]), self.work(references[1])
        kept: Memory = unpack(memory, own=True)
        found = work.train(task, block, kept)
        if work.scheme.aggregator.exact and not work.added:  # modulo 2^b, in any order
            found = found._replace(rows=found.rows.long().sum(0, keepdim=True))
        noted = Memory()
        noted.take_over(kept)
        return pack(found), pack(noted)


@dataclass(frozen=True)
class Actors:
    """Blocks on so many workers of a cluster: the rows come back, to be added in the order of the clients.

    The task is in the object store once. A worker that is lost is started anew, and what it had is run again: draws are
    named by round and client, so that the same comes out.
    """

    workers: tuple[Any, ...]
    placed: Any

    @classmethod
    def of(cls, task: Task, number: int) -> "Actors":
        """Workers that are ready, and the task where they find it."""
        ray = _ray()
        return cls(_started(number), ray.put(pack(task, _pickler())))

    def train(self, work: Work, blocks: Sequence[slice], memory: Memory) -> Iterator[Uploads]:
        """The uploads of each block, in their order; a few blocks for each worker are ahead of it."""
        ray = _ray()
        given = ray.put(pack(work, _pickler()))
        free, ahead = deque(2 * self.workers), 3 * len(self.workers)
        running: dict[Any, tuple[int, Any]] = {}
        done: dict[int, Any] = {}
        begun = taken = 0
        while taken < len(blocks):
            while free and begun < min(len(blocks), taken + ahead):
                one, block = free.popleft(), blocks[begun]
                own = memory.own(*work.cohort[block].tolist())
                running[one.train.remote([self.placed, given], block, pack(own))] = begun, one
                begun += 1
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            place, one = running.pop(ready)
            free.append(one)
            done[place] = ready
            del ready
            while taken in done:
                rows, noted = _got(done.pop(taken))
                memory.take_over(unpack(noted, own=True))  # of its own: the store is to be free again
                taken += 1
                yield unpack(rows)
                del rows


_pool: dict[str, list[Any]] = {}  # the workers of the cluster that this process is in, by its name


def _started(number: int) -> tuple[Any, ...]:
    """So many workers that are ready. They are kept for the next run of this process: to start one takes seconds."""
    ray = _ray()
    cluster = ray.get_runtime_context().get_node_id()
    if cluster not in _pool:
        _pool.clear()
    pool = _pool.setdefault(cluster, [])
    with workers.alone():
        like = kernels()
    remote = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=TRIES)(Worker)
    found = [*pool, *(remote.remote(like) for _ in range(number - len(pool)))]
    done, late = ray.wait([one.ready.remote() for one in found], num_returns=len(found), timeout=PATIENCE)
    for one in done:
        _got(one)
    if late:
        raise Mistake(f"the cluster has no room for {len(late)} of {number} workers: take fewer, or wait for others")
    pool[:] = found
    return tuple(found[:number])


def _pickler() -> Any:
    """Of functions and classes of one's own files, too."""
    return _ray().cloudpickle.Pickler


def _got(reference: Any) -> Any:
    """A result; what is a user's mistake or ends a round, as it was raised."""
    ray = _ray()
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Mistake | Aborted):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        first = str(error).strip().partition("\n")[0]
        raise Mistake(
            f"a worker of the cluster is lost, {TRIES} times over ({first}): see Ray's logs, or take fewer workers"
        ) from error


def stream(orders: Sequence[Any], steps: Steps, number: int, hear: Hear) -> None:
    """As hush.models.processes.stream, with tasks of the cluster in place of processes.

    One whose worker is lost is begun again: it is to go on from what it left.
    """
    ray = _ray()
    _pool.clear()  # their cores are for the runs
    remote = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_listed)
    waiting = deque((place, 1) for place in range(len(orders)))
    active: dict[Any, tuple[int, int]] = {}
    while waiting or active:
        while waiting and len(active) < number:
            place, tries = waiting.popleft()
            active[remote.remote(steps, orders[place])] = place, tries
        (one, *_), _ = ray.wait(list(active), num_returns=1)
        place, tries = active.pop(one)
        try:
            message = ray.get(next(one))
        except StopIteration:
            hear(place, ("gone",))
            continue
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError as error:
            if tries < TRIES:
                waiting.append((place, tries + 1))
            else:
                hear(place, ("failed", f"its worker was lost {TRIES} times ({type(error).__name__}): see Ray's logs"))
                hear(place, ("gone",))
            continue
        active[one] = place, tries
        hear(place, message)


def _listed(steps: Steps, order: Any) -> Iterator[tuple[Any, ...]]:
    """In a process of the cluster."""
    torch.set_num_threads(1)
    try:
        yield from steps(order, 1)
    except Mistake as mistake:
        yield "failed", str(mistake)
