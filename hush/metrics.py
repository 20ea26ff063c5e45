"""How good a model is on data that the server holds."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hush.data.samples import Samples
from hush.errors import Mistake
from hush.task import Task
from hush.weights import bound
from hush.workers import spread


@dataclass(frozen=True)
class Score:
    """Mean loss, and the fraction of right answers (classes by the largest output, or by its sign)."""

    loss: float
    accuracy: float


def evaluate(
    task: Task, weights: Tensor, samples: Samples | None = None, batch: int = 500, workers: int | None = None
) -> Score:
    """The model with these weights on the task's test data, or on other data; batches are spread over workers."""
    samples = samples if samples is not None else task.test
    if samples is None:
        raise Mistake("the task has no test data: give Task(test=...) or pass samples to evaluate()")

    def score(first: int) -> tuple[float, int]:
        # A copy of both: a model may keep what it computed, or change what it was given.
        model, inputs = bound(task.model, weights).eval(), samples.inputs[first : first + batch].clone()
        targets = samples.targets[first : first + batch]
        with torch.inference_mode():
            output = model(inputs)
            answers = output.argmax(1) if output.shape[-1] > 1 and output.dim() > 1 else (output > 0).flatten()
            return float(task.loss(output, targets)) * len(targets), int((answers == targets.flatten()).sum())

    scores = list(spread(score, range(0, len(samples), batch), workers))
    loss, right = math.fsum(part for part, _ in scores), sum(part for _, part in scores)
    return Score(loss / len(samples), right / len(samples))
