"""Was a record, or a client, in the training? Likelihood ratios against released models of Fashion-MNIST.

python experiments/attacks/membership.py [--models 12]

1,000 images at 200 clients. Each case trains its models on halves of the records, then of the clients, and each model
is attacked with the others as its shadows (hush.audit.membership). Writes membership.csv, and membership-curves.csv for
the figure; collect.py makes table and figure of them.
"""

import argparse
import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import hush
from hush.audit.membership import halves, membership, trained
from hush.models.features.front import front
from hush.models.networks import head
from hush.models.weights import glorot
from hush.privacy.calibration import noise_for

HERE = Path(__file__).parent
CLIENTS, ROWS, TEST = 200, 5, 2000
DELTA = 1e-5
RATE, ROUNDS = 0.2, 40  # of the private schemes; half of the clients, or of their rows, are there in each training
FALSE = np.geomspace(1e-3, 1, 61)
SGD = {"rate": 0.2, "steps": 5, "batch": 5}
OPEN = {"rate": 0.3, "steps": 10, "batch": 5}


@dataclass(frozen=True)
class Case:
    """A scheme of the catalogue; epsilon None: as it is, open."""

    scheme: str
    epsilon: float | None
    rounds: int
    settings: dict[str, Any]

    def made(self) -> hush.Scheme:
        """With the noise that its rounds need."""
        if self.epsilon is None:
            return hush.scheme(self.scheme, sampling=hush.Poisson(0.5), **self.settings)
        noise = noise_for(self.epsilon, DELTA, RATE, self.rounds)
        return hush.scheme(self.scheme, sampling=hush.Poisson(RATE), noise=noise, **self.settings)


CASES = [
    Case("fl-std", None, 60, OPEN),
    *(Case("fl-std-dp", epsilon, ROUNDS, {**SGD, "clip": 0.5}) for epsilon in (8.0, 1.0)),
    *(Case("fl-top-dp", epsilon, ROUNDS, {**SGD, "clip": 0.5, "ratio": 0.1}) for epsilon in (8.0, 1.0)),
    *(Case("hush", epsilon, ROUNDS, {}) for epsilon in (8.0, 1.0)),
]


def task(featured: bool) -> hush.Task:
    """Small images and a hidden layer of 64, or a linear head on public features of the images."""
    data = hush.dataset("fashion-mnist")
    count, public = CLIENTS * ROWS, 10
    images = [data.train.inputs[: count + public].float(), data.test.inputs[:TEST].float()]
    if featured:
        made = front((1, 28, 28), 197, 1)
        train, test = (made(found) for found in images)
        model = head(torch.Size((made.width,)), 10)
    else:
        train, test = (F.avg_pool2d(found, 2).flatten(1) for found in images)
        model = glorot(nn.Sequential(nn.Linear(196, 64), nn.ReLU(), nn.Linear(64, 10)), hush.PublicSeed(0))
    labels = data.train.targets
    return hush.Task(
        model,
        F.cross_entropy,
        (train[:count], labels[:count]),
        [list(range(ROWS * k, ROWS * (k + 1))) for k in range(CLIENTS)],
        (test, data.test.targets[:TEST]),
        (train[count:], labels[count : count + public]),
        featured=featured,
    )


def judged(case: Case, models: int, made: Callable[[bool], hush.Task] = task) -> tuple[list[dict[str, object]], ...]:
    """The rows of the table, and those of the curves."""
    problem, scheme = made(case.scheme == "hush"), case.made()
    alone = hush.Simulated(workers=1)
    weights = trained(scheme, halves(problem, models, 0).tasks[0], case.rounds, 0, hush.SecretSeed.simulated(0), alone)
    rows, curves = [], []
    for unit in ("record", "client"):
        found = membership(scheme, problem, case.rounds, models, unit=unit, transport=alone)
        name = {"scheme": case.scheme, "epsilon": case.epsilon or "none", "unit": unit}
        row = {**name, "models": models, "rounds": case.rounds, "outside": found.curve.negatives}
        row["accuracy"] = round(hush.evaluate(problem, weights).accuracy, 4)
        for attack, curve in (("ratio", found.curve), ("loss", found.baseline)):
            row[f"{attack}_auc"] = round(curve.auc, 4)
            row[f"{attack}_at_0.001"], row[f"{attack}_at_0.01"] = round(curve.at(0.001), 5), round(curve.at(0.01), 5)
        row["error"] = round(found.curve.error, 4)
        rows.append(row)
        curves += [{**name, "false": f"{rate:.5f}", "true": round(found.curve.at(rate), 5)} for rate in FALSE]
    return rows, curves


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--out", type=Path, default=HERE)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    rows, curves = [], []
    for case in CASES:
        more, points = judged(case, wanted.models)
        rows, curves = rows + more, curves + points
        print(*more, sep="\n", flush=True)
        write(wanted.out / "membership.csv", rows)
        write(wanted.out / "membership-curves.csv", curves)


if __name__ == "__main__":
    main()
