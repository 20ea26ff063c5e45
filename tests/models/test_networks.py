"""The networks by name: their sizes, both engines against a plain loop, and what they refuse."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from parts.trainers.plainly import live_of, plain
from torch import nn

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.models.networks import MODELS, build
from hush.models.traits import traits
from hush.models.weights import flatten
from hush.parts.trainers import Sgd
from hush.random.seeds import PublicSeed, SecretSeed

SHAPES = {"cnn-small": (1, 28, 28), "cnn-color": (3, 32, 32)}


def network(name: str, shape: tuple[int, ...], classes: int = 10) -> nn.Module:
    return build(name, torch.Size(shape), classes, PublicSeed(0))


def task(name: str) -> Task:
    """Three clients with random images, one of them with fewer than a batch."""
    random = torch.Generator().manual_seed(4)
    inputs = torch.rand(15, *SHAPES[name], generator=random)
    rows = Samples(inputs, torch.randint(0, 10, (15,), generator=random))
    split = Split(torch.randperm(15, generator=random), torch.tensor([0, 3, 8, 15]))
    return Task(network(name, SHAPES[name]), F.cross_entropy, rows, split, rows, None)


@pytest.mark.parametrize(
    ("name", "shape", "classes", "weights"),
    [
        ("cnn", (1, 28, 28), 10, 1_663_370),
        ("cnn-small", (1, 28, 28), 10, 52_266),
        ("cnn-color", (3, 32, 32), 10, 188_810),
        ("cnn-color", (3, 32, 32), 100, 188_810 + 129 * 90),
        ("mlp", (24_428,), 1, 24_428 * 200 + 200 + 200 * 201 + 201),
        ("linear", (1, 8, 8), 10, 650),
    ],
)
def test_the_weights_are_counted(name: str, shape: tuple[int, ...], classes: int, weights: int) -> None:
    assert len(flatten(network(name, shape, classes))) == weights


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("which", ["all", "few", "last"])
def test_both_engines_are_a_plain_loop(name: str, which: str) -> None:
    made, trainer, secret, everyone = task(name), Sgd(0.1, 2, 4), SecretSeed.simulated(1), np.arange(3)
    assert traits(made.model, made.train.inputs).plain
    assert traits(made.model, made.train.inputs).rowwise
    live, start = live_of(made, which), flatten(made.model)
    slow = plain(made, trainer, live, everyone, secret, 1)
    assert slow.norm(dim=1).min() > 1e-4
    for kind in ("lockstep", "vmap"):
        fast = trainer.fit(made.block(everyone, secret), Plan(1, start, live), Engine(kind))
        assert ((fast.double() - slow).norm(dim=1) / slow.norm(dim=1)).max() < 1e-5, kind


@pytest.mark.parametrize("shape", [(1, side, other) for side in range(4, 12) for other in (side, 13)])
def test_small_and_odd_images_fit(shape: tuple[int, int, int]) -> None:
    names = [name for name in MODELS if name != "cnn-color"] + ["cnn-color"] * (min(shape[1:]) >= 8)
    for name in names:
        size = (3, *shape[1:]) if name == "cnn-color" else shape
        assert network(name, size)(torch.rand(2, *size)).shape == (2, 10)


def test_the_weights_come_from_the_seed() -> None:
    one, same = (flatten(network("cnn-small", (1, 28, 28))) for _ in range(2))
    assert torch.equal(one, same)
    other = build("cnn-small", torch.Size((1, 28, 28)), 10, PublicSeed(1))
    assert not torch.equal(one, flatten(other))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        (
            "cnn-small",
            (1, 3, 28),
            r"model 'cnn-small' needs images of at least 4x4, not inputs of shape \(1, 3, 28\)",
        ),
        ("cnn-small", (784,), "'cnn-small' needs images of at least 4x4.*: use mlp"),
        ("cnn-small", (28, 28, 1), "'cnn-small' needs images"),
        ("cnn-color", (3, 32, 7), "'cnn-color' needs images of at least 8x8.*: use mlp"),
        ("cnn-color", (32, 32, 3), "'cnn-color' needs images of at least 8x8"),
        ("cnn-color", (1, 28, 28), "'cnn-color' needs images of 3 colours, not of 1 channels: use cnn-small"),
        ("cnn", (1, 3, 3), "'cnn' needs images of at least 4x4"),
        (
            "cnn-tiny",
            (1, 28, 28),
            "'cnn-tiny' is not known: choose cnn, cnn-small, cnn-color, mlp, linear, head or write",
        ),
    ],
)
def test_what_does_not_fit_is_refused(name: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(Mistake, match=words) as caught:
        network(name, shape)
    assert "\n" not in str(caught.value)
