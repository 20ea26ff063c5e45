"""Wavelet scattering: features of images that are fixed beforehand and stable under small deformations."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.errors import Mistake
from hush.models import workers

Reals = npt.NDArray[np.float64]

PIECE = 2**18  # complex numbers of the largest intermediate: about what a core's cache holds


@dataclass(frozen=True)
class Scattering:
    """Moduli of wavelet transforms, blurred and subsampled by 2^J (Bruna and Mallat 2013); J `scales`, L `angles`.

    Per image channel: S0 = x * phi, S1 = |x * psi_1| * phi and, at order 2, S2 = ||x * psi_1| * psi_2| * phi with
    psi_2 of a larger scale than psi_1: 1 + J L (+ L^2 J (J - 1) / 2) channels. psi_1 and psi_2 run over scales, then
    angles. The Morlet wavelets, borders and the order of the channels are Kymatio's; its pi is 3.1415, ours is not.

    A side of h pixels gives floor(h / 2^J) numbers. It is reflected to a length of 2^J (floor(h / 2^J) + 2), as much
    before as behind or one less, and wraps around there; the first and the last number are then dropped.
    """

    order: int = 1
    scales: int = 2
    angles: int = 8

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise Mistake(f"order={self.order} must be 1 or 2: how many wavelets follow on each other")
        for name in ("scales", "angles"):
            if getattr(self, name) < 1:
                raise Mistake(f"{name}={getattr(self, name)} must be at least 1: take scales=2 and angles=8")

    @property
    def channels(self) -> int:
        """How many channels come of each channel of an image."""
        pairs = self.angles**2 * math.comb(self.scales, 2)
        return 1 + self.scales * self.angles + (pairs if self.order == 2 else 0)

    def shape(self, image: torch.Size) -> torch.Size:
        """(channels, height, width) of the features of an image of such a shape."""
        step = 2**self.scales
        if len(image) != 3 or min(image) < 1 or min(image[1:]) < step:
            raise Mistake(
                f"an image of shape {tuple(image)} must be (channels, height, width) with sides of at least {step}"
                f" for scales={self.scales}: give larger images or fewer scales"
            )
        return torch.Size([image[0] * self.channels, image[1] // step, image[2] // step])

    def __call__(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) -> (n, channels C, height / 2^J, width / 2^J), those of a channel side by side.

        The bits do not depend on the number of workers. Other images beside one could change its last bit, if the
        libraries add up otherwise for batches of other sizes.
        """
        if images.dtype != torch.float32 or images.dim() != 4:
            raise Mistake(
                f"images of type {images.dtype} and shape {tuple(images.shape)} must be float32 in (n, channels,"
                " height, width): convert them, as with images.float() / 255"
            )
        shape = self.shape(images.shape[1:])
        planes = images.detach().flatten(0, 1)
        found = torch.empty(len(planes), self.channels, *shape[1:])
        bank = _bank(*images.shape[2:], self.scales, self.angles)
        # The largest intermediate of an image: spectra of the finest scale, or of what follows on it at half the sides.
        largest = len(bank.rows) * len(bank.columns) * self.angles
        size = max(1, PIECE // (largest * max(1, self.angles // 4) if self.order == 2 else largest))

        def work(start: int) -> None:
            self._piece(planes[start : start + size], bank, found[start : start + size])

        for _ in workers.spread(work, range(0, len(planes), size)):
            pass
        return found.reshape(len(images), *shape)

    def traced(self, images: Tensor) -> Tensor:
        """The same in one go, without threads, as torch.export takes it."""
        shape = self.shape(images.shape[1:])
        bank = _bank(int(images.shape[2]), int(images.shape[3]), self.scales, self.angles)
        found = torch.cat(self._parts(images.flatten(0, 1), bank, shape), 1)
        return found.reshape(images.shape[0], *shape)

    def _piece(self, planes: Tensor, bank: "Bank", found: Tensor) -> None:
        """Some images, in one go."""
        torch.cat(self._parts(planes, bank, found.shape[1:]), 1, out=found)

    def _parts(self, planes: Tensor, bank: "Bank", shape: torch.Size) -> list[Tensor]:
        """Their channels, which go side by side; `shape` ends with the sides of the features."""
        padded = planes[:, bank.rows][:, :, bank.columns]
        spectra = torch.fft.fft2(padded)
        parts = [bank.blur(padded, 0).unsqueeze(1)]
        behind = []
        for j in range(self.scales):
            moduli = bank.moduli(spectra, 0, j)
            parts.append(bank.blur(moduli, j))
            if self.order == 2 and j + 1 < self.scales:
                second = torch.fft.fft2(moduli.flatten(0, 1))
                wider = [bank.blur(bank.moduli(second, j, k), k) for k in range(j + 1, self.scales)]
                behind.append(torch.cat(wider, 1).reshape(planes.shape[0], -1, *shape[-2:]))
        return [*parts, *behind]


@dataclass(frozen=True)
class Bank:
    """The filters for one image size. Resolution j has every 2^j-th pixel of the padded image.

    `waves[i, j]` are the spectra of all wavelets of scale j at resolution i, (aliases, aliases, angles, height, width,
    2): each number twice, for the real and the imaginary part. `blurs[j]` are the matrices that blur and subsample
    columns and rows from resolution j, by which phi, a Gaussian and so a product, acts.
    """

    rows: Tensor
    columns: Tensor
    waves: dict[tuple[int, int], Tensor]
    blurs: list[tuple[Tensor, Tensor]]

    def blur(self, maps: Tensor, j: int) -> Tensor:
        """maps * phi at every 2^(J - j)-th pixel, without the border."""
        rows, columns = self.blurs[j]
        return rows @ maps @ columns.T

    def moduli(self, spectra: Tensor, i: int, j: int) -> Tensor:
        """|x * psi| for all wavelets of scale j at resolution j, of the spectra of x at resolution i."""
        waves = self.waves[i, j]
        aliases, _, _, height, width, _ = waves.shape
        x = torch.view_as_real(spectra).reshape(-1, 1, aliases, height, aliases, width, 2)
        total = x[:, :, 0, :, 0] * waves[0, 0]
        # To subsample an image is to add up the parts of its spectrum.
        for a, b in list(np.ndindex(aliases, aliases))[1:]:
            total.addcmul_(x[:, :, a, :, b], waves[a, b])
        squares = torch.view_as_real(torch.fft.ifft2(torch.view_as_complex(total))).square_()
        return (squares[..., 0] + squares[..., 1]).sqrt_()  # several times as fast as abs()


@lru_cache(maxsize=8)
def _bank(height: int, width: int, scales: int, angles: int) -> Bank:
    (rows, m), (columns, n) = _reflected(height, scales), _reflected(width, scales)
    waves = {}
    for j in range(scales):
        # The order of the angles is Kymatio's.
        turns = [(angles // 2 - 1 - k) * math.pi / angles for k in range(angles)]
        spectra = np.stack([_morlet(m, n, 0.8 * 2**j, turn, 0.75 * math.pi / 2**j, 4 / angles) for turn in turns])
        for i in range(max(1, j)):
            f = 2 ** (j - i)
            parts = _coarse(_coarse(spectra, i, 1), i, 2).reshape(angles, f, m >> j, f, n >> j)
            real = torch.from_numpy(parts.transpose(1, 3, 0, 2, 4) / f**2).float()
            waves[i, j] = real.unsqueeze(-1).repeat(1, 1, 1, 1, 1, 2)
    blurs = [(_blur(m, height, scales, j), _blur(n, width, scales, j)) for j in range(scales)]
    return Bank(rows, columns, waves, blurs)


def _reflected(side: int, scales: int) -> tuple[Tensor, int]:
    """Which pixels make up the padded side, and its length."""
    step = 2**scales
    length = (side // step + 2) * step
    before = (length - side) // 2
    period = 2 * (side - 1)
    away = np.abs(np.arange(-before, length - before)) % period
    return torch.from_numpy(np.minimum(away, period - away)), length


def _morlet(m: int, n: int, sigma: float, turn: float, xi: float, slant: float) -> Reals:
    """The spectrum, which is real, of psi(u) = g(u) (exp(i xi e.u) - beta), whose sum is zero; e has the angle `turn`.

    g is a Gaussian of deviation sigma along e and sigma / slant across, of integral one, periodic in m and n.
    """
    reach = 8 * sigma * max(1.0, 1 / slant)  # where g is below 1e-13
    u, v = (np.arange(-side * math.ceil(reach / side), side * (1 + math.ceil(reach / side))) for side in (m, n))
    along = u[:, None] * math.cos(turn) + v * math.sin(turn)
    across = v * math.cos(turn) - u[:, None] * math.sin(turn)
    g = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2)) * slant / (2 * math.pi * sigma**2)
    wave = g * np.exp(1j * xi * along)
    psi = wave - wave.sum() / g.sum() * g
    found: Reals = np.fft.fft2(psi.reshape(len(u) // m, m, len(v) // n, n).sum((0, 2))).real
    return found


def _coarse(spectra: Reals, level: int, axis: int) -> Reals:
    """The lower frequencies only: a filter at a resolution 2^level times lower."""
    length = spectra.shape[axis]
    half = length >> level + 1
    return np.take(spectra, np.r_[0:half, length - half : length], axis) if level else spectra


def _blur(length: int, side: int, scales: int, j: int) -> Tensor:
    """(side / 2^J, length / 2^j): the periodic Gaussian of deviation 0.8 2^(J - 1), at the pixels that are kept."""
    sigma = 0.8 * 2 ** (scales - 1)
    turns = math.ceil(8 * sigma / length)
    u = np.arange(-length * turns, length * (1 + turns))
    phi = (np.exp(-(u**2) / (2 * sigma**2)) / math.sqrt(2 * math.pi) / sigma).reshape(-1, length).sum(0)
    kernel = np.fft.ifft(_coarse(np.fft.fft(phi).real, j, 0)).real
    kept = 2 ** (scales - j) * np.arange(1, side // 2**scales + 1)
    return torch.from_numpy(kernel[(kept[:, None] - np.arange(length >> j)) % (length >> j)]).float()
