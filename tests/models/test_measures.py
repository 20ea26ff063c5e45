"""Each kind of measures against scikit-learn's, exact over all batches; which kind a task has, and which decides."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as sk
from torch import Tensor, nn

import hush
from hush.core.task import Task
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models.losses import binary
from hush.models.metrics import Score, evaluate, mean
from hush.models.weights import flatten

ROWS = 130
DRAW = torch.Generator().manual_seed(7)
X = torch.randn(ROWS, 6, generator=DRAW)


class Returns(nn.Module):
    """A linear layer, and what is made of its outputs."""

    def __init__(self, outputs: int, made: Callable[[Tensor], Any] = lambda output: output) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.made = nn.Linear(6, outputs), made

    def forward(self, x: Tensor) -> Any:
        return self.made(self.layer(x))


def judged(model: nn.Module, loss: Any, targets: Tensor, metrics: Any = None) -> tuple[Score, Any]:
    """The score in batches of 17, and all outputs, computed in the same batches: float32 rounds by their shape."""
    task = Task(model, loss, (X, targets), [list(range(ROWS))], (X, targets), metrics=metrics)
    with torch.no_grad():
        parts = [model(X[first : first + 17].clone()) for first in range(0, ROWS, 17)]
    found = (
        {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        if isinstance(parts[0], dict)
        else (torch.cat(parts) if isinstance(parts[0], Tensor) else None)
    )
    return evaluate(task, flatten(model), batch=17), found


@pytest.mark.parametrize("columns", [(), (1,), (3,)])
@pytest.mark.parametrize("loss", [nn.MSELoss(), lambda output, target: (output - target).abs().mean()])
def test_regression(columns: tuple[int, ...], loss: Any) -> None:
    targets = torch.randn(ROWS, *columns, generator=DRAW)
    shape = (-1, *columns)
    score, output = judged(Returns(3 if columns == (3,) else 1, lambda o: o.reshape(shape)), loss, targets)
    wanted, given = targets.double().numpy(), output.double().numpy()
    assert list(score.values) == ["rmse", "mae", "r2"]
    assert score.rmse == pytest.approx(sk.root_mean_squared_error(wanted, given), rel=1e-12)
    assert score.mae == pytest.approx(sk.mean_absolute_error(wanted, given), rel=1e-12)
    assert score.r2 == pytest.approx(sk.r2_score(wanted, given), rel=1e-12)
    assert (score.main, score.larger, score.value) == ("rmse", False, score.rmse)
    with pytest.raises(AttributeError, match="this task has no accuracy: its measures are loss, rmse, mae, r2; "):
        _ = score.accuracy


def test_r2_of_numbers_that_are_all_the_same() -> None:
    score, _ = judged(Returns(1), nn.MSELoss(), torch.full((ROWS, 1), 3.0))
    assert score.r2 is None
    assert score.rmse > 0


@pytest.mark.parametrize("loss", [nn.BCEWithLogitsLoss(), nn.BCELoss(), binary, lambda o, t: F.soft_margin_loss(o, t)])
def test_multi_label(loss: Any) -> None:
    """By logits or by probabilities; a label that is always no has no AUROC."""
    targets = (torch.rand(ROWS, 4, generator=DRAW) < torch.tensor([0.5, 0.2, 0.7, 0.0])).float()
    model = Returns(4, torch.sigmoid if isinstance(loss, nn.BCELoss) else lambda output: output)
    score, output = judged(model, loss, targets)
    answers = output > (0.5 if isinstance(loss, nn.BCELoss) else 0)
    areas = [sk.roc_auc_score(targets[:, label], output[:, label]) for label in range(3)]
    assert score.macro_auroc == pytest.approx(sum(areas) / 3, rel=1e-12)
    wanted = sk.f1_score(targets.numpy(), answers.numpy(), average="macro", zero_division=0)
    assert score.macro_f1 == pytest.approx(wanted, rel=1e-12)
    assert (score.main, score.larger) == ("macro_auroc", True)
    assert evaluate_none(targets).main == "macro_f1"


def evaluate_none(targets: Tensor) -> Score:
    return judged(Returns(4), nn.BCEWithLogitsLoss(), torch.zeros_like(targets))[0]


def last_axis(loss: Any) -> Any:
    return lambda output, target: loss(output.flatten(0, 1), target.flatten())


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("tokens", [4, 5])
def test_language(second: bool, tokens: int) -> None:
    """Five classes, second axis or last, also where a sequence has as many tokens; -100 is none."""
    targets = torch.randint(5, (ROWS, tokens), generator=DRAW)
    targets[::3, 0] = -100
    targets[40:80] = -100  # so that batches have unequal numbers of tokens
    made = (lambda o: o.view(-1, 5, tokens)) if second else (lambda o: o.view(-1, tokens, 5))
    score, output = judged(Returns(5 * tokens, made), F.cross_entropy if second else last_axis(loss_of), targets)
    flat = (output.transpose(1, 2) if second else output).flatten(0, 1).double()
    kept = targets.flatten() >= 0
    logs = flat.log_softmax(1)[kept]
    losses = sk.log_loss(targets.flatten()[kept], logs.exp().numpy(), labels=range(5))
    assert score.perplexity == pytest.approx(math.exp(losses), rel=1e-6)
    wanted = sk.accuracy_score(targets.flatten()[kept], flat[kept].argmax(1))
    assert score.token_accuracy == pytest.approx(wanted, rel=1e-12)
    assert (score.main, score.larger) == ("perplexity", False)


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    """A mean that is 0 where all of a batch is ignored."""
    return F.cross_entropy(output, target, reduction="sum", ignore_index=-100) / len(target)


@pytest.mark.parametrize("outputs", [5, 6, 9])
def test_top5(outputs: int) -> None:
    targets = torch.randint(outputs, (ROWS,), generator=DRAW)
    score, output = judged(Returns(outputs), F.cross_entropy, targets)
    if outputs == 5:
        assert "top5" not in score.values
        return
    wanted = sk.top_k_accuracy_score(targets.numpy(), output.numpy(), k=5, labels=range(outputs))
    assert score.top5 == pytest.approx(wanted, rel=1e-12)
    assert (score.main, score.larger) == ("accuracy", True)


class Answer:
    """What a library of transformers returns."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


@pytest.mark.parametrize("made", [lambda o: {"logits": o, "hidden": o * 2}, Answer])
def test_logits_of_a_dict_or_an_object(made: Any) -> None:
    targets = torch.randint(3, (ROWS,), generator=DRAW)

    def loss(output: Any, target: Tensor) -> Tensor:
        return F.cross_entropy(output["logits"] if isinstance(output, dict) else output.logits, target)

    score, _ = judged(Returns(3, made), loss, targets)
    plain, _ = judged(Returns(3), F.cross_entropy, targets)
    assert score == plain


def test_a_dict_without_logits_has_a_loss_alone_or_a_function() -> None:
    targets = torch.randn(ROWS, 2, generator=DRAW)
    model = Returns(2, lambda o: {"mean": o, "log_variance": o * 0})

    def loss(output: Any, target: Tensor) -> Tensor:
        return F.gaussian_nll_loss(output["mean"], target, output["log_variance"].exp())

    score, output = judged(model, loss, targets)
    assert (score.values, score.main, score.larger, score.value) == ({}, "loss", False, score.loss)
    score, _ = judged(model, loss, targets, lambda o, t: {"bias": (o["mean"] - t).mean()})
    assert score.bias == pytest.approx(float((output["mean"] - targets).mean()), abs=1e-6)
    with pytest.raises(
        Mistake, match="metrics='regression' needs a tensor, and the model returns a dict without logit"
    ):
        judged(model, loss, targets, "regression")


@pytest.mark.parametrize(
    ("outputs", "targets", "loss"),
    [
        (
            1,
            (X[:, :1] > 0).float(),
            lambda o, t: F.binary_cross_entropy_with_logits(o, t),
        ),  # or a regression to 0 and 1
        (3, torch.full((ROWS, 3), 1 / 3), F.cross_entropy),  # probabilities of classes
        (2, X[:, 0], lambda o, t: F.gaussian_nll_loss(o[:, 0], t, o[:, 1].exp())),
    ],
)
def test_what_is_not_certain_has_a_loss_alone(outputs: int, targets: Tensor, loss: Any) -> None:
    assert judged(Returns(outputs), loss, targets)[0].main == "loss"


def test_a_kind_that_is_given() -> None:
    targets = (X[:, :1] > 0).float()
    score, output = judged(Returns(1), lambda o, t: F.mse_loss(o, t), targets, "classification")
    assert score.auroc == pytest.approx(sk.roc_auc_score(targets, output), rel=1e-12)
    with pytest.raises(Mistake, match=r"metrics='accurate' is not known: choose classification, regression, multi-lab"):
        judged(Returns(1), F.mse_loss, targets, "accurate")
    with pytest.raises(Mistake, match=r"metrics='multi-label' does not fit outputs of shape \(17, 3\) and targets of"):
        judged(Returns(3), lambda o, t: o.mean() * 0, targets, "multi-label")


def test_integers_are_numbers_to_a_loss_of_numbers() -> None:
    score, _ = judged(Returns(1), nn.MSELoss(), torch.arange(ROWS)[:, None])
    assert score.main == "rmse"


def cost(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs[:, 0] - targets).clamp(min=0).mean())


def test_a_function_of_ones_own_sees_all_rows_at_once() -> None:
    targets, seen = torch.randn(ROWS, generator=DRAW), []

    def both(outputs: Tensor, wanted: Tensor) -> dict[str, float]:
        seen.append(len(outputs))
        return {"mse": float((outputs[:, 0] - wanted).square().mean()), "strange": math.nan}

    loss: Any = partial(lambda o, t: F.mse_loss(o[:, 0], t))
    score, output = judged(Returns(1), loss, targets, both)
    assert seen == [ROWS]
    assert (score.main, score.larger, score.strange) == ("mse", False, None)
    score, _ = judged(Returns(1), loss, targets, cost)
    assert score.cost == pytest.approx(cost(output, targets), rel=1e-6)
    assert (score.main, score.larger) == ("cost", True)
    score, _ = judged(Returns(1), loss, targets, hush.OwnMetrics(cost, larger=False))
    assert (score.main, score.larger) == ("cost", False)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda o, t: {"round": 1.0}, "the metrics function lambda calls a measure 'round', which is taken: rename it"),
        (lambda o, t: {}, "the metrics function lambda returns no measure: add it"),
        (
            lambda o, t: "good",
            "the metrics function lambda fails: ValueError: could not convert string to float: 'good'",
        ),
        (hush.OwnMetrics(cost, decides="gain"), "the metrics function cost returns no gain: add it"),
    ],
)
def test_a_function_that_says_nothing_of_use(function: Any, said: str) -> None:
    with pytest.raises(Mistake, match=said):
        judged(Returns(1), lambda o, t: o.mean(), torch.randn(ROWS), function)


def test_few_rows_of_a_regression_stay_a_regression() -> None:
    """Which kind it is follows from all test rows."""
    targets = torch.cat([torch.ones(2, 2), torch.randn(ROWS - 2, 2)])
    task = Task(Returns(2), lambda o, t: F.mse_loss(o, t), (X, targets), [[0]], (X, targets))
    assert evaluate(task, flatten(task.model), Samples(X[:2], targets[:2])).main == "rmse"


def test_mean_of_models() -> None:
    one, two = Score(1.0, {"rmse": 2.0, "r2": None}, "rmse"), Score(3.0, {"rmse": 5.0, "r2": 1.0}, "rmse")
    assert mean([one, two]) == Score(2.0, {"rmse": 3.5, "r2": None}, "rmse")
