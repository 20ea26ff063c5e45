"""The faster ways take what they are for, train as a plain loop does, and a client by its own rows alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from parts.trainers.plainly import plain
from parts.trainers.test_sparse import SECRET
from torch import Tensor, nn

from hush.core.spec import Plan
from hush.core.task import Task
from hush.core.updates import Grouped, Updates
from hush.data.samples import Samples, Split
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.weights import flatten
from hush.parts.stages import Clip
from hush.parts.trainers import Ridge, Sgd, layered, span
from hush.parts.trainers.history import Outer
from hush.parts.trainers.layered import Layered
from hush.parts.trainers.mixed import Mixed
from hush.parts.trainers.span import Span

ALL = Sgd(0.5, 3, None)


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
    model[2].weight = model[0].weight
    return model


def masked(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that torch.func cannot take: how many rows count depends on them."""
    some = targets >= 2
    return F.cross_entropy(outputs[some], targets[some]) if bool(some.any()) else outputs.sum() * 0


def measured(outputs: Tensor, targets: Tensor) -> Tensor:
    """Another: it looks at a number."""
    found = F.cross_entropy(outputs, targets)
    return found / (1 + found.item())


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.flatten(1) - targets.unsqueeze(1)).square().mean()


CASES = {
    "tied": (tied, (8,), F.cross_entropy),
    "a layer for each token": (lambda: nn.Sequential(nn.Linear(8, 5)), (3, 8), squares),
    "flat in part": (lambda: nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 5)), (2, 3, 8), squares),
    "flat but for one": (lambda: nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 5)), (1, 1, 8), squares),
    "in place": (lambda: nn.Sequential(nn.Linear(8, 5), nn.ReLU(inplace=True)), (8,), F.cross_entropy),
    "masked loss": (lambda: nn.Sequential(nn.Linear(8, 5)), (8,), masked),
    "loss that looks": (lambda: nn.Sequential(nn.Linear(8, 5)), (8,), measured),
    "masked loss, sparse": (lambda: nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 5)), None, masked),
    "one layer, sparse": (lambda: nn.Sequential(nn.Linear(8, 5, bias=False)), None, F.cross_entropy),
}


@pytest.mark.parametrize("name", CASES)
def test_as_a_plain_loop(name: str) -> None:
    torch.manual_seed(1)
    make, shape, loss = CASES[name]
    model, sizes = make(), torch.tensor([0, 10, 13, 23, 30])
    x, y = torch.randn(30, *(shape or (8,))), torch.randint(0, 5, (30,))
    dense = Samples(x, y if loss is not squares else y.float())
    task = Task(model, loss, dense, Split(torch.arange(30), sizes))
    slow = plain(task, ALL, None, np.arange(4), SECRET, 1)
    if shape is None:
        task = Task(model, loss, Samples(Sparse.of(x), y), task.split)
    found = ALL.updates(task.block(np.arange(4), SECRET), Plan(1, flatten(model)))
    assert (found.rows() - slow).norm() < 1e-5 * slow.norm()
    assert (found.sum() - slow.sum(0)).norm() < 1e-5 * slow.norm()


def rest_of(name: str) -> list[nn.Module]:
    return {"softmax": [], "activation": [nn.Tanh()], "squares": [nn.ReLU()]}[name]


@pytest.mark.parametrize("trainer", [ALL, Sgd(0.5, 3, 10), Sgd(0.5, None, 7, epochs=2)])
@pytest.mark.parametrize("name", ["softmax", "activation", "squares"])
def test_rows_that_fill_up_change_nothing(name: str, trainer: Sgd) -> None:
    torch.manual_seed(4)
    sizes = (20, 21, 24, 33, 40, 5, span.MOST, span.MOST + 3)
    count, model = sum(sizes), nn.Sequential(nn.Linear(8, 5), *rest_of(name))
    x, y = torch.randn(count, 8), torch.randint(0, 5, (count,))
    given = Samples(x, y.float()) if name == "squares" else Samples(x, y)
    loss = squares if name == "squares" else F.cross_entropy
    task = Task(model, loss, given, Split.of(torch.arange(count).split(sizes)))
    everyone = np.arange(len(sizes))
    slow = plain(task, trainer, None, everyone, SECRET, 1)
    found = trainer.updates(task.block(everyone, SECRET), Plan(1, flatten(model)))
    assert (found.rows() - slow).norm() < 1e-5 * slow.norm()
    assert (found.sum() - slow.sum(0)).norm() < 1e-5 * slow.norm()
    assert bool((found.norms() >= found.rows().double().norm(dim=1)).all())


@pytest.mark.parametrize("sizes", [(1000, 1000), (1000, 600, 1000)])
def test_large_layers_and_nothing_else(sizes: tuple[int, ...]) -> None:
    layers = [nn.Linear(*pair, bias=False) for pair in pairwise(sizes)]
    x, y = torch.randn(40, 1000), torch.randint(0, 1000, (40,))
    task = Task(nn.Sequential(*layers), F.cross_entropy, Samples(x, y), Split.of(torch.arange(40).split(20)))
    found = Sgd(0.5, 2, None).updates(task.block(np.arange(2), SECRET), Plan(1, flatten(task.model)))
    torch.testing.assert_close(found.norms(), found.rows().double().norm(dim=1), rtol=1e-3, atol=0)


def test_nobody_has_rows_left() -> None:
    """None has a class to balance by: they move nothing, and no round stops for it."""
    model = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2))
    x, y = Sparse.of(torch.rand(6, 8)), torch.zeros(6, dtype=torch.int64)
    task = Task(model, F.cross_entropy, Samples(x, y), Split.of(torch.arange(6).split(2)))
    found = Sgd(0.5, 3, None, balance="downsample").updates(task.block(np.arange(3), SECRET), Plan(1, flatten(model)))
    assert not found.norms().any()
    assert not found.sum().any()


def huge(kind: str, x: Tensor, a: Tensor) -> Updates:
    """Updates a' x of some clients in the form that a way to train has for them."""
    gram = x.double() @ x.double().mT
    if kind == "span":
        return Span(x, a, gram, False)
    if kind == "mixed":
        return Mixed(torch.zeros(len(x), 12), (Outer(slice(0, len(x)), slice(0, 12), x, a),))
    counts = torch.full((len(x),), x.shape[1])
    rows, none = Sparse.of(x.flatten(0, 1)), torch.zeros(len(x), 0)
    return Layered(rows, a.flatten(0, 1), counts, span.lengths(gram, a), none)


@pytest.mark.parametrize("kind", ["span", "mixed", "layered"])
@pytest.mark.parametrize("bound", [0.5, 1e-6, 2.0**-90])
def test_numbers_near_the_largest_are_bounded(kind: str, bound: float) -> None:
    """One client cannot make the sum infinite, and adds no more than the bound, however large its numbers are."""
    generator = torch.manual_seed(5)
    for size in (1e20, 1e30, 1e37, 3e38):
        for slope in (1e-37, 1e-20, 1e-8, 0.6, 1e3):
            x = torch.zeros(2, 3, 6)
            x[0, :, 2], x[1] = size, torch.randn(3, 6, generator=generator)
            a = torch.full((2, 3, 2), -slope)
            found = huge(kind, x, a)
            factors = Clip(bound).factors(found.norms(), None)
            whole = found.scaled(factors).sum()
            assert bool(whole.isfinite().all())
            assert float(whole.norm()) <= 2 * bound * (1 + 1e-6)
            factors[1] = 0.0
            assert float(huge(kind, x, a).scaled(factors).sum().norm()) <= bound * (1 + 1e-6)


def hidden() -> nn.Sequential:
    return nn.Sequential(nn.Linear(60, 16), nn.ReLU(), nn.Linear(16, 5))


def head() -> nn.Sequential:
    return nn.Sequential(nn.Linear(60, 5))


@pytest.mark.parametrize(
    ("model", "sparse", "sizes", "trainer"),
    [
        (hidden, True, [3, 39, 17, 20, 9, layered.MOST + 1], Sgd(1.0, 30, None)),
        (hidden, True, [3, 39, 17, 20, 9, 40], Sgd(1.0, 30, None)),
        (head, False, [span.MOST] * 5 + [span.MOST + 1], Sgd(5.0, 20, 10)),
        (head, False, [20] * 5 + [21], Sgd(5.0, 20, 10)),
    ],
    ids=["one with many sparse rows", "sparse rows", "one with many rows", "one with a row more"],
)
def test_how_a_client_trains_depends_on_nobody_else(model, sparse, sizes, trainer) -> None:
    """Another way to the same numbers rounds otherwise, and after many steps at a high rate that is another update.

    A network's rate is one at which the rounding of products that clients share does not grow: at 6 a ReLU may switch.
    """
    torch.manual_seed(2)
    model, count = model(), sum(sizes)
    x, y = torch.randn(count, 60) * (torch.rand(count, 60) < 0.2), torch.randint(0, 5, (count,))
    task = Task(
        model, F.cross_entropy, Samples(Sparse.of(x) if sparse else x, y), Split.of(torch.arange(count).split(sizes))
    )
    plan, everyone = Plan(1, flatten(model)), np.arange(len(sizes))
    beside = trainer.updates(task.block(everyone, SECRET), plan).rows()
    fit = trainer.fit(task.block(everyone, SECRET), plan)
    for client in everyone:
        one = task.block(everyone[client : client + 1], SECRET)
        kinds = [
            type(parts_of(trainer.updates(block, plan), client if len(block) > 1 else 0))
            for block in (one, task.block(everyone, SECRET))
        ]
        assert kinds[0] is kinds[1]
        for together, alone in ((beside, trainer.updates(one, plan).rows()), (fit, trainer.fit(one, plan))):
            assert (together[client] - alone[0]).norm() <= 1e-5 * alone.norm()


def parts_of(updates: Updates, place: int) -> Updates:
    """The form in which the client at this place has its update."""
    if isinstance(updates, Grouped):
        return next(part for places, part in updates.parts if place in places)
    return updates


def test_blocks_are_as_large_as_memory_allows() -> None:
    assert span.together(10, 600) == span.TOGETHER
    assert span.together(64, 50_000) * 64 * 50_000 <= span.NEAR
    assert span.together(64, 10**9) == 1


def test_a_wide_matrix_is_not_made() -> None:
    """Of a client with many rows and columns the Gram matrix would take longer than its training."""
    each, held = 201, 500
    columns = torch.arange(held * each, dtype=torch.int32)
    wide = Sparse(torch.arange(held + 1) * each, columns, torch.ones(len(columns)), len(columns))
    data = Samples(wide, torch.zeros(len(wide), dtype=torch.int64))
    assert not layered.takes(data, torch.arange(len(wide)))
    assert layered.takes(data, torch.arange(20))


def test_rows_that_were_changed() -> None:
    """What was kept of them is not used again."""
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    task = Task(nn.Sequential(nn.Linear(6, 3)), F.cross_entropy, Samples(x, y), Split.of(torch.arange(8).split(4)))
    plan, block = Plan(1, flatten(task.model)), task.block(np.arange(2), SECRET)
    ALL.updates(block, plan)
    task.train.inputs.mul_(1000)
    found = ALL.updates(block, plan)
    assert bool((found.norms() >= found.rows().double().norm(dim=1)).all())


def test_ridge_is_for_whole_rows() -> None:
    x, y = torch.randn(8, 3, 6), torch.randn(8, 3, 2)
    task = Task(nn.Sequential(nn.Linear(6, 2)), F.mse_loss, Samples(x, y), Split.of(torch.arange(8).split(4)))
    with pytest.raises(Mistake, match="takes a whole row"):
        Ridge(1.0).check(None, task)
    model = tied()
    task = Task(model, F.cross_entropy, Samples(torch.randn(8, 8), y[:, 0, 0].long()), task.split)
    with pytest.raises(Mistake, match="one trained layer is linear"):
        Ridge(1.0).check(None, task)
