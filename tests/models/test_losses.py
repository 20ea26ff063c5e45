"""Class weights: what they multiply, by what the sum is divided, and that every engine can take them."""

import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.func import grad, vmap

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.core.task import Task
from hush.errors import Mistake
from hush.models.losses import LOSSES, Weighted, balanced, binary
from hush.models.weights import flatten
from hush.parts.trainers import Sgd
from hush.random.seeds import SecretSeed

TARGETS = torch.tensor([0, 1, 1, 0, 2, 1, 0])


def own(output: Tensor, target: Tensor) -> Tensor:
    """A mean loss that is not known here."""
    return (output.gather(1, target[:, None])[:, 0] - 1).square().mean()


def outputs(columns: int) -> Tensor:
    return torch.randn(7, columns, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("loss", [F.cross_entropy, binary, own])
def test_weight_times_loss_over_rows(loss) -> None:
    output, target, weights = outputs(1 if loss is binary else 3), TARGETS, (0.5, 3.0, 2.0)
    if loss is binary:
        target, weights = target.clamp(max=1), weights[:2]
    rows = [weights[t] * float(loss(output[i : i + 1], target[i : i + 1])) for i, t in enumerate(target.tolist())]
    weighted = Weighted(loss, weights)
    assert float(weighted(output, target)) == pytest.approx(sum(rows) / 7, rel=1e-12)
    for i, row in enumerate(rows):  # a record alone: its weight times its loss
        assert float(weighted(output[i : i + 1], target[i : i + 1])) == pytest.approx(row, rel=1e-12)


def test_not_divided_by_the_weights() -> None:
    """torch's own `weight` divides by their sum, so that a record's part would depend on the others."""
    output, weights = outputs(3), (0.5, 3.0, 2.0)
    total = torch.tensor(weights)[TARGETS].sum().double()
    torchs = F.cross_entropy(output, TARGETS, torch.tensor(weights, dtype=torch.float64))
    torch.testing.assert_close(Weighted(F.cross_entropy, weights)(output, TARGETS) * 7, torchs * total)


def test_one_logit_in_any_shape() -> None:
    loss, output, target = Weighted(binary, (0.5, 3.0)), outputs(1), TARGETS.clamp(max=1)
    expected = loss(output, target)
    assert torch.equal(loss(output[:, 0], target), expected)
    assert torch.equal(loss(output, target[:, None].double()), expected)


@pytest.mark.parametrize("loss", [F.cross_entropy, binary, own])
def test_slopes_of_single_records(loss) -> None:
    """As DP-SGD takes them: by vmap over the records, each a batch of one."""
    output = outputs(1 if loss is binary else 2)
    target = TARGETS.clamp(max=1)
    weighted = Weighted(loss, (0.5, 3.0))

    def one(row: Tensor, label: Tensor) -> Tensor:
        return weighted(row[None], label[None])

    slopes = vmap(grad(one))(output, target)
    torch.testing.assert_close(slopes.mean(0), grad(lambda o: weighted(o, target))(output).sum(0))
    plain = vmap(grad(lambda row, label: loss(row[None], label[None])))(output, target)
    torch.testing.assert_close(slopes, plain * torch.tensor([0.5, 3.0])[target, None])


@pytest.mark.parametrize("loss", [F.cross_entropy, binary, own])
def test_engines_agree(loss, make) -> None:
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 1 if loss is binary else 2)))
    train = (task.train.inputs, (task.train.targets > 7).long())
    task = Task(task.model, Weighted(loss, balanced(0.2)), train, task.split)
    found = [
        Sgd(0.2, 3, 5).fit(
            task.block(np.arange(12), SecretSeed.simulated(1)), Plan(1, flatten(task.model)), Engine(kind)
        )
        for kind in ("lockstep", "vmap")
    ]
    assert (found[0] - found[1]).norm() < 1e-5 * found[0].norm()
    bare = Task(task.model, loss, task.train, task.split)
    other = Sgd(0.2, 3, 5).fit(bare.block(np.arange(12), SecretSeed.simulated(1)), Plan(1, flatten(task.model)))
    assert (found[0] - other).norm() > 0.1 * other.norm()


def test_balanced_as_scikit_learn_has_it() -> None:
    labels = np.repeat([0, 1], [97, 3])
    expected = compute_class_weight("balanced", classes=np.array([0, 1]), y=labels)
    assert balanced(0.03) == pytest.approx(tuple(expected), rel=1e-12)
    assert 0.97 * balanced(0.03)[0] == pytest.approx(0.03 * balanced(0.03)[1])


def test_a_value() -> None:
    loss = Weighted(LOSSES["binary-cross-entropy"], balanced(0.1))
    assert loss == Weighted(binary, balanced(0.1))
    assert hash(loss) == hash(pickle.loads(pickle.dumps(loss)))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, math.nan])
def test_shares_refused(share: float) -> None:
    with pytest.raises(Mistake, match=f"share={share} must lie between 0 and 1"):
        balanced(share)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ((1.0,), "must have one weight per class: give at least two"),
        ((1.0, 0.0), "must be positive"),
        ((1.0, math.nan), "must be positive"),
        ((1.0, math.inf), "must be positive"),
    ],
)
def test_weights_refused(weights: tuple[float, ...], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        Weighted(binary, weights)
