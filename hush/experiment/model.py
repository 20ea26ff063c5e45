"""A trained model that can be used: model.safetensors with all that says what it takes and gives, and back."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from hush.data import files
from hush.data.samples import samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.experiment import config, fronts
from hush.experiment.checkpoint import digest
from hush.experiment.fronts import Front, Function, Inputs
from hush.experiment.preparing import Prepared, model_of
from hush.experiment.settings import PYTHON
from hush.models.outputs import outputs
from hush.random.seeds import PublicSeed

FILE = "model.safetensors"
FORMAT = 1  # of what stands beside the weights; files before it had nothing there


@dataclass(frozen=True)
class About:
    """What a model takes and gives, in JSON's own types.

    shape, dtype   of a raw row; `inputs`: shape of one as the network takes it, behind the front
    classes   of the labels; 1 where they are numbers; `outputs`: of the network
    network, loss   by name; `share` is the rarer class's, where the loss weighs by it; `metrics`, if they were named
    front     what makes features of raw rows (hush.experiment.fronts)
    records   of tables: which columns become which features (hush.data.records.applying)
    card      SHA-256 of the run's privacy card
    """

    scheme: str
    data: str
    shape: list[int]
    dtype: str
    inputs: list[int]
    classes: int
    outputs: int
    network: str
    loss: str
    front: dict[str, Any]
    share: float | None = None
    metrics: str | None = None
    records: dict[str, Any] | None = None
    card: str | None = None
    versions: dict[str, str] = field(default_factory=dict)


def about(ready: Prepared) -> About:
    """Of a run that is prepared."""
    wanted, data = ready.config, ready.data
    return About(
        scheme=wanted.scheme.name,
        data=wanted.data.name,
        shape=list(ready.shape),
        dtype=ready.dtype,
        inputs=list(data.train.inputs.shape[1:]),
        classes=data.classes,
        outputs=ready.outputs,
        network=ready.model_name,
        loss=ready.loss.name,
        front=ready.front.about,
        share=ready.loss.share,
        metrics=wanted.model.metrics,
        records=data.described,
        versions={"hush": version("hush-fl"), "torch": torch.__version__},
    )


def write(path: Path, network: nn.Module, known: About, card: Mapping[str, Any] | None) -> None:
    """The weights, and what is known of them, in one file."""
    tensors = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    text = json.dumps(card, sort_keys=True)
    known = replace(known, card=hashlib.sha256(text.encode()).hexdigest())
    head = json.dumps({"format": FORMAT, **asdict(known)})  # in its order: that of columns is that of features
    # One key: several would be written in any order, and the same run would leave another file.
    meta = {"hush": json.dumps({"about": head, "digest": digest(tensors, head)}, sort_keys=True)}
    files.write(path, save(tensors, metadata=meta))


def read(path: Path) -> tuple[About, dict[str, Tensor]]:
    """What `write` wrote; anything else is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            names = file.keys()
            tensors = {name: file.get_tensor(name).clone() for name in names}
        if "hush" not in meta:
            raise Mistake(
                f"{path} does not say what it takes, as in older versions of hush: let `hush run --resume` write it"
                " anew"
            )
        whole = json.loads(meta["hush"])
        if digest(tensors, whole["about"]) != whole["digest"]:
            raise Mistake(f"{path} is corrupt: restore it from a copy, or train it again")
        known = json.loads(whole["about"])
        if known.pop("format") != FORMAT:
            raise Mistake(f"{path} was written by another version of hush: use it with that version")
        return About(**known), tensors
    except FileNotFoundError:
        raise Mistake(f"{path} is not there: let the run finish, or give the directory of one that has") from None
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, Mistake):
            raise
        raise Mistake(f"{path} cannot be read ({error}): restore it from a copy, or train it again") from None


class Model(nn.Module):
    """A trained network behind what makes its rows: raw inputs in, outputs out. `about` says what it takes.

    `seed` is that of the run, which draws the test rows of records. It stays in the run's directory: with the model of
    a simulation it would take the noise off.
    """

    def __init__(self, network: nn.Module, front: Front, about: About, seed: int = 0) -> None:
        super().__init__()
        self.network, self.front, self.about, self.seed = network.eval(), front, about, seed

    def rows(self, inputs: object) -> Inputs:
        """What the network takes, of raw inputs (a tensor, an array, or sparse records)."""
        raw = inputs if isinstance(inputs, Sparse | Tensor) else torch.as_tensor(np.asarray(inputs))
        if list(raw.shape) == self.about.shape:
            raise Mistake(f"inputs of the shape {tuple(raw.shape)} are one row: give it as a batch of one, as x[None]")
        if raw.dim() and not len(raw):
            raise Mistake("inputs have no rows: give one or more")
        if list(raw.shape[1:]) != self.about.shape or not raw.dim():
            raise Mistake(
                f"inputs have the shape {tuple(raw.shape)}, and this model takes rows of {tuple(self.about.shape)}:"
                " give them as the run's data had them"
            )
        return self.front(samples((raw, torch.zeros(len(raw)))).inputs)

    def forward(self, inputs: object) -> Tensor:
        """The network's outputs, in batches as a run evaluates."""
        return torch.cat(list(outputs(self.network, self.rows(inputs))))

    def predict(self, inputs: object) -> Tensor:
        """The class of each row, or its outputs where the model gives numbers."""
        return self.answers(self(inputs))

    def answers(self, found: Tensor) -> Tensor:
        """What outputs mean: by the largest, or by the sign of a single one."""
        if self.about.classes == 1:
            return found
        return found.argmax(1) if found.dim() > 1 and found.shape[-1] > 1 else (found > 0).flatten().long()


def load(run: str | Path, model: nn.Module | None = None, features: Function | None = None) -> Model:
    """The trained model of a run's directory (or its model.safetensors): a callable that takes raw inputs.

    `model`, `features`: the network and the function that a Python program trained with, which no file holds. Code of
    one's own (file.py:function) is found where it was, or in the run's directory.
    """
    path = Path(run)
    path = path / FILE if path.is_dir() or path.suffix != ".safetensors" else path
    known, tensors = read(path)
    network = model
    if network is None and known.network == PYTHON:
        raise Mistake(f"{path}: its network is that of a Python program: give it, as in hush.load(run, model=network)")

    def local(name: str) -> str:
        place, _, called = name.rpartition(":")
        near = path.parent / Path(place).name
        return f"{near}:{called}" if not Path(place).is_file() and near.is_file() else name

    if network is None:
        name = local(known.network) if ".py:" in known.network else known.network
        network = model_of(name, torch.Size(known.inputs), known.outputs, PublicSeed(0))  # these weights are replaced
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        line = " ".join(str(error).split())[:200]
        raise Mistake(f"{path} does not fit the network {known.network}: {line}") from None
    front = fronts.made(known.front, local) if features is None else fronts.Own(PYTHON, features)
    beside = path.parent / "config.toml"
    return Model(network, front, known, config.read(beside).run.seed if beside.is_file() else 0)
