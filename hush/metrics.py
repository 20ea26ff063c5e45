"""How good a model is on data that the server holds."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from hush.data.samples import Samples
from hush.errors import Mistake
from hush.task import Task


@dataclass(frozen=True)
class Score:
    """Mean loss, and the fraction of right answers (classes by the largest output, or by its sign)."""

    loss: float
    accuracy: float


def evaluate(task: Task, weights: Tensor, samples: Samples | None = None, batch: int = 500) -> Score:
    """The model with these weights on the task's test data, or on other data."""
    samples = samples if samples is not None else task.test
    if samples is None:
        raise Mistake("the task has no test data: give Task(test=...) or pass samples to evaluate()")
    tensors = task.layout.views(weights)
    mode = task.model.training
    task.model.eval()
    loss, right = 0.0, 0
    try:
        with torch.inference_mode():
            for first in range(0, len(samples), batch):
                targets = samples.targets[first : first + batch]
                output = functional_call(task.model, tensors, (samples.inputs[first : first + batch],))
                loss += float(task.loss(output, targets)) * len(targets)
                answers = output.argmax(1) if output.shape[-1] > 1 and output.dim() > 1 else (output > 0).flatten()
                right += int((answers == targets.flatten()).sum())
    finally:
        task.model.train(mode)
    return Score(loss / len(samples), right / len(samples))
