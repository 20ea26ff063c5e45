"""The facts of a data set, of records by their schema, and of a raw table, as `hush data describe` prints them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hush.data.fetch import Say, say_aloud
from hush.data.registry import dataset, dealing, records
from hush.data.sparse import Sparse

if TYPE_CHECKING:
    from hush.data.records import Records
    from hush.data.records.schema import Deal


def summary(name: str | Path, say: Say = say_aloud) -> dict[str, Any]:
    """Rows, shape of a row, classes, training rows per label, distinct values per column, source, digest."""
    data = dataset(name, say)
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


def records_summary(name: str, path: Path, say: Say = say_aloud) -> dict[str, Any]:
    """What each rule kept and dropped, the features by group, the clients' rows, the labels, what was fitted."""
    found, wanted = records(path, say), dealing(path)
    names, which, sizes = np.unique(found.clients, return_inverse=True, return_counts=True)
    ones = np.bincount(which, found.targets.numpy() > 0)
    labels, counts = torch.unique(found.targets, return_counts=True)
    return {
        "name": name,
        "rows": len(found.targets),
        "rules": [asdict(rule) for rule in found.counts],
        "features": dict(found.groups),
        "width": found.inputs.width,
        "set_per_row": len(found.inputs.values) / len(found.targets),
        "clients": {
            "count": len(sizes),
            "fewest": int(sizes.min()),
            "most": int(sizes.max()),
            "mean": float(sizes.mean()),
        },
        "by_client": {
            str(name): {"rows": int(rows), "not_0": int(many)}
            for name, rows, many in zip(names, sizes, ones, strict=True)
        },
        "labels": dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True)),
        "label_share": float((found.targets > 0).float().mean()),
        "patients": None if found.patients is None else len(np.unique(found.patients)),
        "deal": None if wanted is None else _dealt(found, wanted),
        "fitted": list(found.fitted),
        "digest": found.digest,
    }


def _dealt(found: Records, wanted: Deal) -> dict[str, int]:
    """The virtual clients of a run with seed 0."""
    from hush.data.records import deal

    dealt = deal(found, wanted)
    sizes = np.bincount(dealt.clients)
    return {
        "clients": len(sizes),
        "fewest": int(sizes.min()),
        "most": int(sizes.max()),
        "train_rows": len(dealt.train),
        "test_rows": len(dealt.test),
        "public_rows": len(dealt.public),
    }


def table_summary(path: Path) -> dict[str, Any]:
    """The columns of a raw table: what they hold, how many different values, how many missing."""
    from hush.data.records.look import look  # polars is slow to import

    found = look(path)
    return {
        "name": path.name,
        "files": found.files,
        "header": found.named,
        "rows": found.rows,
        "columns": [asdict(column) for column in found.columns],
    }
