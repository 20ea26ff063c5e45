"""Worker threads: order, few results in waiting, one math thread each, nothing left behind."""

import multiprocessing
import threading
import time
import warnings

import pytest
import torch

from hush.errors import Mistake
from hush.models import workers


def test_in_order() -> None:
    def slow_first(item: int) -> int:
        time.sleep(0.02 if item == 0 else 0)
        return item * item

    assert list(workers.spread(slow_first, range(20), 3)) == [n * n for n in range(20)]
    assert list(workers.spread(slow_first, [], 3)) == []


def test_few_wait() -> None:
    """What is begun is never far ahead of what was taken: memory does not grow with the items."""
    begun: list[int] = []
    taken = 0
    for _ in workers.spread(begun.append, range(50), 2):
        taken += 1
        assert len(begun) <= taken + 3
    assert taken == 50


def test_one_math_thread_each() -> None:
    mine = torch.get_num_threads()
    assert set(workers.spread(lambda _: torch.get_num_threads(), range(8), 2)) == {1}
    assert torch.get_num_threads() == mine


def test_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=120)  # one after the other would wait for ever
    assert len(list(workers.spread(lambda _: both.wait(), range(2), 2))) == 2


def test_a_failure_ends_it() -> None:
    running = threading.Semaphore(0)

    def work(item: int) -> int:
        if item == 1:
            raise ValueError("item 1")
        running.release()
        return item

    with pytest.raises(ValueError, match="item 1"):
        list(workers.spread(work, range(100), 2))
    done = running._value
    time.sleep(0.05)
    assert running._value == done < 10


def test_a_worker_that_spreads_work() -> None:
    """It does it itself: waiting for a free worker it might wait for ever."""

    def outer(item: int) -> int:
        return sum(workers.spread(lambda n: n * item, range(4), 1))

    assert list(workers.spread(outer, range(3), 1)) == [0, 6, 12]


def _in_child(queue) -> None:
    queue.put(list(workers.spread(lambda n: n + 1, range(3), 2)))


def test_after_a_fork() -> None:
    list(workers.spread(abs, range(3), 2))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
        child.start()
    assert queue.get(timeout=30) == [1, 2, 3]
    child.join(30)


def test_count() -> None:
    assert workers.count(3) == 3
    assert workers.count(None) >= 1
    with pytest.raises(Mistake, match="workers=0 must be at least 1"):
        workers.count(0)
