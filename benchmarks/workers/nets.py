"""The two networks in plain PyTorch, for the contenders that train torch modules."""

from torch import nn


def build(workload: str) -> nn.Module:
    """The paper's CNN (1,663,370 weights), or softmax regression on 600 features (6,010 weights)."""
    if workload == "linear":
        return nn.Linear(600, 10)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )
