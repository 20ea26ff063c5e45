"""Many runs at once, a process for each: killed at any moment, the same command goes on."""

import contextlib
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.errors import Mistake
from hush.experiment import config
from hush.experiment.config import Config
from hush.experiment.report.words import accuracy

if TYPE_CHECKING:
    from hush.experiment.resolving import Experiment

PATIENCE = 600.0  # seconds for an earlier process to finish its round
Message = tuple[Any, ...]
Steps = Callable[[Any, int], Iterator[Message]]  # of an order and a number of threads, in a process of its own
Hear = Callable[[int, Message], None]  # the place of an order, and what its process says
GONE = "its process ended without a word: run the command again to go on"


def processes(orders: Sequence[Any], steps: Steps, number: int, hear: Hear) -> None:
    """steps(order, threads) for each order, `number` at a time; `hear` gets all they say, and at its end ("gone",).

    A mistake is ("failed", sentence). `steps` is a function of a module: a fresh process finds it there.
    """
    context, threads = multiprocessing.get_context("spawn"), max(1, (os.cpu_count() or 1) // number)
    waiting, active = deque(range(len(orders))), dict[Connection, tuple[int, Any]]()
    try:
        while waiting or active:
            while waiting and len(active) < number:
                place = waiting.popleft()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(theirs, steps, orders[place], threads), daemon=False)
                process.start()
                theirs.close()
                active[ours] = place, process
            for ready in wait(list(active)):
                assert isinstance(ready, Connection)
                place, process = active[ready]
                try:
                    message = ready.recv()
                except EOFError:
                    message = ("gone",)
                    process.join()
                    ready.close()
                    del active[ready]
                hear(place, message)
    finally:
        for ready, (_, process) in active.items():
            ready.close()  # which ends a process after its round
            process.join()


def _work(pipe: Connection, steps: Steps, order: Any, threads: int) -> None:
    """In a process of its own. Whoever waits for it may be gone: then it ends, after a round, with all on disk."""
    import torch

    torch.set_num_threads(1)  # on any number of cores: the last bits of a sum depend on it; hush's workers do not
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        try:
            for message in steps(order, threads):
                pipe.send(message)
        except Mistake as mistake:
            pipe.send(("failed", str(mistake)))


def opened(wanted: Config, path: Path, threads: int) -> "Experiment":
    """What a run needs, and its directory, new or to go on with."""
    from hush.experiment import directory
    from hush.experiment.resolving import build

    run, kept = wanted.run.model_copy(update={"workers": threads}), path / "config.toml"
    if kept.exists():  # measured when the run began: measured again it might come out otherwise
        run = run.model_copy(update={"engine": config.read(kept).run.engine})
    built = build(wanted.model_copy(update={"run": run}))
    directory.open_directory(path, built.config, resume=True)
    return built


def executed(built: "Experiment", path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the rounds that are left, once the process of an earlier command has let go of the directory."""
    from hush.experiment import directory

    until = time.monotonic() + PATIENCE
    while True:
        started = False
        try:
            for row in directory.execute(built, path):
                started = True
                yield row
            return
        except Mistake as mistake:
            if started or "in use by another process" not in str(mistake) or time.monotonic() > until:
                raise
            time.sleep(0.5)


def facts(row: dict[str, Any], measure: str | None) -> str:
    """What a bar says of a round: the newest value of this measure, or the best where it was not evaluated."""
    values = (row.get(measure or ""), row.get(f"best_{measure}"))
    found = next((value for value in values if value is not None), None)
    return "" if found is None else f"{measure} {accuracy(found)}"
