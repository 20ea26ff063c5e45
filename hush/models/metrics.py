"""How good a model is on data that the server holds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Protocol

from torch import Tensor, nn

from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models.inputs import fitted
from hush.models.losses import Loss
from hush.models.measures import choice
from hush.models.measures.choice import Metrics
from hush.models.measures.kind import Kind, LossOnly, Values
from hush.models.outputs import passes
from hush.models.weights import Layout, bound


class Judged(Protocol):
    """What a score needs: a model, its loss, test data and metrics, which may be absent."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def loss(self) -> Loss: ...

    @property
    def test(self) -> Samples | None: ...

    @property
    def metrics(self) -> Metrics | None: ...


@dataclass(frozen=True)
class Score:
    """The mean loss, and the measures of the task by name, which are attributes too: score.accuracy, score.rmse.

    main: the one that decides which round is the best; larger: whether more of it is better.
    """

    loss: float
    values: Values = field(default_factory=dict, hash=False)
    main: str = "loss"
    larger: bool = False

    @property
    def value(self) -> float | None:
        """Of the measure that decides."""
        return self.loss if self.main == "loss" else self.values[self.main]

    def __getattr__(self, name: str) -> Any:  # a number, or None where it is not defined
        values = self.__dict__.get("values", {})
        if name.startswith("_") or name not in values:
            known = ", ".join(("loss", *values))
            raise AttributeError(f"this task has no {name}: its measures are {known}; Task(metrics=...) gives others")
        return values[name]


def evaluate(
    task: Judged, weights: Tensor, samples: Samples | None = None, batch: int | None = None, workers: int | None = None
) -> Score:
    """The model with these weights on the task's test data, or on other data; batches are spread over workers.

    The loss is the task's own, with its class weights where it has some. The measures are over all rows, whatever a
    batch has.
    """
    return _judged(task, weights, samples, batch, workers, None)


def evaluate_loss(task: Judged, weights: Tensor, samples: Samples | None = None, workers: int | None = None) -> Score:
    """The loss alone."""
    return _judged(task, weights, samples, None, workers, LossOnly())


def _judged(
    task: Judged,
    weights: Tensor,
    samples: Samples | None,
    batch: int | None,
    workers: int | None,
    only: Kind | None,
) -> Score:
    samples = samples if samples is not None else task.test
    if samples is None:
        raise Mistake("the task has no test data: give Task(test=...) or pass samples to evaluate()")
    held = Layout.of(task.model).size
    if not isinstance(weights, Tensor) or weights.shape != (held,):
        what = f"the shape {tuple(weights.shape)}" if isinstance(weights, Tensor) else f"type {type(weights).__name__}"
        raise Mistake(f"weights of {what} are not the model's {held}: give state.weights")
    samples = fitted(task.model, samples)
    targets = samples.targets
    # What the targets mean is a matter of all of them: a few rows of a regression may be 0 and 1.
    whole = targets if task.test is None else task.test.targets

    def score(rows: slice, output: Any) -> tuple[float, Kind, Any]:
        """The summed loss, and what is kept of the batch."""
        wanted = targets[rows]
        kind = only or choice.of(task.metrics, task.loss, whole, output)
        return float(task.loss(output, wanted)) * len(wanted), kind, kind.part(output, wanted)

    scores = list(passes(lambda: bound(task.model, weights), samples.inputs, score, batch, workers))
    loss, kind = math.fsum(part for part, _, _ in scores) / len(samples), scores[0][1]
    values = kind.whole([part for _, _, part in scores], targets)
    return Score(loss, values, *kind.main(values))


def mean(scores: Sequence[Score]) -> Score:
    """Of several models, the mean of each measure; of one, its own."""
    names = {name: [score.values.get(name) for score in scores] for name in scores[0].values}
    values = {name: _mean(found) for name, found in names.items()}
    return Score(fmean(score.loss for score in scores), values, scores[0].main, scores[0].larger)


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return fmean(found) if len(found) == len(values) else None
