"""Procedural images: what they look like in numbers, and that everybody gets the same ones."""

import pytest
import torch

from hush.errors import Mistake
from hush.models.features.procedural import PIECE, procedural_images
from hush.random.seeds import PublicSeed

SEED = PublicSeed(0)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 20), (2, 5, 9), (4, 1, 1)])
def test_any_shape_and_values_from_0_to_1(shape: tuple[int, int, int]) -> None:
    made = procedural_images(20, shape, SEED)
    assert made.shape == (20, *shape)
    assert made.dtype == torch.float32
    assert made.min() >= 0.0
    assert made.max() <= 1.0


def test_an_image_depends_on_its_number_alone() -> None:
    many = procedural_images(PIECE + 40, (1, 12, 10), SEED)
    assert torch.equal(procedural_images(30, (1, 12, 10), SEED), many[:30])
    assert torch.equal(procedural_images(PIECE + 3, (1, 12, 10), SEED), many[: PIECE + 3])
    assert not torch.equal(many[:40], many[PIECE:])
    assert not torch.equal(procedural_images(30, (1, 12, 10), PublicSeed(1)), many[:30])


def test_they_stay_the_same_from_version_to_version() -> None:
    """Other images are another basis: whoever changes them raises the versions in the front."""
    made = procedural_images(100, (1, 28, 28), SEED)
    assert made.mean().item() == pytest.approx(0.307620, abs=1e-5)
    assert made[7].std().item() == pytest.approx(0.179346, abs=1e-5)


def test_what_there_is_to_see() -> None:
    made = procedural_images(1000, (1, 28, 28), SEED)[:, 0]
    even = (made == made.flip(2)).all((1, 2)).float().mean()
    assert 0.44 < even < 0.56
    corners = made[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    dark = (corners == 0).all(1).float().mean()  # a dark, plain ground that no shape hides in all four corners
    assert 0.25 < dark < 0.5
    assert (made.flatten(1).std(1) > 0.01).float().mean() > 0.97  # and something on it
    # Surfaces are smooth or rough: neighbours are alike in many images, not in all.
    steps = (made[:, :, 1:] - made[:, :, :-1]).abs().mean((1, 2))
    assert (steps < 0.03).float().mean() > 0.2
    assert (steps > 0.1).float().mean() > 0.02


def test_shapes_cover_about_the_middle() -> None:
    """On dark plain grounds the light is more often in the middle than at the border."""
    made = procedural_images(2000, (1, 28, 28), SEED)[:, 0]
    dark = made[(made[:, [0, 0, -1, -1], [0, -1, 0, -1]] == 0).all(1)]
    lit = (dark > 0).float().mean(0)
    assert lit[12:16, 12:16].min() > 0.5
    assert lit[:, [0, -1]].max() < 0.5 * lit[12:16, 12:16].min()


def test_colours_are_drawn_apart() -> None:
    made = procedural_images(200, (3, 16, 16), SEED)
    assert (made[:, 0] - made[:, 1]).abs().mean() > 0.05


@pytest.mark.parametrize(
    ("count", "shape", "sentence"),
    [
        (0, (1, 8, 8), "count=0 must be at least 1"),
        (5, (8, 8), r"shape=\(8, 8\) must be three positive numbers"),
        (5, (1, 0, 8), r"shape=\(1, 0, 8\) must be three positive numbers"),
    ],
)
def test_refused(count: int, shape: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        procedural_images(count, shape, SEED)
