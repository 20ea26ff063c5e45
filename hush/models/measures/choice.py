"""Which kind of measures a task has: as it says, or as its targets, outputs and loss say for certain."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from hush.errors import Mistake
from hush.models.losses import family, ignored, probable
from hush.models.measures.classes import Classification, MultiLabel
from hush.models.measures.kind import Kind, LossOnly, logits
from hush.models.measures.language import Language
from hush.models.measures.numbers import Regression
from hush.models.measures.own import Function, OwnMetrics

Metrics = str | Function | OwnMetrics  # as a task may say
NAMES = ("classification", "regression", "multi-label", "language")


def check(metrics: object) -> None:
    """Refuse what is neither a kind's name nor a function."""
    if metrics is not None and metrics not in NAMES and not callable(metrics):
        raise Mistake(
            f"metrics={metrics!r} is not known: choose {', '.join(NAMES)}, or give a function (outputs, targets) ->"
            " {name: number}"
        )


def of(metrics: Metrics | None, loss: object, targets: Tensor, output: Any) -> Kind:
    """The kind of a task, from all of its targets and the output of a batch."""
    check(metrics)
    threshold = 0.5 if probable(loss) else 0.0
    named: dict[str, Callable[[], Kind]] = {
        "classification": lambda: Classification(threshold),
        "regression": Regression,
        "multi-label": lambda: MultiLabel(threshold),
        "language": lambda: Language(ignored(loss), family(loss) == "classes"),
    }
    if metrics is None:
        name = _found(loss, targets, logits(output))
        return LossOnly() if name is None else named[name]()
    if isinstance(metrics, str):
        return named[metrics]()
    return metrics if isinstance(metrics, OwnMetrics) else OwnMetrics(metrics)


def _found(loss: object, targets: Tensor, output: Tensor | None) -> str | None:
    """The kind's name, where it is certain."""
    if output is None or not output.dim():
        return None
    like, single = family(loss), targets.shape[1:].numel() == 1
    alike, same = output.shape[1:] == targets.shape[1:], output.shape[1:].numel() == targets.shape[1:].numel()
    if targets.is_floating_point():
        yes_no = bool(((targets == 0) | (targets == 1)).all())
        if like == "numbers" or (like is None and not yes_no):
            return "regression" if same else None
        if like == "classes" or not yes_no:
            return None  # probabilities of classes or of labels
        # One column of 0 and 1 under a loss that is not known may be either.
        return ("classification" if like == "labels" and same else None) if single else "multi-label" if alike else None
    if like == "numbers":
        return "regression" if same else None
    if single:
        return "classification" if output.dim() <= 2 or output.shape[1:].numel() == 1 else None
    if alike and like != "classes" and int(targets.min()) >= 0 and int(targets.max()) <= 1:
        return "multi-label"
    tokens = targets.dim() == 2 and output.dim() == 3 and targets.shape[1] in output.shape[1:]
    return "language" if tokens else None
