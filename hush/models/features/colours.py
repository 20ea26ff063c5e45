"""Colours of an image, coarsely: what is gone when scattering is normalised channel by channel."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.models.helmert import helmert

SIDE = 4  # places in height and in width
FLOOR = 1e-3  # of a deviation
WEIGHT = 0.4  # the length of these numbers of a row, where that of the scattering is 1: chosen on held-out clients


@dataclass(frozen=True, eq=False)
class Colours:
    """The brightness and the opponent colours at 4 by 4 places, each centred and scaled as procedural images have it.

    Of channels c: their sum, and what each differs from those before it, in an orthonormal basis (Helmert): of red,
    green and blue what Y, U and V hold, and of any other channels the like.
    """

    mean: Tensor
    deviation: Tensor

    @classmethod
    def fit(cls, images: Tensor) -> "Colours":
        """As these images have them."""
        found = pooled(images)
        return cls(found.mean(0), found.std(0).clamp_min(FLOOR))

    @property
    def size(self) -> int:
        """How many numbers a row has."""
        return self.mean.numel()

    def __call__(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) to (n, 16 channels), together of norm 0.4."""
        rows = (pooled(images) - self.mean) / self.deviation
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
        return rows.mul(WEIGHT).div(norms)


def pooled(images: Tensor) -> Tensor:
    """Means of each plane at 4 by 4 places, (n, 16 channels)."""
    channels = images.shape[1]
    planes = torch.cat([torch.full((channels, 1), channels**-0.5), helmert(channels).float()], 1)
    return torch.einsum("ij,nihw->njhw", planes, F.adaptive_avg_pool2d(images, SIDE)).flatten(1)
