"""From images to rows by public numbers, on small images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from hush.errors import Mistake
from hush.models.features import front as module
from hush.models.features.basis import Basis, normalised
from hush.models.features.front import Front, front
from hush.models.features.module import FrontModule
from hush.models.features.procedural import procedural_images
from hush.models.features.scattering import Scattering
from hush.models.features.store import place
from hush.random.seeds import PublicSeed


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and few procedural images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "MANY", 400)
    monkeypatch.setattr(module, "FEW", 150)


def test_it_is_scattering_normalised_in_a_basis() -> None:
    made = front((1, 12, 8), 20, order=2, seed=3)
    images = procedural_images(300, (1, 12, 8), PublicSeed(9))
    scattering = Scattering(2)
    procedural = normalised(scattering(procedural_images(400, (1, 12, 8), PublicSeed(3))))
    slow = Basis.fit(procedural, 20)(normalised(scattering(images)))
    assert made.width == 21
    assert torch.allclose(made(images), slow, atol=1e-4)


def test_colours_are_normalised_apart() -> None:
    made = front((3, 8, 8), 20)
    images = procedural_images(40, (3, 8, 8), PublicSeed(9))
    parts = [normalised(Scattering(1)(images[:, c : c + 1])) for c in range(3)]
    assert torch.allclose(made(images)[:, :21], made.basis(torch.cat(parts, 1)), atol=1e-5)


@pytest.mark.parametrize("channels", [2, 3, 5])
def test_colours_are_beside_them(channels: int) -> None:
    """As the slow twin has it: the sum of the channels and their differences at 4 by 4 places, scaled."""
    shape = (channels, 12, 8)
    made, images = front(shape, 20), procedural_images(6, shape, PublicSeed(9))

    def slow(image: np.ndarray) -> np.ndarray:
        places = np.array([[image[:, 3 * i : 3 * i + 3, 2 * j : 2 * j + 2] for j in range(4)] for i in range(4)])
        c = places.mean((3, 4)).reshape(16, channels)
        planes = [c.sum(1) / channels**0.5]
        planes += [(c[:, :j].sum(1) - j * c[:, j]) / (j * (j + 1)) ** 0.5 for j in range(1, channels)]
        return np.concatenate(planes)

    usual = np.stack([slow(one) for one in procedural_images(1000, shape, PublicSeed(0)).double().numpy()])
    rows = (np.stack([slow(one) for one in images.double().numpy()]) - usual.mean(0)) / usual.std(0, ddof=1)
    found = made(images)[:, 21:].double().numpy()
    assert made.width == 21 + 16 * channels
    np.testing.assert_allclose(found, 0.4 * rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((1, 28, 28), (28, 28)),
        ((3, 32, 32), (32, 32)),
        ((1, 64, 48), (32, 24)),
        ((2, 300, 20), (32, 8)),
        ((1, 33, 5), (32, 8)),
        ((1, 3, 20), (8, 20)),
        ((4, 1, 50), (8, 32)),
        ((2, 2, 2), (8, 8)),
    ],
)
def test_large_images_are_shrunk_and_narrow_ones_stretched(shape: tuple[int, int, int], sides: tuple[int, int]) -> None:
    assert module._sides(shape) == sides


def test_any_size_makes_rows() -> None:
    """Rows of numbers that differ from image to image, whatever the sides and channels."""
    for shape in ((1, 8, 8), (2, 70, 40), (3, 4, 9), (5, 9, 13), (1, 3, 20), (2, 1, 50), (2, 2, 2), (1, 900, 2)):
        rows = front(shape, 10)(procedural_images(50, shape, PublicSeed(1)))
        assert rows.shape == (50, 11 if shape[0] == 1 else 11 + 16 * shape[0])
        assert torch.isfinite(rows).all()
        assert rows.std(0).max() > 0.1


def test_one_colour_all_over() -> None:
    """Nothing to see and no NaN: black, white and grey are about the same, and so are 0 to 1 and 0 to 255."""
    made = front((1, 8, 8), 20)
    flat = torch.tensor([0.0, 0.5, 1.0, 255.0]).view(4, 1, 1, 1).expand(4, 1, 8, 8)
    rows = made(flat)
    assert torch.isfinite(rows).all()
    assert (rows[1] - rows[3]).norm() < 0.05
    images = procedural_images(40, (1, 8, 8), PublicSeed(9))
    images = images[images.flatten(1).std(1) > 0.05]
    assert len(images) > 20
    assert (made(images) * made(255 * images)).sum(1).min() > 0.9


def test_a_narrow_image_is_told_by_where_it_is_bright() -> None:
    """One row of 40 pixels, a bright spot on the left, in the middle or on the right."""
    draw = np.random.default_rng(0)
    kind = draw.integers(0, 3, 600)
    spots = np.exp(-(((np.arange(40) - 8 - 12 * kind[:, None] - draw.normal(0, 1, (600, 1))) / 3) ** 2))
    images = torch.tensor(spots + 0.3 * draw.random((600, 40)), dtype=torch.float32).view(600, 1, 1, 40)
    rows = front((1, 1, 40), 20)(images).numpy()
    model = LogisticRegression(C=100.0, max_iter=2000).fit(rows[:400], kind[:400])
    assert np.mean(model.predict(rows[400:]) == kind[400:]) > 0.9


def test_whatever_is_beside_a_image() -> None:
    made = front((1, 8, 8), 30)
    images = procedural_images(600, (1, 8, 8), PublicSeed(9))
    told: list[tuple[int, int]] = []
    rows = made(images, lambda *far: told.append(far))
    assert told == [(256, 600), (512, 600), (600, 600)]
    assert torch.allclose(made(images[100:103]), rows[100:103], atol=1e-5)


def test_everybody_makes_the_same() -> None:
    """With or without files; other numbers are another front."""
    images = procedural_images(20, (1, 8, 8), PublicSeed(9))
    rows = front((1, 8, 8), 20)(images)
    assert torch.equal(front((1, 8, 8), 20)(images), rows)
    for file in place().iterdir():
        file.unlink()
    assert torch.equal(front((1, 8, 8), 20)(images), rows)
    assert not torch.allclose(front((1, 8, 8), 20, seed=1)(images), rows, atol=0.1)


def test_it_stays_the_same_from_version_to_version() -> None:
    """Files in the cache are known by numbers: whoever changes what these give raises its version in the front."""
    images = procedural_images(2, (1, 8, 8), PublicSeed(9))
    first = [[0.2783, -0.3034, -0.0715, 0.7047, -0.5735, 0.2], [-0.1918, 0.9532, -0.2174, 0.0850, -0.0127, 0.2]]
    second = [[0.2813, -0.5350, 0.3695, 0.6394, 0.2988, 0.2], [-0.2518, 0.9043, 0.0740, 0.2973, -0.1582, 0.2]]
    for order, rows in ((1, first), (2, second)):
        assert torch.allclose(front((1, 8, 8), 5, order=order)(images), torch.tensor(rows), atol=1e-3)


def test_the_basis_is_made_once_for_all_numbers_of_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "procedural_images", lambda *given: (asked.append(given), procedural_images(*given))[1])
    few, many = (front((1, 8, 8), count, progress=lambda *far: told.append(far)) for count in (5, 30))
    assert len(asked) == 1
    assert told == [(256, 400), (400, 400)]
    assert torch.equal(few.basis.directions, many.basis.directions[:, :5])
    assert few.numbers != many.numbers


def test_features_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = front((1, 8, 8), 20)
    images = procedural_images(300, (1, 8, 8), PublicSeed(9))
    told: list[int] = []

    def tell(done: int, of: int) -> None:
        told.append(done)

    first = made.features(images, tell)
    assert told == [256, 300]
    assert torch.equal(made.features(images, tell), first)
    assert torch.equal(front((1, 8, 8), 20).features(images.clone(), tell), first)
    assert told == [256, 300]
    made.features(images[:299], tell)
    changed = images.clone()
    changed[7, 0, 0, 0] = 0.5 - changed[7, 0, 0, 0]
    made.features(changed, tell)
    front((1, 8, 8), 21).features(images, tell)
    monkeypatch.setattr(module, "GREY", 0)
    front((1, 8, 8), 20).features(images, tell)
    assert told == [256, 300, 256, 299] + 3 * [256, 300]


def test_more_directions_than_there_are_is_all_of_them() -> None:
    """A run's configuration says how many there are: run again, it takes the same features from the cache."""
    asked = front((1, 8, 8), 600)
    there = front((1, 8, 8), asked.width - 1)
    assert asked.numbers == there.numbers
    assert asked.numbers["directions"] == asked.width - 1 < 600


def test_worth_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain regression on 40 numbers tells digits apart, though the front never saw one."""
    monkeypatch.setattr(module, "MANY", 1000)
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16
    rows = front((1, 8, 8), 40)(images).numpy()
    model = LogisticRegression(C=100.0, max_iter=2000).fit(rows[:1200], found.target[:1200])
    assert np.mean(model.predict(rows[1200:]) == found.target[1200:]) > 0.9


def test_refused() -> None:
    made: Front = front((1, 8, 8), 5)
    with pytest.raises(Mistake, match=r"images of shape \(1, 9, 8\) do not fit a front for \(1, 8, 8\)"):
        made(torch.zeros(2, 1, 9, 8))
    with pytest.raises(Mistake, match="features=0 must be 1 to 600"):
        front((1, 8, 8), 0)
    with pytest.raises(Mistake, match="order=3 must be 1 or 2"):
        front((1, 8, 8), 5, order=3)
    with pytest.raises(Mistake, match=r"images of one pixel show nothing: give them as a table of shape \(rows, 3\)"):
        front((3, 1, 1), 5)


@pytest.mark.parametrize("shape", [(1, 12, 8), (3, 12, 8)])
def test_as_a_module(shape: tuple[int, int, int]) -> None:
    """What is exported gives the same rows up to rounding."""
    made, images = front(shape, 20), procedural_images(6, shape, PublicSeed(9))
    exported = torch.export.export(FrontModule(made, flat=False), (images,)).module()
    torch.testing.assert_close(exported(images), made(images), rtol=1e-4, atol=1e-5)
