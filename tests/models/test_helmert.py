"""The head with one row less: its matrix, its gradients, what travels, and both engines."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from parts.trainers.plainly import live_of, plain
from torch import nn

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.models.helmert import head, helmert
from hush.models.traits import traits
from hush.models.weights import Layout, flatten, load
from hush.parts.trainers import Sgd
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(1)
EVERYONE = np.arange(4)


def rows(count: int = 27, width: int = 6, classes: int = 10) -> Samples:
    random = torch.Generator().manual_seed(4)
    inputs = torch.randn(count, width, generator=random)
    return Samples(inputs, torch.randint(0, classes, (count,), generator=random))


def task() -> Task:
    """Four clients of 3 to 10 rows, and weights that are not zero."""
    model = head(6, 10)
    load(model, torch.randn(54, generator=torch.Generator().manual_seed(5)))
    split = Split(torch.randperm(27, generator=torch.Generator().manual_seed(6)), torch.tensor([0, 3, 10, 17, 27]))
    return Task(model, F.cross_entropy, rows(), split)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_orthonormal_columns_that_sum_to_zero(classes: int) -> None:
    h = helmert(classes)
    assert h.shape == (classes, classes - 1)
    torch.testing.assert_close(h.T @ h, torch.eye(classes - 1, dtype=torch.float64))
    torch.testing.assert_close(h.sum(0), torch.zeros(classes - 1, dtype=torch.float64))


def test_the_matrix_of_three() -> None:
    a, b = 0.5**0.5, 6**-0.5
    expected = torch.tensor([[a, b], [-a, b], [0.0, -2 * b]], dtype=torch.float64)
    torch.testing.assert_close(helmert(3), expected)


@pytest.mark.parametrize(("directions", "weights"), [(600, 5_409), (200, 1_809), (60, 549)])
def test_one_row_in_ten_does_not_travel(directions: int, weights: int) -> None:
    model = head(directions + 1, 10)
    assert Layout.of(model).names == ("0.weight",)
    assert torch.equal(flatten(model), torch.zeros(weights))
    assert torch.equal(model(torch.randn(3, directions + 1)), torch.zeros(3, 10))


def test_gradients_are_those_of_the_plain_head() -> None:
    """That of W is H' times that of V = H W, which has nothing else: it sums to zero over the classes."""
    data, small, large = rows(), head(6, 10).double(), nn.Linear(6, 10, bias=False).double()
    h = helmert(10)
    with torch.no_grad():
        small[0].weight.copy_(torch.randn(9, 6, generator=torch.Generator().manual_seed(5)))
        small[1].weight.copy_(h)  # in float64
        large.weight.copy_(h @ small[0].weight)
    for model in (small, large):
        F.cross_entropy(model(data.inputs.double()), data.targets).backward()
    assert small[1].weight.grad is None
    torch.testing.assert_close(small[0].weight.grad, h.T @ large.weight.grad)
    torch.testing.assert_close(h @ small[0].weight.grad, large.weight.grad)
    assert large.weight.grad.norm() > 0.1


def test_training_is_that_of_the_plain_head() -> None:
    """The same logits after many steps from zero."""
    data, small, large = rows(), head(6, 10), nn.Linear(6, 10, bias=False)
    nn.init.zeros_(large.weight)
    for model in (small, large):
        steps = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
        for _ in range(30):
            steps.zero_grad()
            F.cross_entropy(model(data.inputs), data.targets).backward()
            steps.step()
    torch.testing.assert_close(small(data.inputs), large(data.inputs), rtol=1e-4, atol=1e-4)
    assert torch.equal(small[1].weight, helmert(10).float())


@pytest.mark.parametrize("which", ["all", "few", "last"])
@pytest.mark.parametrize("trainer", [Sgd(0.5, 4, None), Sgd(0.5, 3, 5)], ids=["whole", "batches"])
def test_both_engines_are_a_plain_loop(which: str, trainer: Sgd) -> None:
    made = task()
    found = traits(made.model, made.train.inputs)
    assert found.plain
    assert found.rowwise
    live, start = live_of(made, which), flatten(made.model)
    slow = plain(made, trainer, live, EVERYONE, SECRET, 1)
    assert slow.norm(dim=1).min() > 1e-3
    for engine in (Engine("lockstep"), Engine("vmap"), Engine()):
        fast = trainer.fit(made.block(EVERYONE, SECRET), Plan(1, start, live), engine)
        assert ((fast.double() - slow).norm(dim=1) / slow.norm(dim=1)).max() < 1e-5
    assert torch.equal(made.model[1].weight, helmert(10).float())
    assert torch.equal(flatten(made.model), start)


def test_refused() -> None:
    with pytest.raises(Mistake, match="classes=1 must be at least 2"):
        head(5, 1)
    with pytest.raises(Mistake, match="width=0 must be at least 1"):
        head(0, 10)
