"""What always giving the same answer reaches on test rows: a model that is no better has learnt nothing of use."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Guess(NamedTuple):
    """What the best constant answer has of a measure; `needed`: what a model must be better than.

    needed: two standard errors better than `guess`, since test rows are few. larger: whether more is better.
    """

    guess: float
    needed: float
    larger: bool = True


def guesses(targets: Tensor) -> dict[str, Guess]:
    """By measure. Of classes the answer is the most frequent one; of numbers it is their mean, or their median."""
    if not len(targets):
        return {}
    found = _numbers(targets) if targets.is_floating_point() else _classes(targets.flatten())
    return found | (_labels(targets) if targets.dim() > 1 and bool(((targets == 0) | (targets == 1)).all()) else {})


def _classes(targets: Tensor) -> dict[str, Guess]:
    """A negative number stands for no class."""
    counts = torch.unique(targets[targets >= 0], return_counts=True)[1].double()
    if not len(counts):
        return {}
    shares, number, rows = counts / counts.sum(), len(counts), float(counts.sum())
    top = float(shares.max())
    even = 1 / number  # of all constant answers, and of answers at random
    surprise = math.exp(-float((shares * shares.log()).sum()))
    right = Guess(top, min(1.0, top + 2 * math.sqrt(top * (1 - top) / rows)))
    found = {
        "accuracy": right,
        "token_accuracy": right,
        "balanced": Guess(even, min(1.0, even + 2 * math.sqrt(even * (1 - even) * float((1 / counts).sum())) / number)),
        "perplexity": Guess(surprise, surprise, larger=False),
    }
    if number == 2:
        spread = math.sqrt((rows + 1) / (12 * float(counts.prod())))
        found["auroc"] = Guess(0.5, min(1.0, 0.5 + 2 * spread))
    return found


def _numbers(targets: Tensor) -> dict[str, Guess]:
    """A column of each output."""
    columns = targets.reshape(len(targets), -1).double()
    square = float((columns - columns.mean(0)).square().mean(0).sqrt().mean())
    middle = float((columns - columns.median(0).values).abs().mean())
    return {"rmse": Guess(square, square, False), "mae": Guess(middle, middle, False), "r2": Guess(0.0, 0.0)}


def _labels(targets: Tensor) -> dict[str, Guess]:
    """Yes or no for each column: always yes has the F1 of 2 p / (1 + p) where the part p is yes."""
    shares = (targets.reshape(len(targets), -1) > 0).double().mean(0)
    always = float((2 * shares / (1 + shares)).mean())
    return {"macro_auroc": Guess(0.5, 0.5), "macro_f1": Guess(always, always)}
