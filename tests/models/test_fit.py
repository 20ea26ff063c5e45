"""What does not fit is told in one sentence, in Python as on the command line, and nothing is charged or written."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hush
from hush.cli import main
from hush.errors import Mistake
from hush.models import fit
from hush.models.losses import Weighted, binary
from hush.models.metrics import evaluate
from hush.models.weights import flatten
from hush.privacy.ledger import Ledger

DRAW = torch.Generator().manual_seed(1)
X = torch.randn(40, 5, generator=DRAW)
CLASSES, NUMBERS = torch.arange(40) % 4, torch.randn(40, generator=DRAW)
LABELS = (torch.rand(40, 3, generator=DRAW) < 0.4).float()
PRIVATE = hush.Scheme(
    hush.Sgd(rate=0.1, steps=1, batch=4), hush.Fixed(4), stages=(hush.Clip(1.0), hush.Noise(1.0)), step=hush.Average()
)
RECORDS = hush.Scheme(hush.Dpsgd(rate=0.1, steps=1, batch=4, clip=1.0, noise=1.0), hush.Fixed(4))


class Flat(nn.Module):
    """Outputs of all rows in one line."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).flatten()


class Branch(nn.Module):
    """A forward that depends on the values, which torch.func does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight * (2 if float(x.sum()) > 0 else 1)


def linear(outputs: int, *behind: nn.Module) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, outputs), *behind)

    return made


def shifted(outputs: int) -> nn.Module:
    """A model whose weights are broken from the start."""
    model = linear(outputs)()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    return model


def bce(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output, target)


def difference(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()


def total(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, reduction="sum")


def single(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, reduction="none")


def apart(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.detach(), target)


def broken(output: Tensor, target: Tensor) -> Tensor:
    raise KeyError("weights")


def root(output: Tensor, target: Tensor) -> Tensor:
    return (output * 0).sqrt().mean()


WRONG: dict[str, tuple[Callable[[], nn.Module], Any, Tensor, str]] = {
    "classes (N, 1)": (
        linear(4),
        F.cross_entropy,
        CLASSES[:, None],
        "train targets have the shape (N, 1), and this loss takes one class for each row: give (N,), as y.squeeze(-1)",
    ),
    "numbers (N,)": (
        linear(1),
        F.mse_loss,
        NUMBERS,
        "the model gives (N, 1) and train targets have the shape (N,), so that this loss does not pair them row by row:"
        " give targets as y[:, None], or reshape the outputs",
    ),
    "numbers (N, 1)": (
        linear(1, nn.Flatten(0)),
        nn.L1Loss(),
        NUMBERS[:, None],
        "the model gives (N,) and train targets have the shape (N, 1), so that this loss does not pair them row by row:"
        " give targets as y.squeeze(1), or reshape the outputs",
    ),
    "numbers (N,), own loss": (linear(1), difference, NUMBERS, "does not pair them row by row: give targets as y[:, N"),
    "labels (N,), torch's loss": (
        linear(1),
        nn.BCEWithLogitsLoss(),
        LABELS[:, 0],
        "give targets as y[:, None], or res",
    ),
    "labels (N,), own loss": (linear(1), bce, LABELS[:, 0], "the loss fails on outputs of (N, 1) and train targets of"),
    "fewer outputs than classes": (
        linear(3),
        F.cross_entropy,
        CLASSES,
        "the model gives 3 outputs and train targets have the label 3: give it 4, or correct the labels",
    ),
    "weighed, fewer outputs": (
        linear(1),
        Weighted(F.cross_entropy, (1.0, 2.0)),
        CLASSES % 2,
        "give it 2, or take binar",
    ),
    "two outputs for a yes or no": (
        linear(2),
        bce,
        LABELS[:, :1],
        "the loss fails on outputs of (N, 2) and train targ",
    ),
    "two for one number": (
        linear(2),
        F.mse_loss,
        NUMBERS,
        "the model gives (N, 2) and train targets have the shape (N,): give the model one output for each number",
    ),
    "two for one number, own loss": (linear(2), difference, NUMBERS, "the loss fails on outputs of (N, 2) and train t"),
    "labels from 1": (linear(4), F.cross_entropy, CLASSES + 1, "have the label 4: give it 5, or correct the labels"),
    "a label below 0": (
        linear(4),
        F.cross_entropy,
        CLASSES - 1,
        "train targets have the label -1: count the classes f",
    ),
    "a class that is no label": (
        linear(1),
        binary,
        CLASSES[:, None].float(),
        "train targets go from 0 to 3, and this loss takes 0 and 1: correct them, or take cross-entropy with one output"
        " for each class",
    ),
    "a sum": (
        linear(4),
        total,
        CLASSES,
        "the loss is a sum over the rows, since a batch of twice the rows has twice the loss: take the mean, as"
        " reduction='mean' does",
    ),
    "no reduction": (
        linear(4),
        single,
        CLASSES,
        "the loss gives (2,) numbers and not one: take their mean, as reduction='mean' does",
    ),
    "not finite": (
        lambda: shifted(4),
        F.cross_entropy,
        CLASSES,
        "the loss is nan on train rows at the first weights, and so are outputs of the model: check inputs, targets and"
        " how the model is initialised",
    ),
    "a gradient that is not": (
        linear(4),
        root,
        CLASSES,
        "the gradient is NaN or infinite on train rows at the first w",
    ),
    "no gradient": (
        linear(4),
        apart,
        CLASSES,
        "the loss does not depend on the model's weights by a gradient: leave o",
    ),
    "not one per row": (
        Flat,
        lambda o, t: o.mean(),
        CLASSES,
        "the model gives outputs of shape (6,) for 2 rows: keep the first axis, one entry for each row, and flatten in"
        " the loss if need be",
    ),
    "tokens behind classes": (
        linear(12, nn.Unflatten(1, (3, 4))),
        F.cross_entropy,
        torch.stack([CLASSES] * 3, 1),
        "the model gives (N, 3, 4) for targets of (N, 3), and this loss takes the classes as second axis: return"
        " x.transpose(1, -1), or do so in the loss",
    ),
    "a loss that raises": (
        linear(4),
        broken,
        CLASSES,
        "train targets of (N,), int64 (KeyError: 'weights'): make the tw",
    ),
    "a model that raises": (
        lambda: nn.Sequential(nn.Linear(6, 4)),
        F.cross_entropy,
        CLASSES,
        "the model fails on train rows of shape (5,), float32 (RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    ),
}


def task(model: nn.Module, loss: Any, targets: Tensor, **more: Any) -> hush.Task:
    return hush.Task(model, loss, (X, targets), [range(k, k + 4) for k in range(0, 40, 4)], (X, targets), **more)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("scheme", [PRIVATE, RECORDS], ids=["clients", "records"])
def test_python(name: str, scheme: hush.Scheme, tmp_path: Path) -> None:
    make, loss, targets, said = WRONG[name]
    ledger = Ledger(tmp_path / "privacy.json")
    with pytest.raises(Mistake) as mistake:
        next(hush.rounds(scheme, task(make(), loss, targets), rounds=1, ledger=ledger))
    assert said in str(mistake.value)
    assert "\n" not in str(mistake.value)
    assert ledger.events == ()
    assert list(tmp_path.iterdir()) == []


def test_the_clients_path_is_tried() -> None:
    """This engine cannot take the model; the ledger does not know of it."""
    made, ledger = task(Branch(), F.cross_entropy, CLASSES), Ledger()
    with pytest.raises(
        Mistake, match=r"the scheme\'s parts and the model do not fit \(RuntimeError: vmap: .*\.\.\.\): write"
    ):
        next(hush.rounds(PRIVATE, made, rounds=1, ledger=ledger, transport=hush.Simulated(engine=hush.Engine("vmap"))))
    assert ledger.events == ()


@pytest.mark.parametrize("transport", [hush.Simulated(), hush.Loopback()])
def test_a_trial_changes_no_bit(transport: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a run, nor of torch's own generator, nor of what the model holds."""

    def run() -> Tensor:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 4))
        drawn = torch.get_rng_state()
        *_, last = hush.rounds(PRIVATE, task(model, F.cross_entropy, CLASSES), rounds=2, transport=transport)
        assert torch.equal(torch.get_rng_state(), drawn)
        assert all(parameter.grad is None for parameter in model.parameters())
        return last.state.weights

    ours = run()
    monkeypatch.setattr("hush.federation.blocks.walk", lambda *_: None)
    monkeypatch.setattr("hush.federation.loopback.walk", lambda *_: None)
    monkeypatch.setattr(fit, "check", lambda *_: None)
    assert torch.equal(ours, run())


def test_running_statistics_stay() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
    made = task(model, F.cross_entropy, CLASSES)
    fit.check(made.problem, made.parts)
    assert torch.equal(model[1].running_mean, torch.zeros(4))
    assert int(model[1].num_batches_tracked) == 0


@pytest.mark.parametrize(
    ("outputs", "loss", "targets"),
    [
        (4, F.cross_entropy, CLASSES),
        (6, F.cross_entropy, CLASSES),  # classes that do not occur
        (4, F.cross_entropy, torch.where(CLASSES == 0, -100, CLASSES)),
        (4, nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=9), torch.where(CLASSES == 0, 9, CLASSES)),
        (4, F.cross_entropy, F.one_hot(CLASSES).float()),
        (1, lambda o, t: F.mse_loss(o.squeeze(1), t), NUMBERS),
        (1, lambda o, t: (o - t[:, None]).abs().mean(), NUMBERS),
        (1, difference, torch.zeros(40)),
        (2, lambda o, t: ((o[:, 0] - t).square() / o[:, 1].exp() + o[:, 1]).mean(), NUMBERS),
        (3, bce, LABELS),
        (4, lambda o, t: 0 * o.sum(), CLASSES),
        (4, lambda o, t: F.cross_entropy(o, t) + 0.01 * o.square().mean(), CLASSES),
    ],
)
def test_what_fits_is_taken(outputs: int, loss: Any, targets: Tensor) -> None:
    made = task(linear(outputs)(), loss, targets)
    *_, last = hush.rounds(PRIVATE, made, rounds=1)
    assert evaluate(made, last.state.released).loss == pytest.approx(evaluate(made, flatten(last.model)).loss)


def test_each_part_is_named() -> None:
    fine = (X, CLASSES)
    for part, rows in (("test", (X, CLASSES + 4)), ("public", (X[:, :3], CLASSES))):
        made = hush.Task(linear(4)(), F.cross_entropy, fine, [[0, 1], [2, 3]], **{part: rows})
        with pytest.raises(Mistake, match=f"{part} (targets have the label 7|rows of shape)"):
            next(hush.rounds(PRIVATE, made, rounds=1))


def test_metrics_are_tried_too() -> None:
    made = task(linear(4)(), F.cross_entropy, CLASSES, metrics=lambda o, t: {"cohort": 1.0})
    with pytest.raises(Mistake, match="calls a measure 'cohort', which is taken"):
        next(hush.rounds(PRIVATE, made, rounds=1))
    made = task(linear(4)(), F.cross_entropy, CLASSES, metrics="regression")
    with pytest.raises(Mistake, match=r"metrics='regression' does not fit outputs of shape \(2, 4\) and targets of"):
        next(hush.rounds(PRIVATE, made, rounds=1))


CODE = """
import sys
network, loss, targets, _ = sys.modules[{module!r}].WRONG[{name!r}]
rows = sys.modules[{module!r}].X
load = lambda: ((rows, targets), (rows, targets))
model = lambda shape, outputs: network()
"""
WORDS = "run fl-std-dp --noise 1 --clip 1 --data own.py:load --model own.py:model --set model.loss=own.py:loss".split()


@pytest.mark.parametrize("name", WRONG)
def test_command_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(CODE.format(module=__name__, name=name))
    monkeypatch.setattr(sys, "argv", ["hush", *WORDS, "--clients", "10", "--cohort", "4", "--out", "r"])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert WRONG[name][3] in said
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["own.py"]
