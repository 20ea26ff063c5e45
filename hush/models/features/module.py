"""Features as modules, which torch.export can write down: the same numbers up to rounding, in one go."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hush.models.features.basis import CONSTANT
from hush.models.features.front import Front, raw


class UnitModule(nn.Module):
    """(rows, ...) to (rows, numbers + 1), as `unit` has it, of what a function makes of the rows, if one is given."""

    def __init__(self, function: Callable[[Tensor], Any] | None = None) -> None:
        super().__init__()
        self.function = function

    def forward(self, rows: Tensor) -> Tensor:
        """Each row at norm 1, and the constant."""
        flat = (rows if self.function is None else self.function(rows)).flatten(1).float()
        norms = torch.linalg.vector_norm(flat, dim=1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny)
        return torch.cat([flat / norms, torch.full_like(norms, CONSTANT)], dim=1)


class FrontModule(nn.Module):
    """Images to rows of features, as the front has it; `flat`: images of two sides."""

    mean: Tensor
    directions: Tensor

    def __init__(self, front: Front, flat: bool) -> None:
        super().__init__()
        self.scattering, self.flat = front.scattering, flat
        front(torch.zeros(1, *front.shape))  # its filters are made and kept here, not in a trace that has no numbers
        self.register_buffer("mean", front.basis.mean.clone())
        self.register_buffer("directions", front.basis.directions.clone())
        self.colours = front.colours

    def forward(self, images: Tensor) -> Tensor:
        """Scattering, normalised, in the basis; each row at norm 1, the constant, and colours, if there are any."""
        images = images.unsqueeze(1) if self.flat else images
        found = raw(self.scattering.traced, images, self.scattering.channels)
        rows = (found.flatten(1) - self.mean) @ self.directions
        norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
        beside = [] if self.colours is None else [self.colours(images)]
        return torch.cat([rows / norms, torch.full_like(norms, CONSTANT), *beside], dim=1)
