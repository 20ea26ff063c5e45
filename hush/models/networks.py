"""The papers' networks, and small ones for instant trials. Weights come from a public seed."""

from collections.abc import Callable

import torch
from torch import nn

from hush.errors import Mistake
from hush.models import helmert
from hush.models.weights import glorot
from hush.random.seeds import PublicSeed


def cnn(shape: torch.Size, classes: int) -> nn.Module:
    """Two 5x5 convolutions (32, 64; same padding), ReLU and 2x2 pooling, dense 512, dense classes.

    For 1x28x28 and 10 classes: 1,663,370 weights (the first paper's image network, supplement B.4). Pooling
    comes before ReLU: the maximum and its gradient are the same in both orders, and this one is less work.
    """
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // 4) * (width // 4), 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )


def cnn_small(shape: torch.Size, classes: int) -> nn.Module:
    """A 5x5 convolution (8; every second pixel), 2x2 pooling, a 3x3 one (16), ReLU, dense 64, dense classes.

    For 1x28x28 and 10 classes: 52,266 weights, and one multiplication for 84 of `cnn`. Pooling comes before ReLU, as
    there.
    """
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 5, stride=2, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * ((height + 1) // 4) * ((width + 1) // 4), 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def cnn_color(shape: torch.Size, classes: int) -> nn.Module:
    """Three 3x3 convolutions (32, 64, 64; same padding), each with 2x2 pooling and ReLU, dense 128, dense classes.

    For 3x32x32 and 10 classes: 188,810 weights. Pooling comes before ReLU, as in `cnn`.
    """
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * (height // 8) * (width // 8), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


def mlp(shape: torch.Size, classes: int) -> nn.Module:
    """Two hidden layers of 200 ReLU units, as in the papers' medical networks."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(shape.numel(), 200),
        nn.ReLU(),
        nn.Linear(200, 200),
        nn.ReLU(),
        nn.Linear(200, classes),
    )


def linear(shape: torch.Size, classes: int) -> nn.Module:
    """Softmax regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape.numel(), classes))


def head(shape: torch.Size, classes: int) -> nn.Module:
    """Softmax regression without a bias, of one row less than classes; its weights begin at zero (see helmert.py)."""
    if classes > 1:
        return nn.Sequential(nn.Flatten(), *helmert.head(shape.numel(), classes))
    return nn.Sequential(nn.Flatten(), nn.Linear(shape.numel(), 1, bias=False))


MODELS: dict[str, Callable[[torch.Size, int], nn.Module]] = {
    "cnn": cnn,
    "cnn-small": cnn_small,
    "cnn-color": cnn_color,
    "mlp": mlp,
    "linear": linear,
    "head": head,
}
SIDES = {"cnn": 4, "cnn-small": 4, "cnn-color": 8}  # the fewest pixels that are still one after the pooling


def build(name: str, shape: torch.Size, classes: int, seed: PublicSeed) -> nn.Module:
    """The named network for inputs of this shape, with Glorot weights from the public seed."""
    if name not in MODELS:
        raise Mistake(f"model {name!r} is not known: choose {', '.join(MODELS)} or write file.py:function")
    side = SIDES.get(name, 0)
    if side and (len(shape) != 3 or min(shape[1:]) < side):
        raise Mistake(
            f"model {name!r} needs images of at least {side}x{side}, not inputs of shape {tuple(shape)}: use mlp"
        )
    if name == "cnn-color" and shape[0] != 3:
        raise Mistake(f"model {name!r} needs images of 3 colours, not of {shape[0]} channels: use cnn-small")
    found = MODELS[name](shape, classes)
    if name != "head":
        return glorot(found, seed)
    with torch.no_grad():
        for weight in found.parameters():
            if weight.requires_grad:
                weight.zero_()
    return found
