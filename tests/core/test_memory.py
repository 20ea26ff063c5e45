"""What clients keep: noted aside, kept when the round is closed, forgotten when it fails."""

import threading

import numpy as np
import pytest
import torch

from hush.core.memory import Memory
from hush.errors import Mistake


def some(*clients: int) -> np.ndarray:
    return np.array(clients, np.int64)


def kept(*rows: tuple[int, list[float]]) -> Memory:
    memory = Memory()
    memory.note(some(*(client for client, _ in rows)), torch.tensor([row for _, row in rows]))
    memory.settle()
    return memory


def test_nothing_is_zeros() -> None:
    found = Memory().rows(some(3, 1), 4)
    assert found.dtype == torch.float32
    assert torch.equal(found, torch.zeros(2, 4))
    assert len(Memory()) == 0


def test_noted_is_kept_once_settled() -> None:
    memory = kept((5, [1.0, 2.0]))
    memory.note(some(2, 5), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    assert memory.rows(some(5, 2), 2).tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert len(memory) == 1
    memory.settle()
    assert memory.rows(some(5, 2, 0), 2).tolist() == [[5.0, 6.0], [3.0, 4.0], [0.0, 0.0]]
    assert len(memory) == 2


def test_a_failed_round_is_forgotten() -> None:
    memory = kept((5, [1.0, 2.0]))
    memory.note(some(2, 5), torch.ones(2, 2))
    memory.discard()
    memory.settle()
    assert memory.state()["clients"].tolist() == [5]
    assert memory.rows(some(5), 2).tolist() == [[1.0, 2.0]]


def test_rows_are_the_memory_s_own() -> None:
    """Neither what was handed in nor what was handed out changes them, and a row does not hold on to its block."""
    memory, rows = Memory(), torch.ones(2, 3)
    memory.note(some(0, 1), rows)
    rows.zero_()
    memory.settle()
    memory.rows(some(0), 3).zero_()
    assert memory.rows(some(0, 1), 3).tolist() == [[1.0] * 3] * 2
    for source in (memory, Memory.of(memory.state())):
        assert all(row.untyped_storage().nbytes() == 12 for row in source._kept.values())


def test_state_there_and_back() -> None:
    assert Memory().state() == {}
    assert len(Memory.of({})) == 0
    state = kept((7, [1.0, 2.0]), (2, [3.0, 4.0])).state()
    assert (state["clients"].dtype, state["rows"].dtype) == (np.int64, np.float32)
    assert state["clients"].tolist() == [2, 7]
    assert state["rows"].tolist() == [[3.0, 4.0], [1.0, 2.0]]
    again = Memory.of(state)
    state["rows"][:] = 0
    assert again.rows(some(7, 2), 2).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_copy_goes_its_own_way() -> None:
    memory = kept((0, [1.0]))
    memory.note(some(1), torch.ones(1, 1))
    other = memory.copy()
    other.settle()
    assert len(other) == 1
    other.note(some(0), torch.full((1, 1), 9.0))
    other.settle()
    memory.settle()
    assert memory.rows(some(0, 1), 1).tolist() == [[1.0], [1.0]]
    assert other.rows(some(0, 1), 1).tolist() == [[9.0], [0.0]]


def test_rows_of_another_length_are_refused() -> None:
    memory = kept((0, [1.0, 2.0]))
    with pytest.raises(Mistake, match="size=3 is not the 2 numbers"):
        memory.rows(some(1), 3)
    with pytest.raises(Mistake, match="size=3 is not the 2 numbers"):
        memory.note(some(1), torch.ones(1, 3))
    fresh = Memory()
    fresh.note(some(1), torch.ones(1, 3))
    with pytest.raises(Mistake, match="size=2 is not the 3 numbers"):
        fresh.note(some(2), torch.ones(1, 2))
    with pytest.raises(Mistake, match="1 rows for 2 clients"):
        fresh.note(some(2, 3), torch.ones(1, 3))


def test_threads_lose_nothing() -> None:
    memory = Memory()

    def work(first: int) -> None:
        for client in range(first, first + 500):
            memory.note(some(client), torch.full((1, 2), float(client)))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 2000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory.settle()
    assert memory.state()["clients"].tolist() == list(range(2000))
    assert memory.state()["rows"][:, 0].tolist() == list(range(2000))
