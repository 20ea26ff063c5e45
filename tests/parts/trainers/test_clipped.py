"""Clipped sums: equal to Opacus's and to plain autograd, record by record; closed forms only where they hold."""

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from opacus import GradSampleModule
from torch import Tensor, nn

from hush.data.samples import Samples
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.networks import cnn, mlp
from hush.models.weights import flatten, glorot
from hush.parts.trainers import clipped, closed
from hush.parts.trainers.clipped import ClippedRecords, sums
from hush.parts.trainers.once import look
from hush.random.seeds import PublicSeed


def binary(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).to(output.dtype))


def patients(count: int, width: int, each: int, seed: int = 0) -> tuple[Sparse, Tensor]:
    """Records with about `each` numbers set, popular columns more often; and their classes."""
    rng = np.random.default_rng(seed)
    popular = 1 / np.arange(1, width + 1) ** 0.7
    rows = [np.sort(rng.choice(width, rng.poisson(each), False, popular / popular.sum())) for _ in range(count)]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    columns = np.concatenate(rows).astype(np.int32)
    values = rng.uniform(0.2, 1, len(columns)).astype(np.float32)
    sparse = Sparse(torch.tensor(starts), torch.tensor(columns), torch.tensor(values), width)
    return sparse, torch.tensor(rng.integers(0, 2, count))


def images(count: int, side: int = 8) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    return torch.rand(count, 1, side, side, generator=g), torch.randint(0, 10, (count,), generator=g)


class Gate(nn.Module):
    """A layer that nobody knows: a number for each feature, and a bend."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.height = nn.Parameter(torch.linspace(-1, 1, size))
        self.bend = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.height * x) + self.bend * x.cos()


class Net(nn.Module):
    """A forward of its own around one function of its parts."""

    def __init__(self, forward: Callable[["Net", Tensor], Tensor], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.own = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.own(self, x)


def clip_each(gradients: Tensor, clip: float, counts: list[int]) -> Tensor:
    """The definition, in float64."""
    cut = gradients.double() / (gradients.double().norm(dim=1, keepdim=True) / clip).clamp(min=1.0)
    return torch.stack([part.sum(0) for part in cut.split(counts)])


def by_opacus(model: nn.Module, loss, inputs: Tensor, targets: Tensor, mode: str = "hooks") -> Tensor:
    """Each record's gradient, by Opacus."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = GradSampleModule(model, loss_reduction="sum", force_functorch=mode == "functorch")
        outputs = wrapped(inputs)
        torch.stack([loss(outputs[i : i + 1], targets[i : i + 1]) for i in range(len(inputs))]).sum().backward()
        found = torch.cat(
            [p.grad_sample.detach().reshape(len(inputs), -1) for p in model.parameters() if p.requires_grad], 1
        )
        wrapped.remove_hooks()
    return found


def by_autograd(model: nn.Module, loss, inputs: Tensor, targets: Tensor) -> Tensor:
    """Each record's gradient: one backward pass for each, the record alone."""
    trained, rows = [p for p in model.parameters() if p.requires_grad], []
    for i in range(len(inputs)):
        value = loss(model(inputs[i : i + 1].clone()), targets[i : i + 1])
        found = torch.autograd.grad(value, trained, materialize_grads=True)
        rows.append(torch.cat([g.flatten() for g in found]))
    return torch.stack(rows)


def assert_equal(found: Tensor, right: Tensor, tolerance: float = 1e-5) -> None:
    for row, exact in zip(found.double(), right, strict=True):
        assert (row - exact).norm() <= tolerance * exact.norm()
        assert exact.norm() > 0


def middle(gradients: Tensor) -> float:
    """A bound that cuts half of the records."""
    return float(gradients.norm(dim=1).median())


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_medical_network_equals_opacus(kind: str) -> None:
    sparse, targets = patients(14, 7280, 30)
    model = glorot(mlp(torch.Size([7280]), 1), PublicSeed(0))
    gradients = by_opacus(model, binary, sparse.dense(), targets)
    clip, counts = middle(gradients), [5, 9]
    inputs = sparse if kind == "sparse" else sparse.dense()
    assert_equal(sums(model, binary, flatten(model), inputs, targets, clip, counts), clip_each(gradients, clip, counts))


def test_convolutions_equal_opacus() -> None:
    inputs, targets = images(9, 12)
    model = glorot(cnn(torch.Size([1, 12, 12]), 10), PublicSeed(0))
    gradients = by_opacus(model, F.cross_entropy, inputs, targets)
    clip = middle(gradients)
    found = sums(model, F.cross_entropy, flatten(model), inputs, targets, clip, [4, 5])
    assert_equal(found, clip_each(gradients, clip, [4, 5]))


def test_an_unknown_layer_equals_opacus() -> None:
    """Neither knows the layer: Opacus takes it through functorch as well, but with no closed form beside it."""
    inputs, targets = images(9)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), Gate(20), nn.Linear(20, 10))
    gradients = by_opacus(model, F.cross_entropy, inputs, targets, "functorch")
    clip = middle(gradients)
    found = sums(model, F.cross_entropy, flatten(model), inputs, targets, clip, [4, 5])
    assert_equal(found, clip_each(gradients, clip, [4, 5]))


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 12), nn.Linear(12, 10))
    model[1].weight.requires_grad_(False)
    model[3].bias.requires_grad_(False)
    model[4].requires_grad_(False)
    return model


def twice(relu: nn.Module) -> nn.Module:
    """One activation module that comes twice."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), relu, nn.Linear(12, 12), relu, nn.Linear(12, 10))


def halted(model: nn.Module, x: Tensor) -> Tensor:
    """One call of the layer counts for the gradient, the other does not."""
    with torch.no_grad():
        still = model.a(2 * x.flatten(1)).sigmoid()
    return model.a(x.flatten(1)) * still


def tied() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 12), nn.Linear(12, 12))
    model[4].weight = model[3].weight
    return model


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10))
    model[1].register_forward_hook(lambda module, given, out: 2 * out)
    return model


MODELS: dict[str, tuple[Callable[[], nn.Module], set[str]]] = {
    "mlp": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10)), {"1", "3"}),
    "no bias": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 12, bias=False), nn.Linear(12, 10)), {"1", "2"}),
    "in place": (lambda: twice(nn.ReLU(inplace=True)), {"1", "3", "5"}),
    "one activation": (lambda: twice(nn.Tanh()), {"1", "3", "5"}),
    "frozen": (frozen, {"1", "3", "4"}),
    "norms": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.LayerNorm(144), nn.Linear(144, 10)
        ),
        {"4"},
    ),
    "unknown": (lambda: nn.Sequential(nn.Flatten(), Gate(64), nn.Linear(64, 10)), {"2"}),
    # What has no closed form, though it looks as if it had one.
    "called twice": (
        lambda: Net(lambda m, x: m.b(m.a(m.a(x.flatten(1)[:, :12]))), a=nn.Linear(12, 12), b=nn.Linear(12, 10)),
        {"b"},
    ),
    "called without gradient too": (lambda: Net(halted, a=nn.Linear(64, 12)), set()),
    "used beside": (
        lambda: Net(lambda m, x: F.linear(m.a(x.flatten(1)).tanh(), m.a.weight[:, :12]), a=nn.Linear(64, 12)),
        set(),
    ),
    "bias used beside": (
        lambda: Net(lambda m, x: m.a(x.flatten(1)) + m.a.bias, a=nn.Linear(64, 12)),
        set(),
    ),
    "tied": (tied, {"1"}),
    "a sequence": (lambda: Net(lambda m, x: m.a(x[:, 0]).mean(1), a=nn.Linear(8, 10)), set()),
    "many rows": (lambda: Net(lambda m, x: m.a(x.view(-1, 8)).mean(0, keepdim=True), a=nn.Linear(8, 10)), set()),
    "hook": (hooked, {"3"}),
    "unused": (lambda: Net(lambda m, x: m.a(x.flatten(1)), a=nn.Linear(64, 10), b=nn.Linear(3, 2)), {"a"}),
    "mixes rows": (
        lambda: Net(lambda m, x: m.a(x.flatten(1) - 0.5 * x.flatten(1).mean(0)), a=nn.Linear(64, 10)),
        {"a"},
    ),
    "a loop of its own": (
        lambda: Net(lambda m, x: m.b(m.a(x[:, 0])[0][:, -1]), a=nn.LSTM(8, 6, batch_first=True), b=nn.Linear(6, 10)),
        set(),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_equals_autograd(name: str) -> None:
    """Closed forms for these layers and no others; sums as if each record were run alone; inputs left alone."""
    model, (inputs, targets) = glorot(MODELS[name][0](), PublicSeed(0)), images(8)
    before = inputs.clone()
    assert set(look(model, F.cross_entropy, Samples(inputs, targets)).closed) == MODELS[name][1]
    gradients = by_autograd(model, F.cross_entropy, inputs, targets)
    clip = middle(gradients)
    found = sums(model, F.cross_entropy, flatten(model), inputs, targets, clip, [3, 5])
    assert_equal(found, clip_each(gradients, clip, [3, 5]), 2e-6)
    assert torch.equal(inputs, before)


@pytest.mark.parametrize("name", ["mlp", "no bias", "in place", "one activation", "frozen"])
def test_sparse_rows_stay_sparse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, targets = patients(10, 64, 7)
    model = glorot(MODELS[name][0](), PublicSeed(0))
    gradients = by_autograd(model, F.cross_entropy, sparse.dense(), targets)
    clip, data = middle(gradients), Samples(sparse, targets)
    known = look(model, F.cross_entropy, data)
    monkeypatch.setattr(Sparse, "dense", None)
    found = torch.zeros(2, gradients.shape[1])
    records = ClippedRecords(model, F.cross_entropy, data, None, known)
    records.add(found, flatten(model), data, torch.tensor([9, *range(9)]), [4, 6], clip, [1.0, 1.0])
    assert_equal(found, clip_each(gradients[[9, *range(9)]], clip, [4, 6]), 2e-6)


def test_sparse_rows_become_dense_for_other_models() -> None:
    sparse, targets = patients(10, 64, 7)
    model = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(108, 2))
    gradients = by_autograd(model, F.cross_entropy, sparse.dense(), targets)
    found = sums(model, F.cross_entropy, flatten(model), sparse, targets, middle(gradients), [10])
    assert_equal(found, clip_each(gradients, middle(gradients), [10]), 2e-6)


def test_empty_sparse_rows() -> None:
    """A record with nothing set still moves the biases; a batch of such records works."""
    model = glorot(MODELS["mlp"][0](), PublicSeed(0))
    sparse, targets = Sparse.of(torch.zeros(3, 64)), torch.tensor([0, 1, 1])
    gradients = by_autograd(model, F.cross_entropy, sparse.dense(), targets)
    found = sums(model, F.cross_entropy, flatten(model), sparse, targets, 0.1, [3])
    assert_equal(found, clip_each(gradients, 0.1, [3]), 2e-6)


@pytest.mark.parametrize(
    ("name", "sparse"),
    [(name, False) for name in ("mlp", "frozen", "norms", "tied", "unknown", "a loop of its own")]
    + [(name, True) for name in ("mlp", "frozen", "no bias")],
)
def test_live_coordinates_alone(name: str, sparse: bool) -> None:
    """Gradient, norm and clip are over the live coordinates: some of a layer, all of it, none of it."""
    model, (inputs, targets) = glorot(MODELS[name][0](), PublicSeed(0)), images(8)
    inputs = inputs * (inputs > 0.7)
    gradients = by_autograd(model, F.cross_entropy, inputs, targets)
    size = gradients.shape[1]
    given = Sparse.of(inputs.flatten(1)) if sparse else inputs
    for live in (torch.arange(0, size, 3), torch.arange(size // 2, size), torch.arange(size - 4), torch.arange(size)):
        clip = middle(gradients[:, live])
        found = sums(model, F.cross_entropy, flatten(model), given, targets, clip, [3, 5], live)
        assert_equal(found, clip_each(gradients[:, live], clip, [3, 5]), 2e-6)


@pytest.mark.parametrize("name", ["mlp", "norms"])
@pytest.mark.parametrize("piece", [1, 1000, 10**9])
def test_pieces_change_nothing(name: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the memory, and with clients that have no records."""
    model, (inputs, targets) = glorot(MODELS[name][0](), PublicSeed(0)), images(12)
    gradients = by_autograd(model, F.cross_entropy, inputs, targets)
    monkeypatch.setattr(clipped, "PIECE", piece)
    found = sums(model, F.cross_entropy, flatten(model), inputs, targets, 1.0, [0, 7, 0, 0, 5, 0])
    assert_equal(found[[1, 4]], clip_each(gradients, 1.0, [7, 5]), 2e-6)
    assert not found[[0, 2, 3, 5]].any()


def test_the_rows_of_a_pass_are_few() -> None:
    """Parameters without a closed form get a gradient for each record: of so many records at a time."""
    model, data = cnn(torch.Size([1, 28, 28]), 10), Samples(*images(3, 28))
    records = ClippedRecords(model, F.cross_entropy, data, None, look(model, F.cross_entropy, data))
    assert set(records.parts) == {"0.weight", "0.bias", "3.weight", "3.bias"}
    assert 8 <= records.rows <= clipped.PIECE // 52_096


def test_one_record_moves_a_sum_by_the_bound() -> None:
    """At most by S, exactly by S where its gradient is longer, by the gradient itself where it is shorter."""
    model, (inputs, targets) = glorot(MODELS["norms"][0](), PublicSeed(0)), images(8)
    gradients = by_autograd(model, F.cross_entropy, inputs, targets)
    clip = middle(gradients)
    each = sums(model, F.cross_entropy, flatten(model), inputs, targets, clip, [1] * 8)
    expected = gradients.norm(dim=1).clamp(max=clip)
    torch.testing.assert_close(each.norm(dim=1), expected, rtol=1e-6, atol=0)
    assert (expected < clip).any()
    assert (each.norm(dim=1) <= clip * (1 + 1e-6)).all()


def test_scales_come_before_the_clip() -> None:
    model, (inputs, targets) = glorot(MODELS["norms"][0](), PublicSeed(0)), images(8)
    gradients, scales = by_autograd(model, F.cross_entropy, inputs, targets), torch.linspace(0.1, 20, 8)
    clip = middle(gradients)
    found = sums(model, F.cross_entropy, flatten(model), inputs, targets, clip, [8], scales=scales)
    assert_equal(found, clip_each(gradients * scales.unsqueeze(1), clip, [8]), 2e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_a_gradient_that_is_not_finite_adds_nothing(bad: float, sparse: bool) -> None:
    """Or what no number can clip would be released; one of 1e30 is clipped as any other."""
    inputs, targets = patients(6, 64, 7)
    dense = inputs.dense()
    dense[2, 5] = bad
    model = glorot(nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 2)), PublicSeed(0))
    found = sums(model, F.cross_entropy, flatten(model), Sparse.of(dense) if sparse else dense, targets, 0.1, [6])
    rest = torch.tensor([0, 1, 3, 4, 5])
    others = sums(model, F.cross_entropy, flatten(model), inputs.take(rest), targets[rest], 0.1, [5])
    assert found.isfinite().all()
    assert (found - others).norm() <= 0.1 * (1 + 1e-5)
    if bad != 1e30:
        torch.testing.assert_close(found, others, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("live", [None, torch.arange(0, 8, 2)])
@pytest.mark.parametrize(
    ("size", "steep", "clip"),
    [(1e35, 1e3, 0.1), (3e30, 1e8, 0.01), (2e38, 1.0, 1e-5), (1e38, 1e-3, 1e-6), (1e36, 3e2, 1e-9)],
)
@pytest.mark.parametrize("closed_form", [True, False])
def test_huge_gradients_keep_to_the_bound(
    size: float, steep: float, clip: float, closed_form: bool, live: Tensor | None
) -> None:
    """Their factors, or what comes to the layer's output, are below the normal numbers of float32."""
    inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(3)).sign() * size
    inputs *= torch.linspace(0.3, 1, 16).unsqueeze(1)
    model = glorot(nn.Linear(4, 2) if closed_form else Rows(), PublicSeed(0))

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output * torch.tensor([steep, -steep / 3])).mean()

    weights = torch.zeros(flatten(model).numel())
    found = sums(model, loss, weights, inputs, torch.zeros(16, dtype=torch.int64), clip, [1] * 16, live).double()
    assert (found.norm(dim=1) <= clip).all()
    if clip >= 1e-5:  # below, what is left may round to nothing
        assert (found.norm(dim=1) >= 0.9 * clip).all()


class Rows(nn.Module):
    """A linear layer that has no closed form here."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.t()


def test_no_square_overflows() -> None:
    """Norms are taken in float64: squares of 1e25 are beyond float32."""
    delta, a = torch.full((2, 3), 1e25), torch.full((2, 4), 1e-25)
    torch.testing.assert_close(closed.squares(delta).sqrt(), torch.full((2,), 1e25 * math.sqrt(3)).double())
    part = closed.Part(torch.Size([3, 4]), None, slice(0, 12))
    norm = closed.Linear(part, None, None).squares(a, delta).sqrt()
    torch.testing.assert_close(norm, torch.full((2,), math.sqrt(12)).double(), rtol=1e-6, atol=0)


def test_dropout_has_a_mask_for_each_record() -> None:
    """A record's gradient is that of one mask, the same in all layers, whoever else is in the batch."""
    model = glorot(nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 2)), PublicSeed(0))
    inputs, targets = torch.rand(1, 6).expand(40, 6).contiguous(), torch.zeros(40, dtype=torch.int64)
    torch.manual_seed(0)
    found = sums(model, F.cross_entropy, flatten(model), inputs, targets, 1e9, [1] * 40)
    hidden = F.linear(inputs[0], model[0].weight, model[0].bias)
    possible = []
    for bits in range(16):
        mask = torch.tensor([2.0 * (bits >> i & 1) for i in range(4)])
        output = F.linear(hidden * mask, model[2].weight, model[2].bias)
        value = F.cross_entropy(output.unsqueeze(0), targets[:1])
        gradients = torch.autograd.grad(value, model.parameters(), retain_graph=True)
        possible.append(torch.cat([g.flatten() for g in gradients]))
    apart = (found.unsqueeze(1) - torch.stack(possible)).norm(dim=2)
    assert (apart.min(1).values < 1e-5).all()
    assert len(apart.argmin(1).unique()) > 8


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (nn.BatchNorm1d(64), "BatchNorm .1., which mixes the records of a batch.*GroupNorm"),
        (nn.BatchNorm1d(64, track_running_stats=False), "BatchNorm"),
    ],
)
def test_refused(layer: nn.Module, sentence: str) -> None:
    model, (inputs, targets) = nn.Sequential(nn.Flatten(), layer, nn.Linear(64, 10)), images(4)
    with pytest.raises(Mistake, match=sentence):
        sums(model, F.cross_entropy, flatten(model), inputs, targets, 1.0, [4])


def test_tracked_statistics_are_refused() -> None:
    model, (inputs, targets) = (
        nn.Sequential(nn.InstanceNorm2d(1, track_running_stats=True), nn.Flatten(), nn.Linear(64, 10)),
        images(4),
    )
    with pytest.raises(Mistake, match=r"buffers that training changes .0.running_mean."):
        sums(model, F.cross_entropy, flatten(model), inputs, targets, 1.0, [4])


def test_the_model_is_left_alone() -> None:
    model, (inputs, targets) = MODELS["norms"][0](), images(4)
    before, start = {name: id(m) for name, m in model.named_modules()}, flatten(model)
    other = start + 0.1
    sums(model, F.cross_entropy, other, inputs, targets, 1.0, [4])
    assert {name: id(m) for name, m in model.named_modules()} == before
    assert torch.equal(flatten(model), start)
    assert all(p.grad is None for p in model.parameters())
