"""Measures of numbers, against those that were wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hush.models.measures.kind import Main, Values, mismatch, tensor


@dataclass(frozen=True)
class Regression:
    """rmse: sqrt(mean (y - f)^2); mae: mean |y - f|; r2: 1 - sum (y - f)^2 / sum (y - mean y)^2.

    Of several numbers per row each is measured by itself, and the mean taken, as scikit-learn does. r2 leaves out
    those that are the same in all rows, and is None where all are.
    """

    def part(self, output: Any, targets: Tensor) -> Tensor:
        """The outputs, in the shape of the targets."""
        found = tensor(output, "regression")
        if found.numel() != targets.numel():
            raise mismatch("regression", found, targets)
        return found.reshape(targets.shape)

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """rmse, mae and r2."""
        wanted = targets.double().reshape(len(targets), -1)
        errors = torch.cat(list(parts)).double().reshape(wanted.shape) - wanted
        around = (wanted - wanted.mean(0)).square().sum(0)
        varies = around > 0
        return {
            "rmse": float(errors.square().mean(0).sqrt().mean()),
            "mae": float(errors.abs().mean()),
            "r2": float((1 - errors.square().sum(0) / around)[varies].mean()) if bool(varies.any()) else None,
        }

    def main(self, values: Values) -> Main:
        """rmse, of which less is better."""
        return Main("rmse", False)
