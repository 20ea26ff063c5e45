"""Streams are named: the same labels the same draw, other labels another, public and secret apart."""

import numpy as np
import pytest
import torch

from hush.rng import PublicSeed, SecretSeed


def draw(generator: np.random.Generator) -> tuple[int, ...]:
    return tuple(generator.integers(2**63, size=4).tolist())


def test_public_and_secret_streams_differ() -> None:
    for labels in ((), ("cohort", 1), ("noise", 1, 2)):
        public, secret = PublicSeed(7).generator(*labels), SecretSeed.simulated(7).generator(*labels)
        assert draw(public) != draw(secret)


@pytest.mark.parametrize("kind", [PublicSeed, SecretSeed.simulated])
def test_labels_name_streams(kind) -> None:
    names = [
        (),
        ("a",),
        ("a", 1),
        ("a", "1"),
        ("a", 1, 1),
        ("a", 11),
        ("a1",),
        ("a", -1),
        ("b", 1),
        ('a", 1',),
    ]
    draws = [draw(kind(7).generator(*labels)) for labels in names]
    assert len(set(draws)) == len(names)
    assert draws == [draw(kind(7).generator(*labels)) for labels in names]
    assert draw(kind(8).generator("a")) != draws[1]


def test_streams_are_the_same_tomorrow() -> None:
    """Runs are resumed and compared across versions: these draws must never change."""
    assert PublicSeed(0).generator("init", "0.weight").integers(1000, size=3).tolist() == PUBLIC
    assert SecretSeed.simulated(0).generator("cohort", 1).integers(1000, size=3).tolist() == SECRET


PUBLIC = [717, 12, 545]
SECRET = [883, 19, 736]


@pytest.mark.parametrize("secret", [SecretSeed.simulated(3), SecretSeed.system()], ids=["simulated", "system"])
def test_normal_numbers(secret: SecretSeed) -> None:
    x = secret.normal(1_000_001, "noise", 1, 2)
    assert (x.dtype, x.shape) == (torch.float32, (1_000_001,))
    x = x.double()
    assert float(x.mean()) == pytest.approx(0, abs=5e-3)
    assert float(x.std()) == pytest.approx(1, abs=5e-3)
    assert float((x**3).mean()) == pytest.approx(0, abs=0.02)
    assert float((x**4).mean()) == pytest.approx(3, abs=0.05)
    assert float((x.abs() > 2).double().mean()) == pytest.approx(0.0455, abs=1.5e-3)
    half = len(x) // 2
    assert abs(float((x[:half] * x[half : 2 * half]).mean())) < 8e-3
    assert abs(float((x[:-1] * x[1:]).mean())) < 5e-3


def test_the_system_does_not_repeat() -> None:
    secret = SecretSeed.system()
    assert not secret.repeatable
    assert not torch.equal(secret.normal(10, "noise", 1, 1), secret.normal(10, "noise", 1, 1))
    assert draw(secret.generator("cohort", 1)) != draw(secret.generator("cohort", 1))


def test_a_simulation_repeats() -> None:
    secret = SecretSeed.simulated(3)
    assert secret.repeatable
    first = secret.normal(10, "noise", 1, 1)
    assert torch.equal(first, SecretSeed.simulated(3).normal(10, "noise", 1, 1))
    for labels in (("noise", 2, 1), ("noise", 1, 2), ("noise", 1, "server")):
        assert not torch.equal(first, secret.normal(10, *labels))
