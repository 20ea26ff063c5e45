"""Both engines, on models of every kind, against a plain loop; memory, choice and refusals."""

import itertools
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from parts.trainers.plainly import LIVE, live_of, plain
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from hush.core.engine import Engine
from hush.core.spec import Plan
from hush.core.task import Task
from hush.errors import Mistake
from hush.models.traits import traits
from hush.models.weights import flatten
from hush.parts.trainers import Sgd, cohort, lockstep, memory
from hush.parts.trainers.copies import Narrow, Weights
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(1)
EVERYONE = np.arange(12)


class Skip(nn.Module):
    """A model of its own making: no Sequential, a layer with weights of its own, a residual path."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.scale, self.last = nn.Parameter(torch.ones(4, 1, 1)), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.norm(self.first(x)))
        return self.last((y + self.scale * x).flatten(1))


class Twice(nn.Module):
    """One layer called twice in a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.inner(torch.tanh(self.inner(self.first(x.flatten(1)))))))


def tied() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 10))
    model[5].weight = model[3].weight
    return model


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(108, 6), nn.Tanh(), nn.Linear(6, 10))
    model[3].weight.requires_grad_(False)
    return model


def in_two_places() -> nn.Module:
    tanh = nn.Tanh()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), tanh, nn.Linear(12, 12), tanh, nn.Linear(12, 10))


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10, bias=False)),
    "cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Tanh(),
        nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.Softplus(), nn.Flatten()),
        nn.Linear(6, 10),
    ),
    "wide channels": lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.Tanh(), nn.Conv2d(8, 8, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 10)
    ),
    "rows of rows": lambda: nn.Sequential(
        nn.Flatten(1, 2), nn.Linear(8, 5), nn.Tanh(), nn.Flatten(), nn.Linear(40, 10)
    ),
    "own making": Skip,
    "twice": Twice,
    "tied": tied,
    "frozen": frozen,
    "in two places": in_two_places,
    "one layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
}


@pytest.mark.parametrize("which", LIVE)
@pytest.mark.parametrize("kind", ["lockstep", "vmap", "loop"])
@pytest.mark.parametrize("name", MODELS)
def test_as_a_plain_loop(name: str, kind: str, which: str, make) -> None:
    torch.manual_seed(3)
    task = make(MODELS[name]())
    live = live_of(task, which)
    trainer, start = Sgd(0.3, 3, 5), flatten(task.model)
    if kind == "lockstep" and not traits(task.model, task.train.inputs).plain:
        with pytest.raises(Mistake, match="engine='lockstep' needs a model that calls each layer once"):
            trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live), Engine(kind))
        return
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, start, live), Engine(kind))
    slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
    assert slow.norm(dim=1).min() > 1e-4
    errors = (fast.double() - slow).norm(dim=1) / slow.norm(dim=1)
    assert errors.max() < 1e-5
    assert torch.equal(flatten(task.model), start)


@pytest.mark.parametrize("biased", [True, False])
def test_channels_without_live_weights(biased: bool, make) -> None:
    """A convolution whose live weights lie in some of its channels computes the gradients of these alone."""
    torch.manual_seed(3)
    task = make(MODELS["wide channels"]())
    mask = torch.zeros(task.layout.parameters, dtype=torch.bool)
    views = task.layout.views(mask)
    views["2.weight"][[1, 4, 5]] = torch.rand(3, 8, 3, 3) < 0.5
    views["2.weight"][:, [0, 3, 7]] = False
    views["2.bias"][2] = biased
    views["0.weight"][3:] = True
    views["5.weight"][0] = True
    live = mask.nonzero().flatten()
    weight = Weights(task.model[2].weight, views["2.weight"].flatten().nonzero()[:, 0])
    narrow = Narrow.of(task.model[2], weight, last=True)
    assert narrow is not None
    assert narrow.out.tolist() == [1, 4, 5]
    assert set(narrow.into.tolist()) <= {1, 2, 4, 5, 6}
    trainer = Sgd(0.3, 3, 5)
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model), live), Engine("lockstep"))
    slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
    assert ((fast.double() - slow).norm(dim=1) / slow.norm(dim=1)).max() < 1e-5


def test_all_free(make) -> None:
    task = make(MODELS["cnn"]())
    live = live_of(task, "few")
    trainer = Sgd(0.3, 3, 5, free=True)
    slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
    for kind in ("lockstep", "vmap"):
        fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model), live), Engine(kind))
        assert (fast.double() - slow).norm() < 1e-5 * slow.norm()


@pytest.mark.parametrize("loss", ["cross-entropy", "own"])
def test_any_loss(loss: str, make) -> None:
    """A loss that is not known is taken client by client."""
    losses = {"cross-entropy": F.cross_entropy, "own": lambda y, t: y.square().mean() - y.gather(1, t[:, None]).mean()}
    task = make(MODELS["mlp"]())
    task = Task(task.model, losses[loss], task.train, task.split)
    trainer = Sgd(0.3, 2, 5)
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model)), Engine("lockstep"))
    assert (fast.double() - plain(task, trainer, None, EVERYONE, SECRET, 1)).norm() < 1e-5 * fast.norm()


def test_traits(make) -> None:
    inputs = torch.rand(4, 1, 8, 8)
    found = {name: traits(model(), inputs) for name, model in MODELS.items()}
    assert not found["twice"].plain
    assert not found["own making"].rowwise
    assert all(t.plain for name, t in found.items() if name != "twice")
    assert all(t.rowwise for name, t in found.items() if name not in ("own making", "twice"))
    assert not any(t.random for t in found.values())
    dropped = traits(nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10)), inputs)
    assert dropped.random
    assert not dropped.rowwise
    norm = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))
    before = norm[1].running_mean.clone()
    assert not traits(norm, inputs).plain
    assert torch.equal(norm[1].running_mean, before)


class Largest(TorchDispatchMode):
    """The most numbers that any tensor has that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return out


def test_no_clients_times_weights(make) -> None:
    """With few live coordinates nothing that is made is as large as a copy of the weights for each client."""
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 900), nn.ReLU(), nn.Linear(900, 10)))
    start = flatten(task.model)
    live = torch.arange(0, len(start), 101)
    sizes = {}
    for kind in ("lockstep", "vmap"):
        with Largest() as largest:
            Sgd(0.3, 3, 5).fit(task.block(EVERYONE, SECRET), Plan(1, start, live), Engine(kind))
        sizes[kind] = largest.size
    assert sizes["vmap"] >= 12 * len(start) / 2  # clients come in two groups, by the size of their batches
    assert sizes["lockstep"] < 2 * len(start)


def chosen(task: Task) -> str:
    return cohort.choose(task.problem, task.population)


def test_the_other_engine_must_be_clearly_faster(make, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Measured once for a model on a machine, and remembered."""
    seconds = {"lockstep": 1.0, "vmap": 1.0}
    measured = []

    def pretend(kind: str, case: object) -> float:
        measured.append(kind)
        return seconds[kind]

    monkeypatch.setattr(cohort, "_seconds", pretend)
    for vmap, used in ((0.5, "lockstep"), (0.2, "vmap"), (4.0, "lockstep")):
        monkeypatch.setattr(memory, "FILE", tmp_path / str(vmap) / "engines.json")
        seconds["vmap"] = vmap
        assert chosen(make(MODELS["mlp"]())) == used
        seconds["vmap"] = 1 / vmap
        assert chosen(make(MODELS["mlp"]())) == used
    assert sorted(measured) == ["lockstep"] * 3 + ["vmap"] * 3
    memory.FILE.write_text("[]")
    assert chosen(make(MODELS["mlp"]())) == "vmap"  # not a memory: measured anew
    (tmp_path / "file").touch()
    monkeypatch.setattr(memory, "FILE", tmp_path / "file" / "engines.json")  # cannot be written
    assert chosen(make(MODELS["mlp"]())) == "vmap"


class Odd(nn.Module):
    """A model that one may write, and that layers of another kind would not fit."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.first, self.last = kind, nn.Linear(64, 6), nn.Linear(6, 10)
        self.scale, self.unused = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.kind == "rough":
            x -= 0.3
        y = self.first(x)
        if self.kind == "attribute":
            y = y * self.last.in_features
        if self.kind == "cosine":
            return F.linear(torch.tanh(y), F.normalize(self.last.weight)) + self.last.bias
        if self.kind == "keeps":
            self.seen = y
        return self.last(torch.tanh(y) * self.scale)


def named() -> nn.Module:
    layers = [("a", nn.Linear(10, 10)), ("b", nn.Tanh()), ("c", nn.Linear(10, 10))]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Sequential(OrderedDict(layers)))


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Tanh(), nn.Linear(10, 10))
    model.register_forward_hook(lambda module, given, out: 2 * out)
    return model


def front_tied() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    model[3].weight = model[1].weight
    return model


ODD = {
    **{kind: (lambda kind=kind: Odd(kind)) for kind in ("rough", "attribute", "cosine", "keeps", "scalar")},
    "named": named,
    "hooked": hooked,
    "tied in front": front_tied,
    "in place": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 20),
        nn.ReLU(inplace=True),
        nn.Linear(20, 10),
        nn.SiLU(inplace=True),
        nn.Linear(10, 10),
    ),
    "in place behind the cut": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 20), nn.Sequential(nn.SiLU(inplace=True), nn.Linear(20, 10))
    ),
}


UNUSED = [(name, "unused") for name in ("rough", "keeps", "scalar")]


@pytest.mark.parametrize(("name", "which"), [*itertools.product(ODD, LIVE), *UNUSED])
def test_odd_models(name: str, which: str, make) -> None:
    """The automatic choice trains them as a plain loop does, and the data stay as they are."""
    torch.manual_seed(3)
    task = make(ODD[name]())
    if which == "unused":
        place = task.layout.names.index("unused")
        start = sum(shape.numel() for shape in task.layout.shapes[:place])
        live: Tensor | None = torch.arange(start, start + 3)
    else:
        live = live_of(task, which)
    kept = task.train.inputs.clone()
    trainer = Sgd(0.3, 3, 5)
    for engine in (Engine(), Engine("vmap"), Engine("loop")):
        fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model), live), engine)
        slow = plain(task, trainer, live, EVERYONE, SECRET, 1)
        assert (fast.double() - slow).norm() <= 1e-5 * slow.norm()
    assert torch.equal(task.train.inputs, kept)


def test_rows_that_do_not_count(make) -> None:
    """Targets of -100 are left out of cross-entropy's mean, client by client."""
    task = make(MODELS["mlp"]())
    targets = task.train.targets.clone()
    targets[::3] = -100
    task = Task(task.model, task.loss, (task.train.inputs, targets), task.split)
    clients = np.array([k for k in range(12) if bool((targets[task.split.rows_of(k)] >= 0).all()) or k > 8])
    trainer = Sgd(0.3, 2, 20)
    slow = plain(task, trainer, None, clients, SECRET, 1)
    for kind in ("lockstep", "vmap"):
        fast = trainer.fit(task.block(clients, SECRET), Plan(1, flatten(task.model)), Engine(kind))
        assert (fast.double() - slow).norm() <= 1e-5 * slow.norm()


def test_a_model_that_vmap_cannot_take(make) -> None:
    """Its own engine trains it."""

    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x.flatten(1))
            return y if float(y.detach().sum()) > 0 else 2 * y

    task = make(Branch())
    trainer = Sgd(0.3, 2, 5)
    fast = trainer.fit(task.block(EVERYONE, SECRET), Plan(1, flatten(task.model)))
    assert (fast.double() - plain(task, trainer, None, EVERYONE, SECRET, 1)).norm() < 1e-5 * fast.norm()


def test_chunks() -> None:
    assert lockstep.chunk_of(1_663_370, shared=True) == 10
    assert lockstep.chunk_of(1_663_370, shared=False) == 1
    assert lockstep.chunk_of(10, shared=False) == 256


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"kind": "fast"}, "engine='fast' is not known: choose lockstep, vmap or loop"),
        ({"device": "warp"}, "device='warp' cannot be used here: choose cpu"),
        ({"device": "meta"}, "device='meta' cannot be used here: choose cpu"),
        *([] if torch.cuda.is_available() else [({"device": "cuda"}, "device='cuda' cannot be used here")]),
        ({"memory": -1}, "memory=-1 must not be negative"),
    ],
)
def test_refused(wrong: dict, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        replace(Engine(), **wrong)
