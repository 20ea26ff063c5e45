"""Losses by name, and class weights for targets of which one class is rare."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from hush.errors import Mistake

Loss = Callable[[Tensor, Tensor], Tensor]  # of outputs and targets, a mean over the rows


def binary(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of one logit per row."""
    return F.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).to(output.dtype))


LOSSES: dict[str, Loss] = {"cross-entropy": F.cross_entropy, "binary-cross-entropy": binary}


@dataclass(frozen=True)
class Weighted:
    """A mean loss with a weight for each class: sum over rows of weights[target] * loss(row), over the number of rows.

    The divisor is the number of rows, as Keras has it, not the sum of their weights, as torch's own `weight` has
    it: a record's part does not depend on the classes of the others. Targets are 0, 1, ..., one per row.
    """

    loss: Loss
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) < 2:
            raise Mistake(f"weights={self.weights} must have one weight per class: give at least two")
        if not all(0 < weight < math.inf for weight in self.weights):
            raise Mistake(f"weights={self.weights} must be positive: give each class a number above 0")

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """The weighted mean; of a single row its weight times its loss."""
        classes = target.reshape(-1).long()
        weights = torch.tensor(self.weights, dtype=output.dtype, device=output.device)
        return (weights[classes] * self._rows(output, target)).mean()

    def _rows(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of each row."""
        if self.loss is F.cross_entropy:
            return F.cross_entropy(output, target, reduction="none")
        if self.loss is binary:
            flat = output.reshape(-1)
            return F.binary_cross_entropy_with_logits(flat, target.reshape(-1).to(flat.dtype), reduction="none")
        rows: Tensor = vmap(self.loss)(output.unsqueeze(1), target.unsqueeze(1))
        return rows


def balanced(share: float) -> tuple[float, float]:
    """Weights of classes 0 and 1 under which both count alike: n / (2 n_c), where `share` is the part of class 1.

    The weights are scikit-learn's class_weight="balanced". The share is public: from the literature or a
    registry. Shares counted in the clients' own records would be a release that nobody paid for.
    """
    if not 0 < share < 1:
        raise Mistake(f"share={share} must lie between 0 and 1: the part of the records that are of class 1")
    return 1 / (2 * (1 - share)), 1 / (2 * share)
