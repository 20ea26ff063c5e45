"""Losses by name, and class weights for targets of which one class is rare."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from hush.errors import Mistake

Loss = Callable[[Any, Tensor], Tensor]  # of what the model returns and the targets, a mean over the rows
# What a loss takes: one class for each row (or token), yes or no for each output, or a number for each output.
Family = Literal["classes", "labels", "numbers"]


def binary(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of one logit per row."""
    return F.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).to(output.dtype))


def squared(output: Tensor, target: Tensor) -> Tensor:
    """The mean of (output - target)^2, of as many numbers per row."""
    return F.mse_loss(output.reshape(target.shape), target.to(output.dtype))


LOSSES: dict[str, Loss] = {
    "cross-entropy": F.cross_entropy,
    "binary-cross-entropy": binary,
    "mean-squared-error": squared,
}


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


_FAMILIES: dict[Family, tuple[tuple[object, ...], tuple[type[nn.Module], ...]]] = {
    "classes": ((F.cross_entropy, F.nll_loss), (nn.CrossEntropyLoss, nn.NLLLoss)),
    "labels": (
        (binary, F.binary_cross_entropy_with_logits, F.binary_cross_entropy, F.multilabel_soft_margin_loss),
        (nn.BCEWithLogitsLoss, nn.BCELoss, nn.MultiLabelSoftMarginLoss),
    ),
    "numbers": (
        (squared, F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss),
        (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss),
    ),
}


def plain(loss: object) -> object:
    """The loss under class weights and under arguments that are given already."""
    while isinstance(loss, Weighted | partial):
        loss = loss.loss if isinstance(loss, Weighted) else loss.func
    return loss


def family(loss: object) -> Family | None:
    """What targets and outputs mean to a loss of torch's or of hush's; None for one of the user's own."""
    found = plain(loss)
    for name, (functions, modules) in _FAMILIES.items():
        if any(found is one for one in functions) or isinstance(found, modules):
            return name
    return None


def probable(loss: object) -> bool:
    """Whether the outputs are probabilities, so that one half divides yes and no; else they are logits."""
    found = plain(loss)
    return found is F.binary_cross_entropy or isinstance(found, nn.BCELoss)


def ignored(loss: object) -> int:
    """The target that stands for no class: torch's -100, unless the loss names another."""
    while isinstance(loss, Weighted | partial):
        if isinstance(loss, partial) and "ignore_index" in loss.keywords:
            return int(loss.keywords["ignore_index"])
        loss = loss.loss if isinstance(loss, Weighted) else loss.func
    return int(getattr(loss, "ignore_index", -100))
