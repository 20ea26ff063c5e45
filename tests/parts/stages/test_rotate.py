"""A rotation keeps the norm, adds up, comes back, and leaves no number of a sum much larger than the others."""

import math

import numpy as np
import pytest
import torch
from contexts import Context
from scipy import fft

from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import Clip, Noise, Quantise, Rotate, Sign
from hush.parts.stages.rotate import LENGTH
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(3)


def context(size: int) -> Context:
    plan = Plan(1, torch.zeros(1), None, 4.0, 4.0)
    return Context(Spec(size, l2=1.0), plan, np.arange(1), torch.ones(1), SECRET)


def rows(count: int, size: int) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(size))


def slow(x: np.ndarray, signs: np.ndarray, width: int, chunks: int) -> np.ndarray:
    """Chunk p has every chunks-th number from p on, times its sign; a cosine transform of each, by its matrix."""
    matrix = fft.dct(np.eye(width), axis=0, norm="ortho")
    out = np.zeros(width * chunks)
    for p in range(chunks):
        chunk = np.zeros(width)
        part = (x * signs)[p::chunks]
        chunk[: len(part)] = part
        out[p::chunks] = matrix @ chunk
    return out


@pytest.mark.parametrize("size", [1, 7, 50, 997, LENGTH, LENGTH + 1])
def test_there_and_back(size: int) -> None:
    x, stage, ctx = rows(5, size), Rotate(4), context(size)
    turned = stage.encode(x.clone(), ctx)
    sent = stage.spec(ctx.spec).size
    assert turned.shape == (5, sent)
    assert size <= sent <= 1.01 * size + 2
    assert torch.allclose(turned.norm(dim=1), x.norm(dim=1), rtol=1e-5)
    back = stage.decode(Total(turned.double().sum(0), 5, 5.0), ctx).body
    assert torch.allclose(back, x.double().sum(0), atol=1e-5)


def test_the_slow_twin() -> None:
    size = LENGTH + 11
    x, width, chunks = rows(1, size), -(-(size) // 2), 2
    width = int(fft.next_fast_len(width))
    signs = Rotate(9).decode(Total(Rotate(9).encode(torch.ones(1, size), context(size))[0], 1, 1.0), context(size)).body
    assert torch.allclose(signs, torch.ones(size, dtype=torch.float64), atol=1e-5)
    drawn = np.sign(_signs_of(9, size))
    found = Rotate(9).encode(x.clone(), context(size))[0].numpy()
    assert np.abs(found - slow(x[0].numpy().astype(float), drawn, width, chunks)).max() < 1e-4


def _signs_of(seed: int, size: int) -> np.ndarray:
    """By the inverse of what becomes of ones."""
    turned = Rotate(seed).encode(torch.ones(1, size), context(size))[0].numpy().astype(float)
    width = len(turned) // 2
    return fft.idct(turned.reshape(width, 2), axis=0, norm="ortho").ravel()[:size]


def test_one_row_or_many_are_the_same_bits() -> None:
    x = rows(6, 500)
    together = Rotate().encode(x.clone(), context(500))
    for row, found in zip(x, together, strict=True):
        assert torch.equal(Rotate().encode(row.unsqueeze(0).clone(), context(500))[0], found)


def test_it_spreads_what_a_few_weights_have() -> None:
    """Half of the norm in one number, the same at every client: 0.7 of the sum's norm before, near normal after."""
    size = 20_000
    x = rows(1, size) / math.sqrt(2 * size)
    x[0, 17] = math.sqrt(0.5)
    turned = Rotate().encode(x.clone(), context(size))[0]
    assert float(x.abs().max()) > 0.7
    assert float(turned.abs().max()) < 6 / math.sqrt(size)


def test_seeds_are_other_rotations() -> None:
    x = rows(1, 300)
    assert not torch.allclose(Rotate(1).encode(x.clone(), context(300)), Rotate(2).encode(x.clone(), context(300)))


@pytest.mark.parametrize(
    "before",
    [Noise(1.0).spec(Spec(9, l2=1.0)), Sign().spec(Spec(9)), Quantise(5.0, 8).spec(Clip(1.0).spec(Spec(9)))],
)
def test_refused_behind_what_it_would_undo(before: Spec) -> None:
    with pytest.raises(Mistake, match="put it behind Clip"):
        Rotate().spec(before)
