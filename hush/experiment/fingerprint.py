"""A digest of what a run is of: it is resumed, and audited, with the very same."""

import hashlib
import marshal
from pathlib import Path

import torch
from torch import Tensor

from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.experiment.resolving import Experiment
from hush.experiment.settings import PYTHON
from hush.privacy.ledger import Ledger


def unchanged(experiment: Experiment, run: Path) -> None:
    """Refuse to audit a scheme of one's own that is not the run's any more. Where all is hush's, the data may be made
    anew elsewhere, with other last bits.
    """
    if experiment.files and Ledger.load(run / "privacy.json").header.get("task") != fingerprint_of(experiment):
        raise Mistake(
            f"{run}: a file of your own, the data or the model changed since the run, so that an audit would be of"
            " something else: restore what it was, or train again with another --out"
        )


def fingerprint_of(experiment: Experiment) -> str:
    """A digest of the weights, the split, the data and own code: a resumed run must have the very same."""
    digest, task = hashlib.sha256(), experiment.task
    for part in (*task.model.state_dict().values(), *_held(experiment)):
        digest.update(_bytes(part))
    for own in sorted(experiment.files):
        digest.update(own.read_bytes())
    if PYTHON in (experiment.config.model.name, experiment.config.model.loss):  # no file has their code
        for given in (type(task.model).forward, task.loss):
            code = getattr(given, "__code__", None)
            digest.update(repr(type(given)).encode() if code is None else marshal.dumps(code))
    return digest.hexdigest()


def rows_of(experiment: Experiment) -> str:
    """A digest of who holds what: what a finished run is of, whatever its network began with."""
    digest = hashlib.sha256()
    for part in _held(experiment):
        digest.update(_bytes(part))
    return digest.hexdigest()


def _held(experiment: Experiment) -> list[Tensor]:
    held, rows = experiment.task.known
    parts = list(held)
    for samples in rows:
        parts += [*_tensors(samples.inputs), samples.targets] if samples is not None else []
    return parts


def _bytes(part: Tensor) -> memoryview:
    found: memoryview = part.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return found


def _tensors(inputs: Tensor | Sparse) -> list[Tensor]:
    return [inputs.starts, inputs.columns, inputs.values] if isinstance(inputs, Sparse) else [inputs]
