"""What the recovery of FL-CS takes of a round, and the encoding of a client's work.

    python benchmarks/sensing.py [--rounds N] [--out FILE]

Whole rounds of the image network, 1,663,370 weights: 100 clients with 5 steps of 10 images, 200 chunks, ratio 5 %.
The recovery is that of the optimizer which the last round left, with as many threads as the round had. Random images.
"""

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import torch
import torch.nn.functional as F
from machine import machine

from hush.catalogue.entries import scheme
from hush.core.spec import Context, Plan, Spec
from hush.core.task import Task
from hush.data.samples import Samples
from hush.federation.simulated import rounds
from hush.models import workers
from hush.models.networks import build
from hush.parts.sampling import Fixed
from hush.parts.stages import Sense
from hush.random.seeds import PublicSeed, SecretSeed

CLIENTS, IMAGES, RATIO = 100, 10, 0.05
SHAPE = torch.Size([1, 28, 28])
GOAL = 0.25  # the recovery is to take less than this part of a round


def clients() -> Task:
    """Each with ten images of its own."""
    inputs = torch.rand(CLIENTS * IMAGES, *SHAPE, generator=torch.Generator().manual_seed(0))
    data = Samples(inputs, torch.arange(CLIENTS * IMAGES) % 10)
    split = [list(range(first, first + IMAGES)) for first in range(0, CLIENTS * IMAGES, IMAGES)]
    return Task(build("cnn", SHAPE, 10, PublicSeed(0)), F.cross_entropy, data, split)


def seconds(work: Callable[[], object], turns: int) -> tuple[float, float]:
    """CPU and wall, the minimum of some turns."""
    found = []
    for _ in range(turns):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        found.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)


def main() -> int:
    """Run the rounds, print a table, write the figures; status 1 where the goal was missed."""
    parser = argparse.ArgumentParser(description="The recovery of FL-CS beside its round.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    chosen = parser.parse_args()
    task, sense = clients(), Sense(RATIO)
    size = task.layout.parameters
    loop = rounds(scheme("fl-cs", ratio=RATIO, sampling=Fixed(CLIENTS)), task, rounds=chosen.rounds + 1)
    reports = [next(loop)]  # the first one finds out which engine suits the model
    whole = seconds(lambda: reports.append(next(loop)), chosen.rounds)
    optimizer = reports[-1].state.optimizer
    assert optimizer is not None
    plan = Plan(1, torch.zeros(1), None, 1.0, 1.0)
    ctx = Context(Spec(size), plan, np.arange(1), torch.ones(1), SecretSeed.simulated(0))
    update = sense.recover(optimizer, size).unsqueeze(0)
    found = {
        f"a round of {CLIENTS} clients": whole,
        "its recovery": seconds(lambda: sense.recover(optimizer, size), chosen.rounds),
        "the encoding of one update": seconds(lambda: sense.encode(update, ctx), chosen.rounds),
    }
    cpu, wall = (mine / all for mine, all in zip(found["its recovery"], whole, strict=True))
    print(f"{size:,} weights, milliseconds{'CPU':>14}{'wall':>10}   ({workers.count(None)} workers)")
    for name, (one, other) in found.items():
        print(f"{name:32}{1e3 * one:10.1f}{1e3 * other:10.1f}")
    print(f"the recovery's part of a round: {cpu:.3f} of the CPU time, {wall:.3f} of the wall time")
    if chosen.out:
        figures = {
            "what": f"the recovery of FL-CS in a round of {CLIENTS} clients, {size} weights, ratio {RATIO}",
            "how": f"CPU and wall seconds, the minimum of {chosen.rounds} turns, {workers.count(None)} workers",
            "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "versions": {"torch": torch.__version__, "numpy": np.__version__, "scipy": scipy.__version__},
            "goal": GOAL,
            "results": {**found, "recovery / round": (cpu, wall)},
        }
        chosen.out.write_text(json.dumps(figures, indent=1) + "\n")
    return int(max(cpu, wall) >= GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
