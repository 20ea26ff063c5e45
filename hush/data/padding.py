"""Rows of different lengths as one tensor: shorter ones are filled up, longer ones cut."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hush.errors import Mistake

IGNORED = -100  # torch's cross_entropy leaves targets of this class out of its mean (ignore_index)


def padded(rows: Sequence[object], fill: float, length: int | None = None) -> Tensor:
    """One row per sequence, each of `length` steps (of the longest one, if None); `fill` stands where it has none."""
    if length is not None and length < 1:
        raise Mistake(f"length={length} must be at least 1: how many steps a row has")
    parts = [_tensor(row) for row in rows]
    full = [part for part in parts if len(part)]
    if not full:
        raise Mistake("there are no rows with a step: give at least one")
    if len({(part.dtype, part.shape[1:]) for part in full}) > 1:
        raise Mistake("the sequences differ in more than their length: give steps of one shape and one type")
    if not full[0].is_floating_point() and fill != int(fill):
        raise Mistake(f"pad={fill} is no integer, and the sequences are: give a number that stands for no token")
    size = length or max(len(part) for part in full)
    out = full[0].new_full((len(parts), size, *full[0].shape[1:]), fill)
    for place, part in enumerate(parts):
        if len(part):
            out[place, : len(part)] = part[:size]
    return out


def sequences(values: object) -> bool:
    """Whether these are rows that have steps, each its own number of them."""
    if isinstance(values, Tensor | np.ndarray) or not isinstance(values, Sequence) or isinstance(values, str):
        return False
    return all(isinstance(row, Tensor | np.ndarray | Sequence) and np.ndim(row) > 0 for row in values[:1])


def _tensor(row: object) -> Tensor:
    try:
        found = row.detach() if isinstance(row, Tensor) else torch.tensor(np.asarray(row))
    except (TypeError, ValueError) as error:
        raise Mistake(f"a sequence cannot become a tensor ({error}): give numbers, one or more per step") from error
    if found.dim() < 1:
        raise Mistake("a row is a single number, and pad is for sequences: leave it out")
    return found
