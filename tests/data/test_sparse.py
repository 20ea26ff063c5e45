"""Sparse rows against the dense matrix that they stand for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake


@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 12))
def test_rows_are_those_of_the_dense_matrix(seed: int, rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, width, generator=generator) * (torch.rand(rows, width, generator=generator) < 0.3)
    order = torch.randint(rows, (5,), generator=generator)
    sparse = Sparse.of(dense)
    assert sparse.shape == dense.shape
    assert torch.equal(sparse.dense(), dense)
    assert torch.equal(sparse[order], dense[order])
    assert torch.equal(sparse[1:3], dense[1:3])
    assert torch.equal(sparse.index_select(0, order), dense[order])
    assert torch.equal(sparse.take(order).take(torch.tensor([4, 0])).dense(), dense[order[[4, 0]]])
    assert sparse.range() == (float(dense.min()), float(dense.max()))


def test_what_is_no_matrix_is_refused() -> None:
    good = Sparse.of(torch.eye(3))
    with pytest.raises(Mistake, match="outside 0 to 1"):
        Sparse(good.starts, good.columns, good.values, 2)
    with pytest.raises(Mistake, match="starts from 0"):
        Sparse(good.starts, good.columns[:2], good.values[:2], 3)
    with pytest.raises(Mistake, match="int32 columns"):
        Sparse(good.starts, good.columns.long(), good.values, 3)


@pytest.mark.parametrize("columns", [[1, 1], [2, 1]])
def test_columns_that_do_not_rise_are_no_samples(columns: list[int]) -> None:
    """A column that comes twice would count otherwise in the norm that is clipped than in the sum."""
    starts, values = torch.tensor([0, 1, 3, 3, 4]), torch.ones(4)
    rows = Sparse(starts, torch.tensor([2, *columns, 0], dtype=torch.int32), values, 3)
    with pytest.raises(Mistake, match="row 1 of the sparse inputs"):
        Samples(rows, torch.zeros(4, dtype=torch.int64))
    Samples(Sparse(starts, torch.tensor([2, 0, 1, 0], dtype=torch.int32), values, 3), torch.zeros(4, dtype=torch.int64))
