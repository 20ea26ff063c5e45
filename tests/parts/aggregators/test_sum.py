"""The sum goes from client to client in float64: the same bits whatever the blocks, and nothing is kept."""

import weakref
from collections.abc import Iterator
from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hush.core.plain import Sum
from hush.core.spec import Asked, Uploads

SIZE = 3
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
uploads = st.lists(st.lists(numbers, min_size=SIZE, max_size=SIZE), min_size=1, max_size=12)


@given(rows=uploads, cuts=st.lists(st.integers(0, 12), max_size=5))
def test_in_the_order_of_the_clients(rows: list[list[float]], cuts: list[int]) -> None:
    """As Python adds, one after the other, also where blocks are empty or cut anywhere."""
    x, sizes = torch.tensor(rows, dtype=torch.float32), torch.arange(1, len(rows) + 1)
    ends = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    total = Sum().combine([Uploads(x[a:b], sizes[a:b]) for a, b in pairwise(ends)], Asked(SIZE))
    expected = [0.0] * SIZE
    for row in rows:
        expected = [s + v for s, v in zip(expected, row, strict=True)]
    assert total.body.dtype == torch.float64
    assert total.body.tolist() == expected
    assert (total.count, total.weight) == (len(rows), float(sizes.sum()))


def test_the_order_is_a_matter_of_bits() -> None:
    """The test above could fail: another order is another sum."""
    row = torch.tensor([[1e30, 1.0, 1.0], [1.0, 1.0, 1.0], [-1e30, 1.0, 1.0]])
    sums = {
        float(Sum().combine([Uploads(row[order], torch.ones(3))], Asked(3)).body[0]) for order in ([0, 1, 2], [0, 2, 1])
    }
    assert sums == {0.0, 1.0}


def test_nobody() -> None:
    total = Sum().combine([], Asked(SIZE))
    assert (total.body.tolist(), total.count, total.weight) == ([0.0] * SIZE, 0, 0.0)


def test_blocks_are_not_kept() -> None:
    """Memory does not grow with the cohort: at most the block before is still there."""
    seen: list[weakref.ref[Tensor]] = []

    def blocks() -> Iterator[Uploads]:
        for _ in range(6):
            rows = torch.ones(2, SIZE)
            seen.append(weakref.ref(rows))
            yield Uploads(rows, torch.ones(2))
            del rows
            assert sum(ref() is not None for ref in seen) <= 1

    assert Sum().combine(blocks(), Asked(SIZE)).body.tolist() == [12.0] * SIZE
