"""The papers' networks, and small ones for instant trials. Weights come from a public seed."""

from collections.abc import Callable

import torch
from torch import nn

from hush.errors import Mistake
from hush.rng import PublicSeed
from hush.weights import glorot


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


MODELS: dict[str, Callable[[torch.Size, int], nn.Module]] = {"cnn": cnn, "mlp": mlp, "linear": linear}


def build(name: str, shape: torch.Size, classes: int, seed: PublicSeed) -> nn.Module:
    """The named network for inputs of this shape, with Glorot weights from the public seed."""
    if name not in MODELS:
        raise Mistake(f"model {name!r} is not known: choose {', '.join(MODELS)} or write file.py:function")
    if name == "cnn" and (len(shape) != 3 or min(shape[1:]) < 4):
        raise Mistake(f"model 'cnn' needs pictures of at least 4x4, not inputs of shape {tuple(shape)}: use mlp")
    return glorot(MODELS[name](shape, classes), seed)
