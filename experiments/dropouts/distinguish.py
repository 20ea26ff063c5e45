"""Does a released model reveal who dropped out? A distinguisher against what is stated, in many runs of a small model.

python experiments/dropouts/distinguish.py [--runs 1000] [--out experiments/dropouts/results.csv]

Two worlds, with one client and without it, each trained `runs` times. The distinguisher gets every released model. It
undoes the server's average and momentum, and looks at the size of each round's noise alone (its mean square, which
shows how many shares are in it) and at rounds that left the model as it was (aborts). Its score is the number of rounds
that look as if somebody had dropped out. hush.audit turns both worlds' scores into a lower bound on epsilon, at
confidence 0.95: above the stated epsilon, the statement is refuted.

many    each client drops out with probability 0.1, tolerance 0.3: does the size of a cohort show?
flaky   one client always drops out when it is drawn, the others never do: does it show that it was drawn?
"""

import argparse
import csv
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import hush
from hush.audit.bounds import lower_bound
from hush.core.plain import Sum
from hush.core.scheme import Scheme
from hush.parts.stages import Quantise
from hush.parts.steps import Momentum

HERE = Path(__file__).parent
DELTA = 0.02
CLIP = 0.5
SIZE = 200  # inputs; 10 classes: 2,010 weights


@dataclass(frozen=True)
class Case:
    """One row of the table. secure: a simulated secure sum; else integers, if any, are added in the open."""

    scheme: str
    numbers: str  # continuous, or integer
    who: str  # many, or flaky
    clients: int
    rounds: int
    noise: float
    secure: bool = False
    tolerance: float = 0.3
    dropout: float = 0.1
    rate: float = 0.5

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{self.scheme}, {self.numbers}{', secure sum' if self.secure else ''}"


CASES = [
    *(Case(name, kind, "many", 5, 60, 60.0) for name in ("fl-top-dp", "hush") for kind in ("continuous", "integer")),
    *(Case(name, kind, "flaky", 20, 8, 12.0) for name in ("fl-top-dp", "hush") for kind in ("continuous", "integer")),
    *(Case(name, "integer", "flaky", 24, 8, 12.0, True, dropout=0.02) for name in ("fl-top-dp", "hush")),
]


def task(clients: int) -> hush.Task:
    """Two random rows a client, and a public batch."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(2 * clients + 20, SIZE, generator=draw), torch.randint(10, (2 * clients + 20,), generator=draw)
    split = [[2 * k, 2 * k + 1] for k in range(clients)]
    torch.manual_seed(0)
    public = (x[2 * clients :], y[2 * clients :])
    return hush.Task(nn.Linear(SIZE, 10), nn.functional.cross_entropy, train=(x, y), split=split, public=public)


def scheme(case: Case, problem: hush.Task) -> Scheme:
    """The catalogue's scheme, in floats or in integers."""
    dropout = case.dropout if case.who == "many" or case.secure else 0.0
    sampling = hush.Poisson(case.rate, tolerance=case.tolerance, dropout=dropout)
    ratio = {"ratio": 0.99} if case.scheme == "fl-top-dp" else {"downlink_bits": 32}
    found = hush.scheme(case.scheme, sampling=sampling, clip=CLIP, noise=case.noise, steps=1, **ratio)
    if case.numbers == "continuous":
        return found
    found = hush.secured(found, problem)
    return found if case.secure else replace(found, sampling=sampling, aggregator=Sum())


def rounds_of(found: Scheme, models: list[Tensor]) -> Iterator[Tensor]:
    """The mean of each round, from the released models alone: average and momentum are public and are undone."""
    b, step = found.average, found.step
    rate, keep = (step.rate, step.keep) if isinstance(step, Momentum) else (getattr(step, "rate", 1.0), 0.0)
    weights, moved = [models[0]], [torch.zeros_like(models[0])]
    for t, model in enumerate(models[1:], 1):
        kept = (b - b**t) / (1 - b**t) if b else 0.0
        weights.append((model - kept * models[t - 1]) / (1 - kept) if t > 1 else model)
        moved.append((weights[t] - weights[t - 1]) / rate)
        yield moved[t] - keep * moved[t - 1]


def deviation(found: Scheme, problem: hush.Task) -> float:
    """Of the noise that shares are sized for, in the units of the weights; public."""
    before = found.specs(found.coordinates.count(problem.layout))[-2]
    grid = next((CLIP / stage.steps for stage in found.stages if isinstance(stage, Quantise)), 1.0)
    return float(found.source.multiplier * before.l2 * grid)


def score(case: Case, present: bool, seed: int) -> float:
    """How many rounds look as if somebody had dropped out."""
    clients = case.clients if present else case.clients - 1
    problem = task(clients)
    found = scheme(case, problem)
    draw = np.random.default_rng([seed, present])
    gone = draw.random((case.rounds + 1, clients)) < case.dropout
    flaky = case.clients - 1

    def lost(number: int, client: int) -> bool:
        return bool(gone[number, client]) if case.who == "many" else client == flaky

    models = [torch.cat([p.detach().flatten() for p in problem.model.parameters()]).double()]
    for report in hush.rounds(
        found, problem, rounds=case.rounds, seed=2 * seed + present, transport=hush.Simulated(lost=lost)
    ):
        models.append(report.state.released.double())
    live, whole = report.state.live, deviation(found, problem) / math.sqrt(1 - case.tolerance) / (case.rate * clients)
    count = 0
    for mean in rounds_of(found, models):
        size = (mean if live is None else mean[live]).square().mean().sqrt().item() / whole
        count += size < 1 - 0.25 / (case.rate * case.clients)
    return float(count)


def stated(case: Case) -> float:
    """The model view's epsilon of the whole run, as hush states it."""
    problem = task(case.clients)
    nobody = hush.Simulated(lost=lambda number, client: False)
    *_, last = hush.rounds(scheme(case, problem), problem, rounds=case.rounds, delta=DELTA, transport=nobody)
    value = last.epsilon["model"]
    return math.inf if isinstance(value, str) else value


def one(arguments: tuple[Case, int]) -> tuple[float, float]:
    torch.set_num_threads(1)
    case, seed = arguments
    return score(case, True, seed), score(case, False, seed)


def judged(case: Case, runs: int, workers: int) -> dict[str, object]:
    """A row of the table."""
    with ProcessPoolExecutor(workers) as pool:
        both = list(pool.map(one, [(case, seed) for seed in range(runs)], chunksize=10))
    present, absent = (np.array(scores) for scores in zip(*both, strict=True))
    jitter = np.random.default_rng(0)  # of equal scores, so that a threshold may part them
    bound = lower_bound(present + jitter.random(runs) / 2, absent + jitter.random(runs) / 2, DELTA)
    return {
        "case": case.name,
        "who": case.who,
        "clients": case.clients,
        "rounds": case.rounds,
        "runs": runs,
        "score_with": round(float(present.mean()), 3),
        "score_without": round(float(absent.mean()), 3),
        "epsilon_stated": round(stated(case), 3),
        "epsilon_shown": round(bound.epsilon, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results.csv")
    wanted = parser.parse_args()
    rows = []
    for case in CASES:
        rows.append(judged(case, wanted.runs, wanted.workers))
        print(rows[-1], flush=True)
        with wanted.out.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
