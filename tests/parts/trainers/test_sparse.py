"""Sparse rows through a linear first layer: the same training, at the cost of what is set."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from parts.trainers.plainly import LIVE, live_of, plain
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.federation.simulated import Simulated, rounds
from hush.models import workers
from hush.models.losses import Weighted, binary
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.trainers import Sgd, cohort, sparse
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(1)
EVERYONE = np.arange(12)


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 9), nn.Tanh(), nn.Linear(9, 9), nn.Linear(9, 10))
    model[4].weight = model[2].weight
    return model


def tied_relu() -> nn.Module:
    hidden = nn.Linear(12, 12)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), hidden, nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, 10)
    )
    model[5].weight = hidden.weight
    return model


def frozen_relu() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 10))
    model[3].weight.requires_grad_(False)
    return model


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 10))
    model[2].weight.requires_grad_(False)
    return model


MODELS = {
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 10)
    ),
    "no flatten, no bias": lambda: nn.Sequential(nn.Linear(64, 12, bias=False), nn.Tanh(), nn.Linear(12, 10)),
    "in place": lambda: nn.Sequential(nn.Linear(64, 12), nn.SiLU(inplace=True), nn.Linear(12, 10)),
    "in place, no bias": lambda: nn.Sequential(nn.Linear(64, 12, bias=False), nn.SiLU(inplace=True), nn.Linear(12, 10)),
    "one layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
    "tied": tied,
    "frozen": frozen,
    "tied, ReLU": tied_relu,
    "frozen, ReLU": frozen_relu,
    "ReLU, no biases": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 12, bias=False),
        nn.ReLU(),
        nn.Linear(12, 8, bias=False),
        nn.ReLU(True),
        nn.Linear(8, 10),
    ),
}
TRAINERS = {
    "steps": Sgd(0.3, 3, 5),
    "epochs": Sgd(0.3, None, 4, epochs=2),
    "all rows": Sgd(0.3, None, None, epochs=3),
}


def sparsely(task: Task) -> Task:
    """The same task with its inputs sparse, and two rows with nothing set."""

    def of(samples: Samples) -> Samples:
        flat = samples.inputs[:].flatten(1).clone()
        flat[:2] = 0
        return Samples(Sparse.of(flat), samples.targets)

    return Task(task.model, task.loss, of(task.train), task.split, of(task.test))


@pytest.mark.parametrize("which", LIVE)
@pytest.mark.parametrize("how", TRAINERS)
@pytest.mark.parametrize("name", MODELS)
def test_as_a_plain_loop(name: str, how: str, which: str, make) -> None:
    torch.manual_seed(3)
    task = sparsely(make(MODELS[name]()))
    assert sparse.trainable(task.problem, task.train) is not None
    live, start = live_of(task, which), flatten(task.model)
    for trainer in (TRAINERS[how], replace(TRAINERS[how], free=True)):
        fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live))
        slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
        assert slow.norm(dim=1).max() > 1e-4
        assert (fast.double() - slow).norm() < 1e-5 * slow.norm()
        assert torch.equal(flatten(task.model), start)


@pytest.mark.parametrize("which", LIVE)
def test_as_with_dense_rows(which: str, make) -> None:
    task = sparsely(make(MODELS["mlp"]()))
    live, start, trainer = live_of(task, which), flatten(task.model), TRAINERS["steps"]
    fast, dense = (
        trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live), Engine(kind)) for kind in ("lockstep", "vmap")
    )
    assert not torch.equal(fast, dense)
    assert (fast - dense).norm() < 1e-5 * dense.norm()


def test_one_logit_with_class_weights(make) -> None:
    """The hospitals' network in small."""
    task = sparsely(make(nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 1))))
    train = Samples(task.train.inputs, (task.train.targets == 3).long())
    trainer, updates = TRAINERS["epochs"], []
    for loss in (binary, Weighted(binary, (0.6, 3.0))):
        task = Task(task.model, loss, train, task.split)
        slow = plain(task, trainer, None, EVERYONE, SECRET, 1)
        updates.append(trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model))))
        assert (updates[-1].double() - slow).norm() < 1e-5 * slow.norm()
    assert (updates[0] - updates[1]).norm() > 0.1 * updates[0].norm()


def test_slopes_that_are_one_number(make) -> None:
    """Autograd gives them as one number in all places, which cannot be changed in place."""
    task = sparsely(make(nn.Sequential(nn.Linear(64, 10, bias=False))))
    task = Task(task.model, lambda output, target: output.mean(), task.train, task.split)
    fast = TRAINERS["epochs"].fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model)))
    slow = plain(task, TRAINERS["epochs"], None, EVERYONE, SECRET, 1)
    assert (fast.double() - slow).norm() < 1e-5 * slow.norm()


@pytest.mark.parametrize("how", TRAINERS)
@pytest.mark.parametrize("which", ["all", "few"])
def test_the_same_bits_in_any_block(how: str, which: str, make) -> None:
    task = sparsely(make(MODELS["mlp"]()))
    live, start = live_of(task, which), flatten(task.model)
    together = TRAINERS[how].fit(task.block(EVERYONE, SECRET), Plan(1, start, live))
    for clients in (EVERYONE[::-1].copy(), np.array([7]), np.array([11, 2, 5])):
        assert torch.equal(TRAINERS[how].fit(task.block(clients, SECRET), Plan(1, start, live)), together[clients])


def test_the_same_bits_with_any_workers(make) -> None:
    task = sparsely(make(MODELS["mlp"]()))
    scheme = Scheme(TRAINERS["epochs"], Fixed(7))
    cases = [Simulated(block, workers=n, exact=True) for block, n in ((None, 1), (2, 2), (1, 3))]
    cases += [Simulated(2, workers=n) for n in (1, 2, 3)]  # sums of blocks
    found = [list(rounds(scheme, task, rounds=3, transport=each))[-1].state.weights for each in cases]
    assert all(torch.equal(found[0], other) for other in found[1:3])
    assert all(torch.equal(found[3], other) for other in found[4:])


class Meet(nn.Module):
    """A layer in which two threads wait for each other."""

    both: threading.Barrier | None = None

    def forward(self, x: Tensor) -> Tensor:
        if Meet.both is not None:
            Meet.both.wait()
        return torch.tanh(x)


def test_two_threads_in_the_same_layer(make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client has its own weights in the layers behind, also while another one is there."""
    task = sparsely(make(nn.Sequential(nn.Linear(64, 12), Meet(), nn.Linear(12, 10))))
    start, trainer = flatten(task.model), Sgd(0.3, 3, None)
    alone = [trainer.fit(task.block(np.array([client]), SECRET), Plan(1, start)) for client in (3, 9)]
    monkeypatch.setattr(Meet, "both", threading.Barrier(2, timeout=20))
    together = workers.spread(lambda k: trainer.fit(task.block(np.array([k]), SECRET), Plan(1, start)), (3, 9), 2)
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


class Made(TorchDispatchMode):
    """How many tensors of at least this many numbers are made, views and changes in place aside."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.count = size, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        known = {a.untyped_storage().data_ptr() for a in (*args, *(kwargs or {}).values()) if isinstance(a, Tensor)}
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in known:
                self.count += tensor.numel() >= self.size
        return out


def wide(width: int = 3000, rows: int = 40) -> Task:
    """Rows with about ten columns set of very many."""
    torch.manual_seed(5)
    columns = torch.stack([torch.randperm(width)[:10].sort().values for _ in range(rows)])
    starts = torch.arange(0, 10 * rows + 1, 10)
    inputs = Sparse(starts, columns.flatten().to(torch.int32), torch.rand(10 * rows) + 0.5, width)
    model = nn.Sequential(nn.Flatten(), nn.Linear(width, 6), nn.Tanh(), nn.Linear(6, 1))
    return Task(model, binary, Samples(inputs, torch.arange(rows) % 2), [list(range(rows))])


def test_no_step_makes_anything_as_large_as_the_layer() -> None:
    task = wide()
    start, one = flatten(task.model), np.array([0])
    counts = []
    for steps in (1, 6):
        with Made(3000 * 6) as made:
            Sgd(0.3, steps, 5).fit(task.block(one, SECRET), Plan(1, start))
        counts.append(made.count)
    assert counts[0] == counts[1] <= 3
    with Made(3000 * 6) as made:
        Sgd(0.3, 6, 5).fit(task.block(one, SECRET), Plan(1, start), Engine("vmap"))
    assert made.count > 6


def test_more_columns_than_two_bytes_name() -> None:
    task = wide(70_000)
    assert int(task.train.inputs.columns.max()) > 2**16
    trainer = Sgd(0.3, None, 15, epochs=2)
    fast = trainer.fit(task.block(np.array([0]), SECRET), Plan(1, flatten(task.model)))
    slow = plain(task, trainer, None, np.array([0]), SECRET, 1)
    assert (fast.double() - slow).norm() < 1e-5 * slow.norm()


def test_rows_with_nothing_set() -> None:
    """Only biases, and the layers behind, can move."""
    task = wide(20, 4)
    empty = Sparse(torch.zeros(5, dtype=torch.int64), torch.empty(0, dtype=torch.int32), torch.empty(0), 20)
    task = Task(task.model, binary, Samples(empty, task.train.targets), task.split)
    update = Sgd(0.3, 3, 2).fit(task.block(np.array([0]), SECRET), Plan(1, flatten(task.model)))[0]
    slow = plain(task, Sgd(0.3, 3, 2), None, np.array([0]), SECRET, 1)[0]
    assert not update[:120].any()
    assert (update.double() - slow).norm() < 1e-5 * slow.norm()


def test_dropout_repeats_by_name(make) -> None:
    layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 10))
    task = sparsely(make(layers))
    assert sparse.trainable(task.problem, task.train) is not None
    trainer, start = Sgd(0.2, 2, 5), flatten(task.model)
    first = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start))
    assert torch.equal(first[4:5], trainer.fit(task.block(np.array([4]), SECRET), Plan(1, start)))
    assert not torch.equal(first, trainer.fit(task.block(EVERYONE, SECRET), Plan(2, start)))


def shared_first() -> nn.Module:
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    model[2].weight = model[0].weight
    return model


def frozen_first() -> nn.Module:
    model = MODELS["mlp"]()
    model[1].weight.requires_grad_(False)
    return model


def hooked_first() -> nn.Module:
    model = MODELS["mlp"]()
    model[1].register_forward_hook(lambda module, given, out: 2 * out)
    return model


OTHERS = {
    "shared": shared_first,
    "frozen": frozen_first,
    "hooked": hooked_first,
    "activation first": lambda: nn.Sequential(nn.Tanh(), nn.Linear(64, 10)),
    "no sequence": lambda: nn.Linear(64, 10),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_take_dense_rows(name: str, make) -> None:
    torch.manual_seed(3)
    task = sparsely(make(OTHERS[name]()))
    assert sparse.trainable(task.problem, task.train) is None
    trainer = Sgd(0.3, None, 4, epochs=2)
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model)))
    slow = plain(task, trainer, None, EVERYONE, SECRET, 1)
    assert (fast.double() - slow).norm() < 1e-5 * slow.norm()


def test_batch_statistics_take_dense_rows(make) -> None:
    task = sparsely(make(nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))))
    assert sparse.trainable(task.problem, task.train) is None
    update = Sgd(0.3, 1, 5).fit(task.block(np.array([3]), SECRET), Plan(1, flatten(task.model)))[0]
    assert update[task.layout.parameters :].any()


def test_nothing_is_measured(make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sparse rows the choice is made by the model, and a block holds what a cache does."""
    task = sparsely(make(MODELS["mlp"]()))
    monkeypatch.setattr(cohort, "_seconds", None)
    assert cohort.choose(task.problem, task.population) == "lockstep"
    assert [cohort.together(task.problem, task.train, live) for live in (None, torch.arange(900, 910))] == [25, 25]


@pytest.mark.parametrize("which", LIVE)
def test_few_columns_as_many(which: str, make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's rows as one dense matrix, or by the columns that are set: the same steps."""
    task, trainer = sparsely(make(MODELS["mlp"]())), TRAINERS["all rows"]
    live, start = live_of(task, which), flatten(task.model)
    small = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live))
    monkeypatch.setattr(sparse, "DENSE", 0)
    large = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live))
    assert not torch.equal(small, large)  # two ways of rounding, so two ways were taken
    assert (small - large).norm() < 1e-5 * large.norm()
