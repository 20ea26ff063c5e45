"""A cluster on this machine: two workers against one on the paper's CNN, and against the simulator's threads.

    python benchmarks/cluster.py [--turns N] [--cohort N] [--clients N] [--scheme NAME ...] [--out FILE]

Contenders take turns in one process: one worker, two workers, one thread, two threads. They train the same clients from
the same weights, and their weights are compared: the same bits. The second round of each turn is timed, and of each
contender the quickest counts, since what else runs on the machine only ever adds. Two cores are needed, and a machine
that is left alone. Beside it stands CPU time, of this process and of the workers, which others disturb less.
"""

import argparse
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ray
import torch
from machine import machine
from torch import nn

from hush.catalogue.entries import ENTRIES
from hush.catalogue.values import Settings
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.federation.blocks import Simulation
from hush.federation.cluster import Cluster
from hush.federation.nodes import Actors
from hush.federation.simulated import Simulated, rounds
from hush.models import networks
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip
from hush.random.seeds import PublicSeed

ROWS = 10  # of each client
POOL = 60_000  # images, made up: what they show takes no time


class Given:
    """A transport of clients that are there already."""

    def __init__(self, clients: Simulation) -> None:
        self.clients = clients

    def of(self, task: Task) -> Simulation:
        """These."""
        return self.clients


def population(clients: int) -> Task:
    """The paper's CNN, and so many clients of 10 images each, which they may share."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(POOL, 1, 28, 28, generator=generator)
    rows = Samples(images, torch.randint(10, (POOL,), generator=generator))
    held = torch.randint(POOL, (clients * ROWS,), generator=generator)
    split = Split(held, torch.arange(0, clients * ROWS + 1, ROWS), shared=True)
    model = networks.build("cnn", images.shape[1:], 10, PublicSeed(0))
    public = rows.rows(torch.arange(64))
    return Task(model, nn.functional.cross_entropy, rows, split, public=public)


def measured(name: str, task: Task, cohort: int, turns: int) -> dict[str, Any]:
    """Seconds a round of each contender, and the ratios."""
    settings = Settings(sampling=Fixed(cohort), rate=0.1, steps=5, batch=ROWS, ratio=0.005, clip=Clip(1.0), noise=1.0)
    scheme = ENTRIES[name].scheme(settings)
    clients = Cluster(workers=2).of(task)
    assert isinstance(clients.crew, Actors)
    all_, placed, engine = clients.crew.workers, clients.crew.placed, clients.engine
    contenders = {
        "one worker": Given(Simulation(task, Actors(all_[:1], placed), engine)),
        "two workers": Given(clients),
        "one thread": Simulated(workers=1, engine=engine),
        "two threads": Simulated(workers=2, engine=engine),
    }
    pids = [ray.get(one.ready.remote()) for one in all_]
    seconds: dict[str, list[float]] = {who: [] for who in contenders}
    busy: dict[str, list[tuple[float, float]]] = {who: [] for who in contenders}
    for turn in range(turns + 1):
        weights = None
        for who, transport in contenders.items():
            spent = time.process_time(), used(pids)
            for report in rounds(scheme, task, rounds=2, seed=turn, accountant="rdp", transport=transport):
                took = report.seconds
                if report.round == 1:
                    spent = time.process_time(), used(pids)
            if turn:  # the first one warms up
                seconds[who].append(took)
                busy[who].append((time.process_time() - spent[0], used(pids) - spent[1]))
            weights = report.state.weights if weights is None else weights
            if not torch.equal(weights, report.state.weights):
                raise SystemExit(f"{name}: {who} has other bits")
            print(f"{name}: turn {turn}, {who}: {took:.2f} s", flush=True)
    best = {who: round(min(took), 3) for who, took in seconds.items()}
    ratios = {
        "one worker / two": round(best["one worker"] / best["two workers"], 2),
        "one thread / two": round(best["one thread"] / best["two threads"], 2),
        "two workers / two threads": round(best["two workers"] / best["two threads"], 2),
    }
    cpu = {who: [round(min(part), 3) for part in zip(*found, strict=True)] for who, found in busy.items()}
    return {"seconds": best, "CPU here and at workers": cpu, "ratios": ratios, "turns": seconds}


def used(pids: list[int]) -> float:
    """CPU seconds of these processes so far."""
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(found[11]) + int(found[12]) for found in fields) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--scheme", nargs="*", default=["fl-std", "fl-top-dp"])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    task = population(asked.clients)
    results = {name: measured(name, task, asked.cohort, asked.turns) for name in asked.scheme}
    told = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "clients": asked.clients}
    text = json.dumps({**told, "cohort": asked.cohort, "results": results}, indent=1)
    if asked.out:
        asked.out.write_text(text + "\n")
    print(json.dumps({name: {**found, "turns": None} for name, found in results.items()}, indent=1))


if __name__ == "__main__":
    main()
