"""Rows for a trained model to predict: of a file, of a table, or the test rows of a data set."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from hush.data import npz
from hush.data.fetch import Say
from hush.data.records.applying import check
from hush.data.records.applying import read as read_table
from hush.data.registry import dataset, schema_of
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.experiment import population
from hush.experiment.fronts import Inputs
from hush.experiment.model import Model
from hush.experiment.preparing import loss_of, metrics_of
from hush.experiment.settings import PYTHON
from hush.models.losses import Loss, family, ignored
from hush.models.measures.choice import Metrics
from hush.models.metrics import Score, evaluate
from hush.models.outputs import outputs
from hush.models.weights import flatten

TABLES = (".csv", ".parquet", ".xlsx")  # also where there is no such file


@dataclass(frozen=True, eq=False)
class Rows:
    """Raw inputs, labels if there are some, each row's number where it came from, and how many were left out."""

    inputs: Inputs
    targets: Tensor | None
    numbers: list[int]
    left: int = 0


@dataclass(frozen=True, eq=False)
class Predicted:
    """Of each row its number, its class (or value) and the outputs; a score where the rows have labels."""

    numbers: list[int]
    answers: Tensor
    outputs: Tensor
    score: Score | None
    left: int

    @property
    def table(self) -> list[list[str]]:
        """A header, and a line for each row: what is predicted, and the probability of each class."""
        found = self.outputs.flatten(1) if self.outputs.dim() > 1 else self.outputs[:, None]
        if self.answers.is_floating_point():
            head = ["row", *("prediction" if found.shape[1] == 1 else f"prediction_{n}" for n in range(found.shape[1]))]
            return [head, *([str(n), *map(str, row)] for n, row in zip(self.numbers, found.tolist(), strict=True))]
        whole = found.softmax(1) if found.shape[1] > 1 else torch.cat([(-found).sigmoid(), found.sigmoid()], 1)
        head = ["row", "prediction", *(f"p_{number}" for number in range(whole.shape[1]))]
        rows = zip(self.numbers, self.answers.tolist(), whole.tolist(), strict=True)
        return [head, *([str(n), str(answer), *(f"{p:.6g}" for p in odds)] for n, answer, odds in rows)]


@dataclass(frozen=True, eq=False)
class _Judged:
    """What a score needs."""

    model: torch.nn.Module
    loss: Loss
    test: Samples
    metrics: Metrics | None


def predict(model: Model, name: str, say: Say = population.quiet) -> Predicted:
    """What the model says of the rows that the name stands for."""
    rows = read(model, name, say)
    made = model.rows(rows.inputs)
    found = torch.cat(list(outputs(model.network, made)))
    score = None
    if rows.targets is not None:
        metrics = None if model.about.metrics == PYTHON else metrics_of(model.about.metrics)
        loss = _loss(model)
        _check_labels(loss, found, rows.targets, rows.numbers)
        judged = _Judged(model.network, loss, Samples(made, rows.targets), metrics)
        score = evaluate(judged, flatten(model.network))
    return Predicted(rows.numbers, model.answers(found), found, score, rows.left)


def read(model: Model, name: str, say: Say = population.quiet) -> Rows:
    """An .npz (x, or x_test with y_test), a table by the model's own columns, or the test rows of a data set."""
    path, known = Path(name), model.about.records
    if path.suffix == ".npz":
        return _arrays(path)
    if path.is_dir() and known is not None:
        raise Mistake(f"{path} is a folder, and rows are numbered within a table: predict each of its files by itself")
    if path.suffix.lower() in TABLES or (path.is_file() and path.suffix.lower() != ".toml"):
        if known is None:
            raise Mistake(f"{path} is a table, and this model has no schema of columns: give an .npz of raw inputs")
        with TemporaryDirectory() as folder:
            inputs, targets, numbers, left = read_table(path, known, Path(folder), say)
        return Rows(inputs, targets, numbers.tolist(), left)
    if ".py:" in name or known is None or schema_of(name, say) is None:
        test = population.found(name, model.seed).test
    else:
        data = dataset(name, say, model.seed, described=known)
        check(data.features, known, name)
        test = data.test
    return Rows(test.inputs, test.targets, list(range(1, len(test) + 1)))


def _arrays(path: Path) -> Rows:
    arrays, _ = npz.opened(path)
    name = next((name for name in ("x", "x_test") if name in arrays), None)
    if name is None:
        raise Mistake(f"{path} has no array 'x' or 'x_test': save the raw inputs as one of them")
    labels = arrays.get(name.replace("x", "y", 1))
    targets = None
    if labels is not None:
        if len(labels) != len(arrays[name]):
            raise Mistake(f"{path} has {len(arrays[name])} rows of inputs and {len(labels)} labels: give one for each")
        targets = torch.as_tensor(labels.astype("float32" if labels.dtype.kind == "f" else "int64"))
    inputs = torch.as_tensor(arrays[name].astype("float32") if arrays[name].dtype.kind in "bf" else arrays[name])
    return Rows(inputs, targets, list(range(1, len(inputs) + 1)))


def _check_labels(loss: Loss, found: Tensor, targets: Tensor, numbers: list[int]) -> None:
    """Refuse labels of classes that the model does not know."""
    like = family(loss)
    if like not in ("classes", "labels") or (like == "classes" and targets.is_floating_point()):
        return
    most = found.shape[1] - 1 if like == "classes" and found.dim() > 1 else 1
    wrong = ((targets < 0) | (targets > most)) & (targets != ignored(loss))
    if bool(wrong.any()):
        place = wrong.nonzero()[0]
        label, row = float(targets[tuple(place)]), numbers[int(place[0])]
        raise Mistake(
            f"row {row} has the label {label:g}, and the model knows the classes 0 to {most}: correct it, or leave the"
            " labels out"
        )


def _loss(model: Model) -> Loss:
    """The run's own; nothing where it was a Python program's."""
    about = model.about
    if about.loss == PYTHON:
        return lambda output, target: output.new_zeros(())
    return loss_of(about.loss, about.share)
