"""Rows of a table: one length, and the constant."""

import torch

from hush.models.features import unit


def test_norm_and_constant() -> None:
    rows = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0))
    found = unit(rows)
    assert found.shape == (5, 7)
    assert torch.allclose(found[:, :-1].norm(dim=1), torch.ones(5))
    assert torch.allclose(found[0, :-1] * rows[0].norm(), rows[0].flatten())
    assert found[:, -1].tolist() == [torch.tensor(0.2).item()] * 5


def test_zeros_stay() -> None:
    assert unit(torch.zeros(2, 4))[:, :-1].abs().sum() == 0


def test_rows_of_a_single_number() -> None:
    """One column, whether the table says so or not."""
    numbers = torch.tensor([2.0, -3.0, 0.0])
    assert torch.equal(unit(numbers), unit(numbers[:, None]))
    assert unit(numbers)[:, 0].tolist() == [1.0, -1.0, 0.0]
