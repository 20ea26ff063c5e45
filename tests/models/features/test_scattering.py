"""Scattering: Kymatio's numbers, those of a slow twin, and what follows from the formulas."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from hush.errors import Mistake
from hush.models import workers
from hush.models.features import Scattering, scattering

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # All of Kymatio would ask SciPy for sph_harm, which is gone; its images do without.
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D


def images(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def moduli(s: Scattering) -> torch.Tensor:
    """How many wavelets each channel went through."""
    first = s.scales * s.angles
    return torch.tensor([0] + [1] * first + [2] * (s.channels - 1 - first))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("side", "scales", "angles"),
    [((28, 28), 2, 8), ((32, 32), 2, 8), ((29, 34), 2, 8), ((4, 7), 2, 8), ((28, 28), 1, 4), ((33, 24), 3, 5)],
)
def test_it_is_that_of_kymatio(side: tuple[int, int], scales: int, angles: int, order: int) -> None:
    x, s = images(3, 2, *side), Scattering(order, scales, angles)
    theirs = ScatteringTorch2D(scales, side, L=angles, max_order=order)(x)
    # Their pi is 3.1415, once in each filter.
    theirs = theirs.double() * (3.1415 / math.pi) ** (1 + moduli(s).double())[:, None, None]
    ours = s(x).reshape(theirs.shape)
    largest = theirs.amax((0, 1, 3, 4), keepdim=True)  # of each channel: those of order 2 are far smaller than S0
    assert_close(ours / largest, theirs / largest, rtol=0, atol=4e-6, check_dtype=False)


def slow(x: np.ndarray, s: Scattering) -> list[np.ndarray]:
    """One plane, by sums over all pixels, from the formulas."""
    step = 2**s.scales
    extra = [(side // step + 2) * step - side for side in x.shape]
    x = np.pad(x, [(e // 2, e - e // 2) for e in extra], mode="reflect")
    m, n = x.shape

    def periodic(f):
        u, v = np.arange(m)[:, None], np.arange(n)
        return sum(f(u + a * m, v + b * n) for a in range(-4, 5) for b in range(-4, 5))

    def convolve(x, f):
        (m, n), u = x.shape, np.indices(x.shape)
        return np.array([[(x * f[(a - u[0]) % m, (b - u[1]) % n]).sum() for b in range(n)] for a in range(m)])

    def coarse(f, level):
        """f's lower frequencies at every 2^level-th pixel of each side, times 2^level for those left out."""
        for _ in range(2):
            f = f.T
            k, u = np.arange(-(len(f) >> level + 1), len(f) >> level + 1), np.arange(len(f))
            back = np.exp(2j * np.pi * np.outer(u[:: 2**level], k) / len(f)) / len(k)
            f = back @ np.exp(-2j * np.pi * np.outer(k, u) / len(f)) @ f
        return f

    def morlet(j, k):
        sigma, slant, turn = 0.8 * 2**j, 4 / s.angles, (s.angles // 2 - 1 - k) * np.pi / s.angles

        def g(u, v):
            along, across = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
            return slant / (2 * np.pi * sigma**2) * np.exp(-(along**2 + slant**2 * across**2) / 2 / sigma**2)

        def wave(u, v):
            return g(u, v) * np.exp(0.75j * np.pi / 2**j * (u * np.cos(turn) + v * np.sin(turn)))

        return periodic(wave) - periodic(wave).sum() / periodic(g).sum() * periodic(g)

    wide = 0.8 * 2 ** (s.scales - 1)
    phi = periodic(lambda u, v: np.exp(-(u**2 + v**2) / 2 / wide**2) / (2 * np.pi * wide**2))

    def blurred(x, j):
        return convolve(x, coarse(phi, j)).real[:: 2 ** (s.scales - j), :: 2 ** (s.scales - j)][1:-1, 1:-1]

    psi = [(j, morlet(j, k)) for j in range(s.scales) for k in range(s.angles)]
    first = [(j, abs(convolve(x, f))[:: 2**j, :: 2**j]) for j, f in psi]
    second = [
        (k, abs(convolve(u, coarse(f, j)))[:: 2 ** (k - j), :: 2 ** (k - j)]) for j, u in first for k, f in psi if k > j
    ]
    return [blurred(x, 0)] + [blurred(u, j) for j, u in first + second]


def test_it_is_that_of_the_slow_twin() -> None:
    x, s = images(1, 1, 9, 6), Scattering(2, scales=2, angles=3)
    theirs = np.stack(slow(x[0, 0].double().numpy(), s))
    largest = abs(theirs).max((1, 2), keepdims=True)
    np.testing.assert_allclose(s(x)[0].double().numpy() / largest, theirs / largest, atol=2e-6, rtol=0)


def test_sizes_are_known_beforehand() -> None:
    assert (Scattering().channels, Scattering(2).channels) == (17, 81)
    for order in (1, 2):
        s = Scattering(order)
        for shape in [(1, 28, 28), (3, 31, 34), (2, 4, 5)]:
            assert s(images(2, *shape)).shape[1:] == s.shape(torch.Size(shape))
    assert Scattering(2).shape(torch.Size([3, 31, 34])) == (243, 7, 8)
    assert Scattering()(images(0, 3, 28, 28)).shape == (0, 51, 7, 7)


def test_an_even_plane_passes_the_blur_and_no_wavelet() -> None:
    found = Scattering(2)(torch.full((1, 1, 28, 28), 3.0))[0]
    assert_close(found[0], torch.full((7, 7), 3.0), rtol=1e-5, atol=0)
    assert found[1:].abs().max() < 3e-6


def test_a_transposed_image_has_mirrored_angles() -> None:
    x, s = images(2, 1, 28, 28), Scattering()
    found, turned = (part[:, 1:].unflatten(1, (2, 8)) for part in (s(x), s(x.mT)))
    # The k-th angle is (3 - k) pi / 8, and a transpose takes angle a to pi / 2 - a.
    mirrored = found[:, :, [(2 - k) % 8 for k in range(8)]].mT
    assert_close(turned, mirrored, rtol=0, atol=1e-6)
    assert not torch.allclose(turned, found.mT, atol=1e-3)


def test_channels_are_apart_and_side_by_side() -> None:
    x, s = images(4, 3, 30, 28), Scattering(2)
    apart = [s(x[:, [c]]) for c in range(3)]
    assert_close(s(x), torch.cat(apart, 1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_rows_do_not_depend_on_each_other(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, s = images(40, 1, 28, 28), Scattering(order)
    whole = s(x)
    backwards = s(x.flip(0)).flip(0)
    monkeypatch.setattr(scattering, "PIECE", 1)
    for other in (backwards, s(x)):  # in other places, and each alone
        assert_close(other, whole, rtol=0, atol=1e-6)


def test_the_bits_do_not_depend_on_the_workers() -> None:
    x, s = images(70, 1, 28, 28), Scattering()
    # A worker that calls it computes all pieces itself.
    for found in workers.spread(lambda _: s(x), [0, 1], workers=2):
        assert torch.equal(found, s(x))


def test_it_is_fixed_and_leaves_its_input_alone() -> None:
    x = images(2, 1, 28, 28)
    before, s = x.clone(), Scattering(2)
    assert torch.equal(2 * s(x), s(2 * x))
    assert torch.equal(x, before)
    assert not s(x.requires_grad_()).requires_grad
    assert_close(s(x), Scattering(2)(x.mT.contiguous().mT), rtol=0, atol=0)  # whatever the strides


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Scattering(order=3), "order=3 must be 1 or 2"),
        (lambda: Scattering(scales=0), "scales=0 must be at least 1"),
        (lambda: Scattering(angles=-1), "angles=-1 must be at least 1"),
        (lambda: Scattering()(torch.zeros(2, 1, 28, 28, dtype=torch.uint8)), r"images\.float\(\) / 255"),
        (lambda: Scattering()(torch.zeros(2, 28, 28)), r"\(n, channels, height, width\)"),
        (lambda: Scattering()(torch.zeros(2, 1, 3, 28)), "sides of at least 4"),
        (lambda: Scattering(scales=3)(torch.zeros(2, 1, 28, 7)), "fewer scales"),
    ],
)
def test_mistakes_say_what_to_do(wrong, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        wrong()
