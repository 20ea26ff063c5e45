"""Worker threads with one math thread each: heavy arithmetic leaves Python's lock, and results keep their order."""

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

from hush.errors import Mistake

ARENAS = -8  # of glibc's mallopt: so many heaps at most

Item = TypeVar("Item")
Result = TypeVar("Result")


def count(workers: int | None) -> int:
    """As many as asked for, or one for each core that this process may use."""
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers < 1:
        raise Mistake(f"workers={workers} must be at least 1: how many threads train at the same time")
    return workers


def spread(work: Callable[[Item], Result], items: Sequence[Item], workers: int | None = None) -> Iterator[Result]:
    """work(item) for each item, in their order; at most one result per worker waits to be taken.

    Each worker computes with one math thread, however many there are, so that the numbers do not depend on it.
    """
    number = count(workers)
    # Nothing to spread, or a worker that spreads: waiting for other workers it might wait for ever.
    if number == 1 or len(items) <= 1 or getattr(_here, "working", False):
        for item in items:
            with alone():
                result = work(item)
            yield result
            del result  # before the next one is made
        return
    waiting: deque[Future[Result]] = deque()
    pool = _pool(number)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # a failed or abandoned loop leaves nothing running
        for future in waiting:
            future.cancel()
        for future in waiting:
            if not future.cancelled():
                future.exception()


@contextmanager
def alone() -> Iterator[None]:
    """One math thread in this thread, as a worker has it."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_here = threading.local()


def begin() -> None:
    """From here on this thread is a worker: one math thread, and what it would spread it does itself."""
    _here.working = True
    torch.set_num_threads(1)


@cache
def _pool(number: int) -> ThreadPoolExecutor:
    _heaps(max(number, count(None)))
    return ThreadPoolExecutor(number, "hush", initializer=begin)


def _heaps(number: int) -> None:
    """So many heaps where the C library is glibc, as many as cores or threads that compute: each keeps what it once
    held, and one more for the main thread is a twentieth of a round's memory. Set in the environment they stay so.
    """
    chosen = "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", "")
    if not chosen and hasattr(os, "confstr") and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # another C library may know glibc's name, and not this
            mallopt(ARENAS, number)


# A forked process has no threads of its own.
os.register_at_fork(after_in_child=_pool.cache_clear)
