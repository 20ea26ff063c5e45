"""about.json in a run's directory: what its page says beside the rounds: version, data, layers, results by group."""

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hush import __version__
from hush.core.state import State
from hush.data import files
from hush.data.samples import Samples
from hush.experiment.resolving import Experiment
from hush.models import intervals
from hush.models.metrics import Score, evaluate

FILE = "about.json"
MOST = 200  # clients that a page lists; classes too
Found = dict[str, Any]


def about(experiment: Experiment, state: State, results: Found | None = None) -> Found:
    """All of it, as JSON: what is public, or named on the card."""
    versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
    found = {
        "hush": __version__,
        "versions": versions,
        "data": _data(experiment),
        "coordinates": _coordinates(experiment, state),
    }
    return found if results is None else {**found, "results": results}


def write(path: Path, found: Found) -> None:
    """In a run's directory; a file that says so already stays."""
    place, content = path / FILE, (json.dumps(found, allow_nan=False) + "\n").encode()
    if not place.exists() or place.read_bytes() != content:
        files.write(place, content)


def _data(experiment: Experiment) -> Found:
    """Where rows are from, how many there are, and what rules dropped; a network's server knows its own rows alone."""
    data, here = experiment.data, experiment.config.data.partition != "sites"
    if data is None:
        return {}
    rows = {"test": len(data.test), "public": 0 if data.public is None else len(data.public)}
    return {
        "source": data.source,
        "digest": data.digest,
        "classes": data.classes,
        "shape": list(data.train.inputs.shape[1:]),
        "rows": {"training": len(data.train), **rows} if here else rows,
        "rules": [dict(rule) for rule in data.rules],
    }


def _coordinates(experiment: Experiment, state: State) -> Found:
    """How many weights of each tensor are live. The set is public, or comes from a vote that the ledger paid for."""
    layout, live = experiment.task.problem.layout, state.live
    sizes = [shape.numel() for shape in layout.shapes]
    counts = sizes if live is None else _counted(live, sizes)
    layers = [
        {"name": name, "shape": list(shape), "weights": size, "live": count}
        for name, shape, size, count in zip(layout.names, layout.shapes, sizes, counts, strict=True)
    ]
    return {"fixed": experiment.scheme.fixed, "layers": layers}


def _counted(live: Tensor, sizes: list[int]) -> list[int]:
    ends = torch.tensor(sizes).cumsum(0)
    place = torch.searchsorted(ends, live, right=True)
    return torch.bincount(place, minlength=len(sizes)).tolist()


def results(experiment: Experiment, state: State) -> Found | None:
    """The last model on the test rows of each class and of each client, as far as these are known."""
    test, data = experiment.task.test, experiment.data
    if test is None or experiment.scheme.standalone or experiment.task.metrics not in (None, "classification"):
        return None
    labels = test.targets.numpy()
    if labels.ndim != 1 or labels.dtype.kind != "i" or labels.min() < 0:
        return None  # no classes: what a part of the rows would be measured by is the task's own affair
    found: Found = {"round": state.round, "classes": _groups(experiment, state, test, labels, two=False)}
    holders = None if data is None else data.holders
    if holders is not None and len(holders) == len(test):
        found["clients"] = _groups(experiment, state, test, holders, two=bool(labels.max() == 1))
    return found


def _groups(
    experiment: Experiment, state: State, test: Samples, groups: np.ndarray[Any, Any], two: bool
) -> list[Found]:
    """Each group by its name; none where there are too many for a list."""
    names, place = np.unique(groups, return_inverse=True)
    if not 1 < len(names) <= MOST:
        return []
    listed = []
    for number, name in enumerate(names.tolist()):
        rows = test.rows(torch.from_numpy(np.flatnonzero(place == number)))
        score = evaluate(experiment.task, state.released, rows, workers=experiment.config.run.workers)
        listed.append({"name": str(name), "rows": len(rows), **_figures(score, rows, two)})
    return listed if any(one["value"] is not None for one in listed) else []


def _figures(score: Score, rows: Samples, two: bool) -> Found:
    """The share that is right, or the AUROC of two classes (None where a group has but one of them)."""
    ones, measure = int((rows.targets == 1).sum()), "auroc" if two else "accuracy"
    value = getattr(score, measure, None)  # which a task with measures of its own need not have
    found: Found = {"measure": measure, "value": value, **({"ones": ones} if two else {})}
    if value is not None:
        low, high = (
            intervals.auroc(value, ones, len(rows) - ones)
            if two
            else intervals.share(round(value * len(rows)), len(rows))
        )
        found |= {"low": low, "high": high}
    return found
