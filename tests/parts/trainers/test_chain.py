"""One client's gradient in a chain of linear layers: the products of vmap, without torch's compiler."""

import copy
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.models import networks
from hush.models.losses import binary
from hush.models.weights import flatten
from hush.parts.trainers import chain, vmapped


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 33, 64, 256])
@pytest.mark.parametrize(("shape", "classes"), [((1, 8, 8), 10), ((1, 28, 28), 10), ((1028,), 2), ((7,), 3)])
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_as_vmap_up_to_rounding(name: str, shape: tuple[int, ...], classes: int, rows: int) -> None:
    """The same products. Kernels may add many rows in another order: both are as near to the exact gradient.

    Multiples of 1/256 and 1/8, so that what a ReLU reads is the same number in any order: rounding near zero would
    switch it, and the gradient with it.
    """
    generator = torch.Generator().manual_seed(rows)
    model = networks.MODELS[name](torch.Size(shape), classes)
    weights = (8 * torch.randn(len(flatten(model)), generator=generator)).round() / 256
    x = (8 * torch.randn(1, rows, *shape, generator=generator)).round() / 8
    y = torch.randint(0, classes, (1, rows), generator=generator)
    assert chain.known(model, F.cross_entropy)
    assert chain.fits(model, x, y)
    theirs, _ = vmapped._vmapped(model, F.cross_entropy, weights, None)(weights[None], x, y)
    found, buffers = vmapped.gradients(model, F.cross_entropy, weights, None)(weights[None], x, y)
    exact = _gradient(copy.deepcopy(model).double(), weights.double(), x[0].double(), y[0])
    ours, other = (float((one[0] - exact).norm() / exact.norm()) for one in (found, theirs))
    assert ours <= 1e-7 + 2 * other
    assert ours <= 1e-6
    assert buffers.shape == (1, 0)


def _gradient(model: nn.Module, weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    nn.utils.vector_to_parameters(weights, model.parameters())
    F.cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 2)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(4, 2).requires_grad_(False), nn.Linear(2, 2)),
        nn.Linear(4, 2),
    ],
)
def test_other_models_are_left_to_vmap(model: nn.Module) -> None:
    assert not chain.known(model, F.cross_entropy)


def test_other_losses_and_rows_are_left_to_vmap() -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    x, y = torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64)
    assert chain.fits(model, x, y)
    assert not chain.known(model, binary)
    assert not chain.fits(model, torch.zeros(1, 3, 5, 4), y)
    assert not chain.fits(model, torch.zeros(1, 3, 5), y)
    assert not chain.fits(model, x, torch.zeros(1, 3, 2))


def test_a_small_trial_imports_no_compiler(tmp_path) -> None:
    words = "run fl-top-dp --data digits --ratio 0.02 --clip 1 --rounds 1 --noise 1 --delta 1e-3 --out run".split()
    code = (
        f"import sys; sys.argv = ['hush', *{words!r}]; from hush.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "assert not {'torch._dynamo', 'sympy', 'sklearn', 'matplotlib'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
