"""How good a model is on data that the server holds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

import torch
from torch import Tensor, nn

from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.entry import entry, lookup
from hush.models.inputs import fitted
from hush.models.losses import Loss
from hush.models.traits import hooked
from hush.models.weights import bound
from hush.models.workers import spread


class Judged(Protocol):
    """What a score needs: a model, its loss, and test data, which may be absent."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def loss(self) -> Loss: ...

    @property
    def test(self) -> Samples | None: ...


@dataclass(frozen=True)
class Score:
    """Mean loss, and the fraction of right answers (classes by the largest output, or by its sign).

    balanced: the mean over the classes that occur of the fraction of their rows that are right; None where targets
    are not classes. auroc: the probability that a row of class 1 gets a larger output than one of class 0; None where
    there are not just these two classes, both present.
    """

    loss: float
    accuracy: float
    balanced: float | None = None
    auroc: float | None = None


def evaluate(
    task: Judged, weights: Tensor, samples: Samples | None = None, batch: int | None = None, workers: int | None = None
) -> Score:
    """The model with these weights on the task's test data, or on other data; batches are spread over workers.

    The loss is the task's own, with its class weights where it has some. A batch has 500 rows by default, or 2,000
    sparse ones that a linear layer takes as they are.
    """
    samples = samples if samples is not None else task.test
    if samples is None:
        raise Mistake("the task has no test data: give Task(test=...) or pass samples to evaluate()")
    samples = fitted(task.model, samples)
    inputs, targets = samples.inputs, samples.targets
    found = entry(bound(task.model, weights)) if isinstance(inputs, Sparse) else None
    table = None if found is None else found.transposed()  # once for all batches
    size = batch or (500 if table is None else 2000)
    classes = not targets.is_floating_point() and targets.dim() == 1
    two = classes and int(targets.min()) == 0 and int(targets.max()) == 1

    def score(first: int) -> tuple[float, Tensor, Tensor | None]:
        """The summed loss, which rows are right, and how far each leans to class 1 where that is wanted."""
        # A copy of both: a model may keep what it computed, or change what it was given.
        model, rows = quickened(bound(task.model, weights).eval()), slice(first, first + size)
        wanted = targets[rows]
        with torch.inference_mode():
            own = entry(model)
            if isinstance(inputs, Sparse) and table is not None and own is not None:
                output = own.rest(lookup(table, inputs.take(rows), own.first.bias))
            else:
                output = model(inputs[rows].clone())
            leaning = _leaning(output) if two and isinstance(output, Tensor) else None
            return float(task.loss(output, wanted)) * len(wanted), _right(output, wanted), leaning

    scores = list(spread(score, range(0, len(samples), size), workers))
    loss, right = math.fsum(part for part, _, _ in scores), torch.cat([part for _, part, _ in scores])
    leaning = [part for _, _, part in scores if part is not None]
    return Score(
        loss / len(samples),
        int(right.sum()) / len(samples),
        _balanced(right, targets.flatten()) if classes else None,
        _auroc(torch.cat(leaning), targets.flatten()) if leaning else None,
    )


class Halves(nn.Module):
    """Max pooling of 2 by 2 by the larger of two rows, then of two columns: the same bits in a tenth of the time."""

    def forward(self, x: Tensor) -> Tensor:
        """The largest of each square; a last odd row or column is left out."""
        height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
        rows = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        return torch.maximum(rows[..., 0::2], rows[..., 1::2])


def quickened(model: nn.Module) -> nn.Module:
    """The same function, bit for bit, for forward passes: pooling is cheaper, and goes before a ReLU."""
    if type(model) is not nn.Sequential or any(map(hooked, (model, *model))):
        return model
    layers = [Halves() if _halves(layer) else quickened(layer) for layer in model]
    for at in range(len(layers) - 1):
        if type(layers[at]) is nn.ReLU and isinstance(layers[at + 1], Halves | nn.MaxPool2d):
            layers[at], layers[at + 1] = layers[at + 1], layers[at]
    return nn.Sequential(*layers)


def _halves(layer: nn.Module) -> bool:
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return False
    wanted = ((layer.kernel_size, 2), (layer.stride, 2), (layer.padding, 0), (layer.dilation, 1))
    return all(found in (number, (number, number)) for found, number in wanted)


def mean(scores: Sequence[Score]) -> Score:
    """Of several models, the mean of each measure; of one, its own."""
    balanced, auroc = [s.balanced for s in scores], [s.auroc for s in scores]
    return Score(fmean(s.loss for s in scores), fmean(s.accuracy for s in scores), _mean(balanced), _mean(auroc))


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return fmean(found) if len(found) == len(values) else None


def _right(output: object, wanted: Tensor) -> Tensor:
    """Which rows have the right class; none, where there are no classes or outputs of another kind."""
    if not isinstance(output, Tensor) or wanted.dim() > 1:
        return torch.zeros(len(wanted), dtype=torch.bool)
    answers = output.argmax(1) if output.shape[-1] > 1 and output.dim() > 1 else (output > 0).flatten()
    return answers == wanted


def _leaning(output: Tensor) -> Tensor | None:
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

    return float(roc_auc_score(targets.numpy(), leaning.numpy()))
