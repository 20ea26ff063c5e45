"""The data of a run: what a recommended scheme makes of images and of tables."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hush.catalogue.values import Settings
from hush.data.registry import DataSet
from hush.data.samples import Samples
from hush.experiment.population import featured, odd
from hush.models.features import front as module
from hush.models.features import unit
from hush.models.features.front import front
from hush.models.features.procedural import procedural_images
from hush.parts.stages import Clip
from hush.random.seeds import PublicSeed

SETTINGS = Settings(clip=Clip(1.0), features=12, scattering_order=1)


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and few procedural images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "MANY", 300)


def rows(x: torch.Tensor) -> Samples:
    return Samples(x, torch.zeros(len(x), dtype=torch.int64))


def a_set(x: torch.Tensor, public: bool = True) -> DataSet:
    parts = rows(x[:40]), rows(x[40:50])
    return DataSet("own", *parts, 2, "a test", "none known", public=rows(x[50:]) if public else None)


@pytest.mark.parametrize(
    ("targets", "classes", "said"),
    [
        ([0, 1, 2, 1], 3, []),
        ([1, 2, 1, 2], 3, ["no training row has the label 0, of 0 to 2: classes are counted from 0"]),
        ([0, 9, 0, 9], 10, ["no training row has the label 1, 2, 3, 4, 5, ..., of 0 to 9: classes are counted from 0"]),
        ([0.0, 1.0, 1.0, 0.0], 1, ["the targets are 0.0 and 1.0, taken as numbers: give integers for classes"]),
        ([0.0, 0.5, 1.0, 0.0], 1, []),
    ],
)
def test_labels_that_are_likely_meant_otherwise(targets: list[float], classes: int, said: list[str]) -> None:
    samples = Samples(torch.zeros(4, 2), torch.tensor(targets))
    assert odd(DataSet("own", samples, samples, classes, "a test", "none known")) == said


def test_every_part_of_a_set_of_images() -> None:
    images = procedural_images(55, (1, 8, 8), PublicSeed(9))
    said: list[str] = []
    found = featured(a_set(images), SETTINGS, said.append)
    assert found.public is not None
    expected = front((1, 8, 8), 12)(images)
    for part, want in zip((found.train, found.test, found.public), expected.split([40, 10, 5]), strict=True):
        assert torch.allclose(torch.as_tensor(part.inputs), want, atol=1e-5)
    assert any("procedural images" in note for note in found.notes)
    assert said[-1] == "features of own: 55 of 55 images"
    assert [line for line in said if line.startswith("features")] == [
        f"features of own: {done} of 55 images" for done in (40, 50, 55)
    ]


def test_rows_of_two_sides_are_images_of_one_channel() -> None:
    images = procedural_images(50, (1, 8, 8), PublicSeed(9))
    flat, whole = (featured(a_set(x, public=False), SETTINGS) for x in (images[:, 0], images))
    assert torch.equal(torch.as_tensor(flat.train.inputs), torch.as_tensor(whole.train.inputs))
    assert flat.public is None


@pytest.mark.parametrize("shape", [(50,), (50, 6), (50, 1, 2, 3, 2)])
def test_other_rows_are_numbers(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = featured(replace(a_set(x, public=False), notes=("as it was",)), SETTINGS)
    assert torch.equal(torch.as_tensor(found.train.inputs), unit(x)[:40])
    assert found.notes == ("as it was",)
