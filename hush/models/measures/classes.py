"""Measures of answers: one class for each row, or yes and no for each of several labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hush.models.measures.kind import Main, Values, mismatch, tensor


@dataclass(frozen=True)
class Classification:
    """Fractions of right answers: classes by the largest output, or by whether the one output is above the threshold.

    accuracy: of all rows. balanced: the mean over the classes that occur. auroc: the probability that a row of class 1
    gets a larger output than one of class 0; None where there are not just these two classes, both present. top5: the
    class is among the five largest outputs, where there are more.
    """

    threshold: float = 0.0

    def part(self, output: Any, targets: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Which rows are right, how far each leans to class 1, and which have their class among five."""
        output, wanted = tensor(output, "classification"), targets.flatten()
        several = output.dim() > 1 and output.shape[-1] > 1
        answers = output.argmax(1) if several else (output > self.threshold).flatten()
        if answers.shape != wanted.shape:
            raise mismatch("classification", output, targets)
        five = None
        if output.dim() == 2 and output.shape[1] > 5:
            five = (output.topk(5).indices == wanted[:, None]).any(1)
        return answers == wanted, leaning_of(output), five

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """accuracy, balanced, auroc and, of more than five classes, top5."""
        right, wanted = torch.cat([part for part, _, _ in parts]), targets.flatten()
        two = int(wanted.min()) == 0 and int(wanted.max()) == 1
        leaning = [part for _, part, _ in parts if part is not None] if two else []
        five = [part for _, _, part in parts if part is not None]
        found: Values = {
            "accuracy": int(right.sum()) / len(right),
            "balanced": _balanced(right, wanted),
            "auroc": _auroc(torch.cat(leaning), wanted) if leaning else None,
        }
        return {**found, "top5": int(torch.cat(five).sum()) / len(right)} if five else found

    def main(self, values: Values) -> Main:
        """Of a rare class accuracy says little: of two classes the balanced one decides."""
        return Main("accuracy" if values.get("auroc") is None else "balanced", True)


@dataclass(frozen=True)
class MultiLabel:
    """Yes or no for each label of a row, by an output above the threshold or not.

    macro_auroc: the mean AUROC of the labels that are yes in some rows and no in others; macro_f1: the mean over all
    labels of 2 tp / (2 tp + fp + fn), which is 0 for one that neither occurs nor is answered.
    """

    threshold: float = 0.0

    def part(self, output: Any, targets: Tensor) -> Tensor:
        """The outputs."""
        found = tensor(output, "multi-label")
        if found.shape != targets.shape:
            raise mismatch("multi-label", found, targets)
        return found

    def whole(self, parts: Sequence[Any], targets: Tensor) -> Values:
        """macro_auroc and macro_f1."""
        wanted = targets.reshape(len(targets), -1) > 0.5
        outputs = torch.cat(list(parts)).reshape(wanted.shape)
        answers = outputs > self.threshold
        hits, all_said = (answers & wanted).sum(0).double(), (answers.sum(0) + wanted.sum(0)).double()
        mixed = [label for label in range(wanted.shape[1]) if 0 < int(wanted[:, label].sum()) < len(wanted)]
        areas = [_auroc(outputs[:, label], wanted[:, label].long()) for label in mixed]
        known = [area for area in areas if area is not None]
        return {
            "macro_auroc": math.fsum(known) / len(known) if known and len(known) == len(areas) else None,
            "macro_f1": float((2 * hits / all_said.clamp(min=1)).mean()),
        }

    def main(self, values: Values) -> Main:
        """macro_auroc, where a label has both."""
        return Main("macro_f1" if values.get("macro_auroc") is None else "macro_auroc", True)


def leaning_of(output: Tensor) -> Tensor | None:
    """The logit of class 1 against class 0, from one output or two."""
    if output.dim() == 1 or output.shape[1:].numel() == 1:
        return output.flatten()
    return output[:, 1] - output[:, 0] if output.shape[1:] == (2,) else None


def _balanced(right: Tensor, targets: Tensor) -> float | None:
    """The mean recall of the classes that occur; a negative number stands for no class."""
    kept = targets >= 0
    _, place, counts = torch.unique(targets[kept], return_inverse=True, return_counts=True)
    recalls = torch.bincount(place, right[kept].double(), minlength=len(counts)) / counts
    return float(recalls.mean()) if len(counts) else None


def _auroc(leaning: Tensor, targets: Tensor) -> float | None:
    if not bool(leaning.isfinite().all()):
        return None
    from sklearn.metrics import roc_auc_score  # slow to import, and only two classes need it

    return float(roc_auc_score(targets.numpy(), leaning.double().numpy()))
