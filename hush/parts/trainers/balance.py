"""What is done about a rare class where a client trains."""

from typing import Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from hush.errors import Mistake

Balance = Literal["none", "downsample", "weights", "rates"]
Places = npt.NDArray[np.int64]


def labels(targets: Tensor) -> Places:
    """The targets as the classes 0 and 1; others are refused."""
    if targets.is_floating_point() or targets.dim() != 1 or not bool(((targets == 0) | (targets == 1)).all()):
        raise Mistake("the targets are not the classes 0 and 1, which balancing needs: set balance='none'")
    found: Places = targets.numpy()
    return found


def downsample(picked: Places, labels: Places, rng: np.random.Generator) -> Places:
    """Of the picked places so many of each class as there are of the smaller one (the second paper's Algorithm 7)."""
    parts = [picked[labels[picked] == label] for label in (0, 1)]
    fewer = min(map(len, parts))
    return np.concatenate([rng.choice(part, fewer, replace=False, shuffle=False) for part in parts])
