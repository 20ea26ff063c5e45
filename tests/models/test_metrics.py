"""Scores against scikit-learn's, on any number of workers, dense and sparse."""

import sys

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from torch import Tensor, nn

from hush.core.task import Task
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.losses import binary
from hush.models.metrics import evaluate
from hush.models.outputs import Halves, quickened
from hush.models.weights import bound, flatten


def data(rows: int = 230, width: int = 40) -> Tensor:
    """Rows of which a tenth is set, one of them with nothing."""
    draw = torch.Generator().manual_seed(4)
    found = torch.rand(rows, width, generator=draw) * (torch.rand(rows, width, generator=draw) < 0.1)
    found[5] = 0
    return found


def made(outputs: int, targets: Tensor, model: nn.Module | None = None) -> Task:
    torch.manual_seed(1)
    inputs = data(len(targets))
    model = model or nn.Sequential(nn.Flatten(), nn.Linear(40, 8), nn.ReLU(inplace=True), nn.Linear(8, outputs))
    loss = binary if outputs == 1 else F.cross_entropy
    return Task(model, loss, (inputs, targets), [list(range(len(targets)))], (inputs, targets))


RARE = (torch.rand(230, generator=torch.Generator().manual_seed(3)) < 0.2).long()


@pytest.mark.parametrize("outputs", [1, 2])
def test_two_classes(outputs: int) -> None:
    task = made(outputs, RARE)
    score = evaluate(task, flatten(task.model), batch=50)
    with torch.no_grad():
        output = task.model(task.test.inputs[:].clone())
    leaning = output[:, 0] if outputs == 1 else output[:, 1] - output[:, 0]
    answers = leaning > 0
    assert score.accuracy == float((answers == RARE).double().mean())
    assert score.balanced == pytest.approx(balanced_accuracy_score(RARE, answers), rel=1e-12)
    assert score.auroc == pytest.approx(roc_auc_score(RARE, leaning), rel=1e-12)
    assert score.balanced != pytest.approx(score.accuracy, rel=0.01)
    assert score.loss == pytest.approx(float(task.loss(output, RARE)), rel=1e-5)


def test_more_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that do not occur do not count, and nothing is done for an AUROC that is not given."""
    targets = torch.arange(230) % 7
    targets[targets == 3] = 9
    task = made(10, targets)
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    score = evaluate(task, flatten(task.model))
    monkeypatch.undo()
    with torch.no_grad():
        answers = task.model(task.test.inputs[:].clone()).argmax(1)
    recalls = [float((answers[targets == c] == c).double().mean()) for c in targets.unique()]
    assert score.balanced == pytest.approx(sum(recalls) / len(recalls), rel=1e-12)
    assert 0 < score.balanced < 1
    assert score.auroc is None


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [(1, torch.zeros(230, dtype=torch.int64)), (1, torch.ones(230, dtype=torch.int64)), (3, RARE), (2, RARE - 1)],
)
def test_no_auroc(outputs: int, targets: Tensor) -> None:
    """With one class alone, with more outputs than two, with a class that is none of the two."""
    task = made(outputs, targets)
    task = Task(task.model, lambda output, target: output.square().mean(), task.train, task.split, task.test)
    score = evaluate(task, flatten(task.model))
    assert score.auroc is None
    assert score.balanced is not None


def test_yes_and_no_as_numbers() -> None:
    """0.0 and 1.0 are what torch's binary cross-entropy takes."""
    weights = flatten(made(1, RARE).model)
    assert evaluate(made(1, RARE.float()), weights) == evaluate(made(1, RARE), weights)


def test_rows_without_a_class() -> None:
    """-100 is what cross-entropy leaves out."""
    targets = RARE.clone()
    targets[::4] = -100
    task = made(2, targets)
    kept = (targets >= 0).nonzero()[:, 0]
    score = evaluate(task, flatten(task.model))
    assert score.balanced == pytest.approx(evaluate(task, flatten(task.model), task.test.rows(kept)).balanced)
    none = Samples(task.test.inputs, torch.full((230,), -100))
    task = Task(task.model, lambda output, target: output.square().mean(), task.train, task.split)
    assert evaluate(task, flatten(task.model), none).balanced is None


def test_a_broken_model_has_no_auroc() -> None:
    task = made(1, RARE)
    score = evaluate(task, torch.full_like(flatten(task.model), torch.nan))
    assert score.loss != score.loss
    assert score.auroc is None


def norm() -> nn.Module:
    return nn.Sequential(nn.Linear(40, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


def other() -> nn.Module:
    return nn.Sequential(nn.Tanh(), nn.Linear(40, 1))


@pytest.mark.parametrize("make", [None, norm, other])
def test_sparse_as_dense(make) -> None:
    task = made(1, RARE, make() if make else None)
    weights = flatten(task.model) + 0.01
    rows = Samples(Sparse.of(task.test.inputs[:]), RARE)
    dense, sparse = (evaluate(task, weights, s, batch=60) for s in (task.test, rows))
    assert sparse.loss == pytest.approx(dense.loss, rel=1e-6)
    assert (sparse.accuracy, sparse.balanced) == (dense.accuracy, dense.balanced)
    assert sparse.auroc == pytest.approx(dense.auroc, rel=1e-9)
    assert evaluate(task, weights, rows).loss == pytest.approx(dense.loss, rel=1e-6)
    with torch.no_grad():
        output = bound(task.model, weights).eval()(task.test.inputs[:].clone())
    assert dense.loss == pytest.approx(float(binary(output, RARE)), rel=1e-6)


def test_sparse_rows_stay_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    task = made(1, RARE)
    rows = Samples(Sparse.of(task.test.inputs[:]), RARE)
    monkeypatch.setattr(Sparse, "dense", None)
    assert evaluate(task, flatten(task.model), rows).auroc is not None


@pytest.mark.parametrize("sparse", [False, True])
def test_any_number_of_workers(sparse: bool) -> None:
    task = made(1, RARE)
    rows = Samples(Sparse.of(task.test.inputs[:]), RARE) if sparse else task.test
    scores = {evaluate(task, flatten(task.model), rows, 30, workers) for workers in (1, 2, 3)}
    assert len(scores) == 1


def test_no_data() -> None:
    task = made(1, RARE)
    with pytest.raises(Mistake, match="the task has no test data"):
        evaluate(Task(task.model, binary, task.train, task.split), flatten(task.model))


@pytest.mark.parametrize("side", [28, 29, 31])
def test_a_quicker_forward_pass_gives_the_same_bits(side: int) -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True))
    model = nn.Sequential(nn.Conv2d(1, 3, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), inner, nn.Flatten(), nn.ReLU())
    x = torch.randn(20, 1, side, side)
    x[0, 0, 0, :5] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])
    found = quickened(model)
    assert [type(layer) for layer in found][1:3] == [Halves, nn.ReLU]
    assert [type(layer) for layer in found[3]][1:] == [nn.MaxPool2d, nn.ReLU]
    torch.testing.assert_close(found(x), model(x), rtol=0, atol=0, equal_nan=True)
    model[1].register_forward_hook(lambda *_: None)
    assert quickened(model) is model
