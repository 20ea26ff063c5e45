"""Compressive sensing: the map against its formula, and what the recovery finds, exactly and at worst."""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from contexts import Context
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.packing import Codes
from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.models import workers
from hush.parts.stages import AdaptiveClip, Clip, Noise, Sense, Sign, Weigh
from hush.parts.stages.sense import _map
from hush.random.seeds import SecretSeed

Matrix = npt.NDArray[np.float64]


def encode(sense: Sense, x: torch.Tensor) -> torch.Tensor:
    plan = Plan(1, torch.zeros(x.shape[1]), None, float(len(x)), float(len(x)))
    ctx = Context(Spec(x.shape[1]), plan, np.arange(len(x)), torch.ones(len(x)), SecretSeed.simulated(0))
    return sense.encode(x.clone(), ctx)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sparse(size: int, set: int, seed: int = 0, signs: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.zeros(size)
    values = torch.randn(set, generator=generator)
    x[torch.randperm(size, generator=generator)[:set]] = values.sign() if signs else values
    return x


def error(found: torch.Tensor, true: torch.Tensor) -> float:
    return float((found - true).norm() / true.norm())


def cosines(width: int) -> Matrix:
    """The orthonormal DCT-II: row k is sqrt(2/N) cos(pi k (2 j + 1) / 2N), and the first divided by sqrt(2)."""
    k, j = np.arange(width)[:, None], np.arange(width)[None]
    matrix = np.sqrt(2 / width) * np.cos(np.pi * k * (2 * j + 1) / (2 * width))
    matrix[0] /= math.sqrt(2)
    return matrix


def dense(sense: Sense, size: int) -> Matrix:
    """A, one matrix for the whole update: number j of chunk p is number p + j * chunks of the update."""
    cut = _map(sense, size)
    transform = cosines(cut.width)
    rows = []
    for place in cut.places:
        row, chunk = divmod(int(place), sense.chunks)
        whole = np.zeros(cut.width * sense.chunks)
        whole[chunk :: sense.chunks] = transform[row]
        rows.append(whole[:size])
    return np.stack(rows)


@pytest.mark.parametrize(("size", "chunks", "ratio"), [(96, 4, 0.25), (101, 7, 0.3), (50, 50, 1.0), (37, 1, 0.5)])
def test_the_map_is_the_formula(size: int, chunks: int, ratio: float) -> None:
    sense = Sense(ratio, chunks)
    x = normal(3, size)
    by_formula = x.double().numpy() @ dense(sense, size).T
    assert by_formula.shape[1] == math.floor(ratio * size + 1e-9) == sense.spec(Spec(size)).size
    torch.testing.assert_close(encode(sense, x), torch.from_numpy(by_formula).float(), rtol=1e-5, atol=1e-5)


def test_rows_are_distinct_and_spread_evenly() -> None:
    cut = _map(Sense(0.3, 7), 1001)
    assert len(np.unique(cut.places)) == len(cut.places) == 300
    found = np.bincount(cut.places % 7, minlength=7)
    assert found.tolist() == cut.counts.tolist()
    assert found.max() - found.min() <= 1


def test_all_rows_keep_the_norm() -> None:
    x = normal(4, 30 * 77)
    sense = Sense(1.0, 30)
    y = encode(sense, x)
    torch.testing.assert_close(y.norm(dim=1), x.norm(dim=1), rtol=1e-6, atol=0)
    torch.testing.assert_close(sense.recover(y[0], x.shape[1]), x[0], rtol=1e-5, atol=1e-5)


@settings(max_examples=50, deadline=None)
@given(size=st.integers(20, 300), chunks=st.integers(1, 10), ratio=st.floats(0.5, 1.0), seed=st.integers(0, 99))
def test_nothing_gets_longer(size: int, chunks: int, ratio: float, seed: int) -> None:
    x = normal(2, size, seed=seed)
    assert bool((encode(Sense(ratio, chunks, seed), x).norm(dim=1) <= x.norm(dim=1) * (1 + 1e-6)).all())
    assert np.linalg.norm(dense(Sense(ratio, chunks, seed), size), 2) <= 1 + 1e-9


def test_it_is_linear_and_a_row_does_not_depend_on_the_block() -> None:
    sense, x = Sense(0.2, 10), normal(5, 3000)
    y = encode(sense, x)
    torch.testing.assert_close(encode(sense, x.sum(0, keepdim=True))[0], y.sum(0), rtol=1e-4, atol=1e-5)
    for row, sent in zip(x, y, strict=True):
        assert torch.equal(encode(sense, row[None])[0], sent)


def test_the_seed_draws_the_rows() -> None:
    x = normal(1, 3000)
    assert torch.equal(encode(Sense(0.2, 10, seed=1), x), encode(Sense(0.2, 10, seed=1), x))
    one, other = _map(Sense(0.2, 10, seed=1), 3000), _map(Sense(0.2, 10, seed=2), 3000)
    assert len(np.intersect1d(one.places, other.places)) < 0.4 * len(one.places)  # 0.2 at random
    in_one_chunk = [np.sort(one.places[one.places % 10 == chunk] // 10) for chunk in (0, 1)]
    assert not np.array_equal(*in_one_chunk)


@pytest.mark.parametrize("signs", [False, True])
def test_a_sparse_update_is_found(signs: bool) -> None:
    """1 % of the numbers, 10 % sent; chunks of the size that the paper's network has."""
    size = 20 * 8317
    x = sparse(size, size // 100, signs=signs)
    sense = Sense(0.1, 20)
    y = encode(sense, x[None])[0]
    assert error(sense.recover(y, size), x) < 0.01
    assert error(replace(sense, iterations=60).recover(y, size), x) < 1e-4
    assert error(replace(sense, iterations=2).recover(y, size), x) > 0.1


def test_what_is_found_is_the_l1_solution() -> None:
    """A slow twin: plain proximal gradient steps with the dense matrix, a small lambda, and many of them."""
    size, sense = 600, Sense(0.4, 2, iterations=200)
    x = sparse(size, 40, seed=3)
    y = encode(sense, x[None])[0]
    matrix, known = dense(sense, size), y.double().numpy()
    slow = np.zeros(size)
    for bound in np.geomspace(0.1, 1e-5, 4000):
        slow = slow + matrix.T @ (known - matrix @ slow)
        slow = slow - np.clip(slow, -bound, bound)
    found = sense.recover(y, size)
    assert error(found, torch.from_numpy(slow).float()) < 2e-3
    support = np.flatnonzero(x.numpy())
    oracle = np.linalg.lstsq(matrix[:, support], known, rcond=None)[0]
    torch.testing.assert_close(found[support].double(), torch.from_numpy(oracle), rtol=1e-3, atol=1e-3)


def heavy(size: int, seed: int = 0) -> torch.Tensor:
    """No number is zero, and few are large: the shape of a network's update."""
    return normal(size, seed=seed) * torch.exp(2 * normal(size, seed=seed + 100))


def test_sums_commute_with_the_recovery() -> None:
    sense, size = Sense(0.1, 10), 20_000
    for x in (
        torch.stack([sparse(size, 40, seed) for seed in range(5)]),
        torch.stack([heavy(size, k) for k in (1, 2)]),
    ):
        of_sum = sense.recover(encode(sense, x.sum(0, keepdim=True))[0], size)
        assert error(sense.recover(encode(sense, x).double().sum(0), size), of_sum) < 1e-3


@pytest.mark.parametrize("scale", [1e-30, -3.0, 1e30])
def test_it_scales(scale: float) -> None:
    sense, size = Sense(0.1, 10), 20_000
    y = encode(sense, heavy(size)[None])[0].double()
    found = sense.recover(y, size)
    assert error(sense.recover(scale * y, size).double() / scale, found) < 1e-3
    assert torch.equal(sense.recover(4 * y, size), 4 * found)


def test_a_dense_update_is_told_better_than_by_back_projection() -> None:
    sense, size = Sense(0.05, 10), 80_000
    x = heavy(size)
    y = encode(sense, x[None])[0]
    # A^T y has the cosine |A x| / |x| with x.
    assert float(torch.cosine_similarity(sense.recover(y, size), x, 0)) > 2 * float(y.norm() / x.norm())


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.3, 0.9])
def test_what_is_not_sparse_is_hardly_made_longer(ratio: float) -> None:
    """Noise, and signals that are dense: about as long as the back projection. Few rows leave more to probability."""
    sense, size = Sense(ratio, 16), 16 * 8000
    t = torch.arange(size)
    for x in (normal(size), torch.ones(size), torch.cos(0.003 * t), (t // 500 % 2).float(), t / size):
        y = encode(sense, x[None])[0]
        found = sense.recover(y, size)
        assert bool(found.isfinite().all())
        assert found.norm() <= 1.2 * y.norm()


def test_what_was_sent_is_not_lost() -> None:
    """A x = y, but for what the padding takes."""
    sense, size = Sense(0.1, 16), 16 * 1024
    for x in (heavy(size), normal(size), sparse(size, 100)):
        y = encode(sense, x[None])[0]
        assert error(encode(sense, sense.recover(y, size)[None])[0], y) < 1e-5


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sense, size = Sense(0.1, 64), 64 * 5000
    y = encode(sense, heavy(size)[None])[0]
    found = []
    for number in (1, 2, 5):
        monkeypatch.setattr(workers, "count", lambda _, number=number: number)
        found.append(sense.recover(y, size))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_nothing_and_what_is_not_finite() -> None:
    sense = Sense(0.1, 10)
    assert torch.equal(sense.recover(torch.zeros(100), 1000), torch.zeros(1000))
    for broken in (math.nan, math.inf, -math.inf):
        y = torch.ones(100)
        y[3] = broken
        assert bool(sense.recover(y, 1000).isnan().all())
    with pytest.raises(Mistake, match="99 numbers cannot be recovered"):
        sense.recover(torch.zeros(99), 1000)


def test_the_server_keeps_the_compressed_sum() -> None:
    total = Total(normal(100).double(), 3, 3.0)
    plan = Plan(1, torch.zeros(1000), None, 3.0, 3.0)
    ctx = Context(Spec(1000), plan, np.empty(0, np.int64), torch.empty(0), SecretSeed.simulated(0))
    assert Sense(0.1, 10).decode(total, ctx) is total


def test_the_spec() -> None:
    assert Sense(0.05).spec(Spec(1_663_370)) == Spec(83_168)
    assert Sense(0.1, 10).spec(Spec(1000, weighted=True)) == Spec(100, weighted=True)
    assert Sense(0.29, 1).spec(Spec(100)).size == 29  # 0.29 * 100 is 28.999999999999996
    private = Noise(1.0).spec(Clip(0.5).spec(Sense(0.1, 10).spec(Spec(1000))))
    assert (private.size, private.l2, private.noise) == (100, 0.5, 1.0)
    for stage in (Clip(1.0), AdaptiveClip(), Sign()):
        with pytest.raises(Mistake, match="put Sense before Clip"):
            Sense(0.1, 10).spec(stage.spec(Spec(1000)))
    with pytest.raises(Mistake, match="put Sense before Clip"):
        Sense(0.1, 10).spec(Spec(1000, form=Codes(8)))
    with pytest.raises(Mistake, match="after Noise"):
        Sense(0.1, 10).spec(Spec(1000, 1.0, noise=1.0))
    Weigh().spec(Sense(0.1, 10).spec(Spec(1000)))


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.1, math.nan])
def test_a_ratio_that_cannot_be(ratio: float) -> None:
    with pytest.raises(Mistake, match="ratio="):
        Sense(ratio)


def test_chunks_that_cannot_be() -> None:
    with pytest.raises(Mistake, match="chunks=0"):
        Sense(0.1, 0)
    with pytest.raises(Mistake, match="iterations=0"):
        Sense(0.1, iterations=0)
    with pytest.raises(Mistake, match="chunks=200 is more than the 100 numbers"):
        Sense(1.0).spec(Spec(100))
    with pytest.raises(Mistake, match="50 numbers for 200 chunks"):
        Sense(0.05).spec(Spec(1000))
    assert Sense(0.2).spec(Spec(1000)).size == 200
