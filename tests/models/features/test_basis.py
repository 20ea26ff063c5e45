"""Normalised features and the public basis, against slow twins in numpy."""

import numpy as np
import pytest
import torch

from hush.errors import Mistake
from hush.models.features.basis import Basis, normalised


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("channels", [1, 2, 3, 17, 81])
def test_normalised_by_groups_of_three(channels: int) -> None:
    x = draw(4, channels, 3, 5) * torch.linspace(0.01, 2, channels).view(-1, 1, 1) + 0.3
    found = normalised(x)
    slow = np.empty(x.shape)
    for row in range(4):
        for first in range(0, channels, 3):
            group = x[row, first : first + 3].double().numpy()
            slow[row, first : first + 3] = (group - group.mean()) / (group.std() + 1e-3)
    np.testing.assert_allclose(found.numpy(), slow, rtol=1e-4, atol=1e-5)


def test_brightness_and_contrast_are_gone() -> None:
    x = draw(5, 17, 4, 4)
    assert torch.allclose(normalised(3 * x + 7), normalised(x), atol=3e-3)
    assert torch.equal(normalised(torch.zeros(2, 4, 3, 3)), torch.zeros(2, 4, 3, 3))


def slow(x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the scaled directions, with the largest entry of each positive."""
    mean = x.mean(0)
    values, vectors = np.linalg.eigh(np.cov((x - mean).T, bias=True))
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    for k in range(count):
        vectors[:, k] *= np.sign(vectors[np.abs(vectors[:, k]).argmax(), k])
    return mean, vectors * (values / values[0] + 1e-3) ** -0.4


@pytest.mark.parametrize(("rows", "size"), [(200, 30), (30, 200)])
def test_the_principal_directions(rows: int, size: int) -> None:
    """Whichever is more, rows or features."""
    x = draw(rows, size) * torch.logspace(0, -2, size) + draw(1, size, seed=2)
    basis = Basis.fit(x, 12)
    mean, directions = slow(x.double().numpy(), 12)
    np.testing.assert_allclose(basis.mean.numpy(), mean, atol=1e-6)
    np.testing.assert_allclose(basis.directions.numpy(), directions, atol=1e-4)


def test_rows_have_norm_1_and_a_constant() -> None:
    x = draw(60, 3, 2, 4)
    basis = Basis.fit(x, 7)
    rows = basis(x)
    assert basis.size == 7
    assert rows.shape == (60, 8)
    assert torch.allclose(rows[:, :7].norm(dim=1), torch.ones(60))
    assert torch.equal(rows[:, 7], torch.full((60,), 0.2))
    plain = (x.flatten(1).double().numpy() - basis.mean.double().numpy()) @ basis.directions.double().numpy()
    np.testing.assert_allclose(rows[:, :7], plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-5)
    assert torch.equal(basis(basis.mean.view(1, 3, 2, 4))[0, :7], torch.zeros(7))


def test_partly_white() -> None:
    """Along a direction of much less variance coordinates are stretched, and not to the same length."""
    x = draw(4000, 3) * torch.tensor([10.0, 1.0, 0.001])
    stretched = ((x - Basis.fit(x, 3).mean) @ Basis.fit(x, 3).directions).std(0)
    ratio = 0.01
    assert (stretched[1] / stretched[0]).item() == pytest.approx(0.1 * ((ratio + 1e-3) / 1.001) ** -0.4, rel=0.05)
    assert stretched[2] / stretched[0] < 0.002


def test_the_first_directions_are_those_of_a_smaller_fit() -> None:
    x = draw(100, 20)
    whole, few = Basis.fit(x, 15), Basis.fit(x, 4)
    assert torch.equal(whole.first(4).directions, few.directions)
    assert torch.equal(whole.first(4)(x), few(x))


def test_no_direction_is_rounding() -> None:
    x = (draw(80, 3) @ draw(3, 25, seed=2)).double() + 5.0
    assert Basis.fit(x, 10).size == 3
    assert Basis.fit(x[:20], 10).size == 3


def test_refused() -> None:
    x = draw(10, 4)
    with pytest.raises(Mistake, match="features=0 must be at least 1"):
        Basis.fit(x, 0)
    with pytest.raises(Mistake, match="1 rows of features have no directions"):
        Basis.fit(x[:1], 2)
    with pytest.raises(Mistake, match="all rows of features are the same"):
        Basis.fit(torch.ones(5, 4), 2)
    with pytest.raises(Mistake, match="features=5 must be 1 to 4: as many as these images have"):
        Basis.fit(x, 10).first(5)
