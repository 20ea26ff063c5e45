"""Two-bit aggregation beside the local training that it follows, on one core, in turns.

    python benchmarks/twobit.py [--turns N] [--out FILE]

31 uploads of the image network, 1,663,370 weights, p = 32, are combined and decoded (and 100 uploads, and 63 with
p = 64). Beside it: what one of the clients did before, which is its training (5 steps of 10 images, or one epoch of
1,935 images in batches of 10; the paper's has 10 epochs) and the coding of its update. Random images.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from machine import machine
from torch import Tensor

from hush.core.spec import Context, Plan, Spec, Uploads
from hush.core.task import Task
from hush.data.samples import Samples
from hush.models.networks import build
from hush.models.weights import flatten
from hush.parts.aggregators.vote import BitVote
from hush.parts.stages.twobit import TwoBit
from hush.parts.trainers import Sgd
from hush.random.seeds import PublicSeed, SecretSeed

IMAGES, CLIENTS, BOUND = 1935, 31, 0.05
SHAPE = torch.Size([1, 28, 28])
STEPS, EPOCH = "training, 5 steps of 10 images", "training, 1 epoch of 1,935 images"
GOALS = {STEPS: 1.0, EPOCH: 1.0}  # the aggregation is to take less than this part of each

Work = Callable[[], object]


def client() -> Task:
    """One client with its part of 60,000 images."""
    inputs = torch.rand(IMAGES, *SHAPE, generator=torch.Generator().manual_seed(0))
    data = Samples(inputs, torch.arange(IMAGES) % 10)
    return Task(build("cnn", SHAPE, 10, PublicSeed(0)), F.cross_entropy, data, [list(range(IMAGES))])


def training(task: Task, trainer: Sgd) -> Work:
    """What it takes one client to train."""
    start, secret, who = flatten(task.model), SecretSeed.simulated(0), np.array([0])
    return lambda: trainer.fit(task.block(who, secret), Plan(1, start))


def context(size: int, seats: list[int]) -> Context:
    """A round of the clients in these seats."""
    plan = Plan(1, torch.zeros(1), None, len(seats), 0, BOUND, np.array(seats))
    return Context(Spec(size, clip=BOUND), plan, np.array(seats), torch.ones(len(seats)), SecretSeed.simulated(0))


def coding(update: Tensor) -> Work:
    """What it takes one client to code its update."""
    x, stage, ctx = update.unsqueeze(0), TwoBit(32, bound=BOUND), context(update.numel(), [3])
    return lambda: stage.encode(x.clone(), ctx)


def aggregation(updates: Tensor, count: int, places: int) -> Work:
    """What it takes the server, from the uploads to the sum; they come one by one."""
    size, stage = updates.shape[1], TwoBit(places, bound=BOUND)
    rows = stage.encode(updates.clone(), context(size, list(range(len(updates)))))

    def uploads() -> Iterator[Uploads]:
        for i in range(count):
            yield Uploads(rows[i % len(rows)].unsqueeze(0), torch.ones(1), np.array([i]))

    return lambda: stage.decode(BitVote(places).combine(uploads(), size), context(size, []))


def seconds(work: Work) -> tuple[float, float]:
    """CPU and wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> int:
    """Take turns, print a table, write the figures; status 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description="Two-bit aggregation beside local training.")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    task = client()
    size = flatten(task.model).numel()
    updates = torch.randn(CLIENTS, size, generator=torch.Generator().manual_seed(1)) * BOUND / 4
    ours = f"aggregation, {CLIENTS} uploads, p = 32"
    works = {
        ours: aggregation(updates, CLIENTS, 32),
        "aggregation, 100 uploads, p = 32": aggregation(updates, 100, 32),
        "aggregation, 63 uploads, p = 64": aggregation(updates, 63, 64),
        "coding of one update": coding(updates[0]),
        STEPS: training(task, Sgd(rate=0.05, steps=5, batch=10)),
        EPOCH: training(task, Sgd(rate=0.05, steps=None, batch=10, epochs=1)),
    }
    for name, work in works.items():
        if name != EPOCH:
            work()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for turn in range(chosen.turns):
        for name, work in works.items():
            if name != EPOCH or turn == 0:  # as long as all the others together
                times[name].append(seconds(work))
    best = {name: [min(column) for column in zip(*turns, strict=True)] for name, turns in times.items()}
    shown = {
        name: {
            "CPU minimum": cpu,
            "CPU median": statistics.median(turn[0] for turn in times[name]),
            "wall minimum": wall,
            "aggregation / this, CPU": best[ours][0] / cpu,
            "aggregation / this, wall": best[ours][1] / wall,
        }
        for name, (cpu, wall) in best.items()
    }
    print(f"{size:,} weights, milliseconds   {'CPU':>12}{'wall':>10}{'aggregation / this':>21}")
    for name, row in shown.items():
        ratio = row["aggregation / this, CPU"]
        print(f"{name:36}{1e3 * row['CPU minimum']:9.1f}{1e3 * row['wall minimum']:10.1f}{ratio:21.3f}")
    if chosen.out:
        whole = {
            "what": f"two-bit aggregation of {CLIENTS} uploads of {size} weights, and one client's work before it",
            "how": f"CPU and wall seconds, one thread, the minimum of {chosen.turns} turns; an epoch is run once",
            "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "goals": GOALS,
            "results": shown,
            "turns": times,
        }
        chosen.out.write_text(json.dumps(whole, indent=1) + "\n")
    return int(any(shown[name]["aggregation / this, CPU"] >= goal for name, goal in GOALS.items()))


if __name__ == "__main__":
    raise SystemExit(main())
