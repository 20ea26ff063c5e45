"""The search behind the recommended schemes, on held-out clients, never on the test set: choices.csv.

python experiments/frontier/choose.py [NAME ...]

What a scheme of blocks does in floats, without its protocol: much faster than a run. Every seed holds out another 5,000
rows of the training set and trains on the rest, in clients of 10 rows of any class (`iid`) or of two shards of one
class each (`shards`). Noise is that of epsilon at delta 1e-5, and 8 % more, about what integers of 12 bits cost.

Lines of choices.csv that are there are not computed again: killed, it goes on. The final runs, on the test set, are the
README's commands.
"""

import csv
import itertools
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.data.registry import dataset
from hush.models.features.front import front
from hush.models.helmert import helmert
from hush.privacy.calibration import noise_for

TABLE = Path(__file__).parent / "choices.csv"
ROWS, HELD, CLIP, INTEGERS = 10, 5_000, 0.3, 1.08
SEEDS = range(6)


class Choice(NamedTuple):
    """A setting: of the catalogue, but for `every`, the share of clients in a round; 0: each client once."""

    scheme: str
    data: str
    order: int
    features: int
    rounds: int
    blocks: int
    every: float
    epsilon: float
    ridge: float  # 0: 5 steps in place of the solve
    rate: float
    server_rate: float
    momentum: float
    average: float


def choices() -> Iterator[Choice]:
    """All that were compared in the end. What was before is the first of each."""
    images = "fashion-mnist"
    yield Choice("hush", images, 2, 600, 60, 1, 1 / 20, 1.0, 0, 30, 27, 0.8, 0.9)
    for rounds, epsilon in ((20, 1.0), (120, 1.0), (200, 1.0), (60, 0.5), (60, 2.0), (60, 4.0)):
        features, blocks = (599, 10) if rounds == 200 else (600, max(1, rounds // 12))
        for rate in (50, 70, 100, 150):
            yield Choice("hush", images, 2, features, rounds, blocks, 1 / 20, epsilon, 1.5, 30, rate, 0.3, 0.6)
    steps = ((36, 0.8, 0.5), (50, 0.7, 0.5), (75, 0.5, 0.5), (100, 0.3, 0.6))
    for (features, blocks), ridge, step in itertools.product(((600, 5), (480, 4)), (1.0, 1.5, 3.0), steps):
        yield Choice("hush", images, 2, features, 60, blocks, 1 / 20, 1.0, ridge, 30, *step)
    for blocks, step in itertools.product((8, 10), ((18, 0.8, 0.8), (35, 0.6, 0.8), (50, 0.3, 0.8))):
        yield Choice("hush", images, 2, 60 * blocks - 1, 200, blocks, 1 / 20, 1.0, 1.5, 30, *step)
    yield Choice("hush-tiny", images, 1, 70, 15, 1, 1 / 60, 1.0, 0, 30, 53, 0.8, 0.7)
    sizes = ((30, 98, 3), (30, 130, 4), (30, 197, 6), (30, 263, 8), (60, 197, 12))
    for (rounds, features, blocks), ridge, step in itertools.product(
        sizes, (0.3, 0.7), ((60, 0.5, 0.5), (60, 0.3, 0.5), (100, 0.3, 0.5))
    ):
        yield Choice("hush-tiny", images, 1, features, rounds, blocks, 1 / 60, 1.0, ridge, 30, *step)
    yield Choice("hush-once", images, 2, 233, 12, 1, 0, 1.0, 0, 40, 80, 0.5, 0.3)
    for (rounds, features, blocks), ridge, step in itertools.product(
        ((12, 239, 3), (12, 319, 4), (12, 399, 5), (15, 399, 5)),
        (0.3, 1.0),
        ((90, 0.5, 0), (120, 0.3, 0), (135, 0.3, 0)),
    ):
        yield Choice("hush-once", images, 2, features, rounds, blocks, 0, 1.0, ridge, 30, *step)
    for ridge, step in itertools.product((0.3, 0.5, 0.7), ((105, 0.4, 0), (120, 0.3, 0), (128, 0.3, 0), (135, 0.3, 0))):
        yield Choice("hush-once", images, 2, 399, 13, 5, 0, 1.0, ridge, 30, *step)
    yield Choice("hush", "cifar10", 2, 600, 60, 1, 1 / 20, 1.0, 0, 30, 27, 0.8, 0.9)
    for (features, blocks), rate in itertools.product(((200, 1), (200, 4), (480, 4)), (4, 6, 9, 15)):
        yield Choice("hush", "cifar10", 2, features, 120, blocks, 1 / 20, 1.0, 1.0, 30, rate, 0.8, 0.8)


def accuracy(choice: Choice, shards: bool, seed: int) -> float:
    """Of the released average, on the rows that this seed holds out."""
    x, y = _rows(choice.data, choice.order, choice.features)
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=draw)
    held, order = order[:HELD], order[HELD:]
    clients = _split(order, y, shards, draw)
    spread, width = helmert(int(y.max()) + 1).float(), x.shape[1]
    head, kept, mean = (torch.zeros(spread.shape[1], width) for _ in range(3))
    turns = clients.new_tensor(range(len(clients)))[torch.randperm(len(clients), generator=draw)].chunk(choice.rounds)
    cohort = len(clients) * choice.every or len(clients) / choice.rounds
    noise = INTEGERS * CLIP * _noise(choice.every, choice.rounds, choice.epsilon)
    for number in range(choice.rounds):
        drawn = torch.rand(len(clients), generator=draw) < choice.every
        who = drawn.nonzero().flatten() if choice.every else turns[number]
        block = torch.arange(number % choice.blocks, width, choice.blocks)
        updates = _updates(choice, x[clients[who]], y[clients[who]], head, spread)[:, :, block]
        lengths = updates.flatten(1).norm(dim=1)
        updates = updates * (CLIP / lengths).clamp(max=1)[:, None, None]
        noisy = updates.sum(0) + noise * torch.randn(updates.shape[1:], generator=draw)
        kept[:, block] = choice.momentum * kept[:, block] + noisy / cohort
        head[:, block] += choice.server_rate * kept[:, block]
        visits, b = number // choice.blocks + 1, choice.average
        mean[:, block] = torch.lerp(head[:, block], mean[:, block], (b - b**visits) / (1 - b**visits))
    return float(((x[held] @ mean.T @ spread.T).argmax(1) == y[held]).float().mean())


def _updates(choice: Choice, x: Tensor, y: Tensor, head: Tensor, spread: Tensor) -> Tensor:
    """Of each client: the ridge solve, or 5 steps on all of its rows, in the span of the rows."""
    gram, output = x @ x.mT, x @ head.T
    target = F.one_hot(y, len(spread)).float()
    if choice.ridge:
        residual = (target - torch.softmax(output @ spread.T, -1)) @ spread
        return choice.rate * torch.linalg.solve(gram + choice.ridge * torch.eye(ROWS), residual).mT @ x
    found = torch.zeros_like(output)
    for _ in range(5):
        found += choice.rate / ROWS * ((target - torch.softmax((output + gram @ found) @ spread.T, -1)) @ spread)
    return found.mT @ x


def _split(order: Tensor, y: Tensor, shards: bool, draw: torch.Generator) -> Tensor:
    """Rows of each client."""
    if shards:
        halves = order[torch.argsort(y[order], stable=True)].view(-1, ROWS // 2)
        order = halves[torch.randperm(len(halves), generator=draw)].flatten()
    return order.view(-1, ROWS)


@lru_cache(1)
def _rows(data: str, order: int, features: int) -> tuple[Tensor, Tensor]:
    found = dataset(data).train
    images = found.inputs if found.inputs.dim() == 4 else found.inputs.unsqueeze(1)
    return front(tuple(images.shape[1:]), features, order).features(images), found.targets


@lru_cache(None)
def _noise(every: float, rounds: int, epsilon: float) -> float:
    """The multiplier; who takes part once is in one release."""
    return noise_for(epsilon, 1e-5, every or 1.0, rounds if every else 1)


def main(names: list[str]) -> None:
    """Compute what is missing, and write the table."""
    torch.set_num_threads(1)
    known: dict[tuple[str, ...], list[str]] = {}
    if TABLE.exists():
        with TABLE.open(newline="") as file:
            known = {tuple(row[: len(Choice._fields)]): row for row in list(csv.reader(file))[1:]}
    for choice in dict.fromkeys(choices()):
        key = tuple(f"{value:g}" if isinstance(value, int | float) else value for value in choice)
        if key in known or (names and choice.scheme not in names):
            continue
        found = [[accuracy(choice, shards, seed) for seed in SEEDS] for shards in (False, True)]
        numbers = [f"{part:.4f}" for one in found for part in (fmean(one), stdev(one))]
        known[key] = [*key, str(len(SEEDS)), *numbers]
        print(*known[key], flush=True)
        with TABLE.with_suffix(".part").open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow([*Choice._fields, "seeds", "iid", "iid_deviation", "shards", "shards_deviation"])
            table.writerows(known.values())
        TABLE.with_suffix(".part").replace(TABLE)


if __name__ == "__main__":
    main(sys.argv[1:])
