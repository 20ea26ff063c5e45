"""Work in processes of its own, beside threads (hush.models.workers): where Python itself is what takes the time."""

import contextlib
import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any

from hush.errors import Mistake

POSIX = hasattr(signal, "pthread_sigmask")
BEGUN = ("begun",)  # all is imported
Message = tuple[Any, ...]
Steps = Callable[[Any, int], Iterator[Message]]  # of an order and a number of threads, in a process of its own
Hear = Callable[[int, Message], None]  # the place of an order, and what its process says


def stream(orders: Sequence[Any], steps: Steps, number: int, hear: Hear) -> None:
    """steps(order, threads) for each order, `number` at a time; `hear` gets all they say, and at its end ("gone",).

    A mistake is ("failed", sentence). `steps` is a function of a module: a fresh process finds it there.
    """
    from hush.models import workers

    context, threads = multiprocessing.get_context("spawn"), max(1, workers.count(None) // number)
    waiting, active, begun = deque(range(len(orders))), dict[Connection, tuple[int, Any]](), set[Connection]()
    if POSIX:
        resource_tracker.ensure_running()  # at its start Ctrl-C is let through again
    try:
        while waiting or active:
            while waiting and len(active) < number:
                place = waiting.popleft()
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(theirs, steps, orders[place], threads), daemon=False)
                with _uninterrupted():
                    process.start()
                    active[ours] = place, process
                theirs.close()
            for ready in wait(list(active)):
                assert isinstance(ready, Connection)
                place, process = active[ready]
                try:
                    message = ready.recv()
                except (EOFError, OSError):  # it was killed, maybe in the middle of a message
                    message = ("gone",)
                    process.join()
                    ready.close()
                    del active[ready]
                if message == BEGUN:
                    begun.add(ready)
                else:
                    hear(place, message)
    finally:
        for ready, (_, process) in active.items():
            if ready not in begun:
                process.terminate()
            ready.close()  # which ends a process when it next says something
        for _, process in active.values():
            process.join()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: a process that is half begun says so at length. It has Ctrl-C wait until all of it is imported."""
    typed, before = list[tuple[int, FrameType | None]](), signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread() and callable(before)
    if main:
        signal.signal(signal.SIGINT, lambda *which: typed.append(which))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if POSIX else None
    try:
        yield
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if main:
            signal.signal(signal.SIGINT, before)
    if typed and callable(before):
        before(*typed[0])


def _work(pipe: Connection, steps: Steps, order: Any, threads: int) -> None:
    """In a process of its own. Whoever waits for it may be gone: then it ends, after a step, with all on disk."""
    import torch

    torch.set_num_threads(1)  # on any number of cores: the last bits of a sum depend on it; hush's workers do not
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        if POSIX:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            pipe.send(BEGUN)
            for message in steps(order, threads):
                pipe.send(message)
        except Mistake as mistake:
            pipe.send(("failed", str(mistake)))
