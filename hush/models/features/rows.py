"""Rows of a table, made as rows of features are."""

import math

import torch
from torch import Tensor

from hush.models.features.basis import CONSTANT


def unit(rows: Tensor) -> Tensor:
    """(rows, ...) to (rows, numbers + 1): each at norm 1, and the constant 0.2. A row of zeros stays so."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    norms = torch.linalg.vector_norm(flat, dim=1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny)
    return torch.cat([flat / norms, flat.new_full((len(flat), 1), CONSTANT)], dim=1)
