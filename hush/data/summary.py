"""The facts of a data set, as `hush data describe` prints them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from hush.data.fetch import Say, say_aloud
from hush.data.registry import load
from hush.data.sparse import Sparse


def summary(name: str | Path, say: Say = say_aloud) -> dict[str, Any]:
    """Rows, shape of a row, classes, training rows per label, distinct values per column, source, digest."""
    data = load(name, say)
    inputs = data.train.inputs
    lowest, highest = inputs.range() if isinstance(inputs, Sparse) else (float(inputs.min()), float(inputs.max()))
    labels, counts = torch.unique(data.train.targets, return_counts=True)
    whole = data.train.targets.dtype == torch.int64
    return {
        "name": data.name,
        "train_rows": len(data.train),
        "test_rows": len(data.test),
        "public_rows": 0 if data.public is None else len(data.public),
        "shape": list(data.train.inputs.shape[1:]),
        "lowest": lowest,
        "highest": highest,
        "classes": data.classes,
        "labels": dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True)) if whole else {},
        "columns": {key: len(np.unique(values)) for key, values in data.columns.items()},
        "source": data.source,
        "digest": data.digest,
    }
