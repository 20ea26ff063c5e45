"""Streams are named: the same labels the same draw, other labels another, public and secret apart."""

import numpy as np
import pytest
import torch
from scipy import stats

from hush.random.seeds import PublicSeed, SecretSeed


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
    assert stats.kstest(x.double().numpy(), "norm").pvalue > 1e-7


def test_rows_are_named_by_labels_and_number() -> None:
    """The same numbers in any block, others for any other name; what they are added to does not matter."""
    secret, x = SecretSeed.simulated(3), torch.arange(30.0).reshape(3, 10)
    block = secret.add_normals(x.clone(), 0.5, [7, 2, 9], "noise", 1)
    alone = secret.add_normals(x[1:2].clone(), 0.5, [2], "noise", 1)
    assert torch.equal(block[1:2], alone)
    drawn = [secret.add_normals(torch.zeros(1, 10), 1.0, [row], *labels) for row, labels in NAMES]
    assert len({tuple(row.flatten().tolist()) for row in drawn}) == len(NAMES)
    torch.testing.assert_close(alone, x[1:2] + 0.5 * drawn[0])


NAMES = [
    (2, ("noise", 1)),
    (3, ("noise", 1)),
    (-2, ("noise", 1)),
    (2**40, ("noise", 1)),
    (2, ("noise", 2)),
    (0, ("noise", 1, 2)),
    (0, ("noise", 1, "server")),
]


def test_the_system_gives_every_row_its_own() -> None:
    """Even if somebody names two rows alike: shared noise would cancel."""
    one, other = SecretSeed.system().add_normals(torch.zeros(2, 10), 1.0, [3, 3], "noise", 1)
    assert not torch.equal(one, other)


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
