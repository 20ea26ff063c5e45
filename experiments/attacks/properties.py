"""What can be inferred of a client's data from what it sends in a round, by scheme: attackers adapted to each.

python experiments/attacks/properties.py --adult adult.data [--repetitions 5]

adult.data is the census file of examples/adult.py; diabetes130 and fashion-mnist are fetched by their names. Each
repetition cuts the rows in two halves, the attacker's and the targets', and deals 600 clients of each, half of them
with the property. Writes properties.csv; collect.py makes table and figure of it.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hush
from hush.audit.dealing import Deal
from hush.audit.properties import View, repeated
from hush.catalogue.entries import ENTRIES
from hush.core.task import Enrolled, Problem
from hush.data.samples import Samples
from hush.models.features import unit
from hush.models.features.front import front
from hush.models.networks import head
from hush.models.weights import glorot
from hush.privacy.calibration import noise_for

HERE = Path(__file__).parent
COHORT, REGISTERED, ROUNDS, DELTA = 10, 600, 100, 1e-5
RATE, HIDDEN = COHORT / REGISTERED, 16
EPSILONS = (8.0, 1.0)
LOCAL = {"rate": 0.1, "steps": 5, "batch": None}
CLIP = 0.3


@dataclass(frozen=True, eq=False)
class Case:
    """A property of some data: which rows have the trait, how they are dealt, and the rows as networks take them."""

    data: str
    words: str
    deal: Deal
    trait: np.ndarray
    rows: Samples
    features: Tensor
    images: bool

    @property
    def classes(self) -> int:
        return int(self.rows.targets.max()) + 1

    def problem(self) -> Problem:
        """A small network; the public batch of the Top-K is made up of noise, since no row of the data is public."""
        width = self.rows.inputs.shape[1]
        layers = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, self.classes))
        rng = hush.PublicSeed(0).generator("made-up public batch")
        inputs = torch.from_numpy(rng.random((10, width), np.float32))
        public = Samples(inputs, torch.from_numpy(rng.integers(self.classes, size=10)))
        return Problem(glorot(layers, hush.PublicSeed(0)), F.cross_entropy, public=public)

    def featured(self) -> tuple[Problem, Samples]:
        """A linear head, and the rows of features it takes."""
        model = head(torch.Size((self.features.shape[1],)), self.classes)
        return Problem(model, F.cross_entropy, featured=True), Samples(self.features, self.rows.targets)


@dataclass(frozen=True)
class Attack:
    """A line of the table: what is attacked, what the attacker sees, and what its classifier learned from."""

    scheme: str
    epsilon: float | None
    sees: str
    made: hush.Scheme
    view: View = "upload"
    learned: hush.Scheme | None = None


def fashion() -> Iterator[Case]:
    found = hush.dataset("fashion-mnist").train
    images, labels = found.inputs[:30_000].float(), found.targets[:30_000]
    small, features = F.avg_pool2d(images, 2).flatten(1), front((1, 28, 28), 197, 1)(images)
    sneaker = (labels == 7).numpy()
    deal = Deal(clients=600, size=10, present=1, others=200)
    yield Case("fashion-mnist", "one of 10 images is a sneaker", deal, sneaker, Samples(small, labels), features, True)
    # Shoes and bags against clothes: no label of the task says what kind of shoe it is.
    two = torch.isin(labels, torch.tensor([5, 7, 8, 9])).long()
    deal = replace(deal, present=3, matched=True)
    words = "3 of 10 images are sneakers; task: clothes or not"
    yield Case("fashion-mnist", words, deal, sneaker, Samples(small, two), features, True)


def adult(path: Path) -> Iterator[Case]:
    table = np.array([line.split(", ") for line in path.read_text().split("\n") if line])
    numbers = np.log1p(table[:, [0, 4, 10, 11, 12]].astype(float)) / np.log1p([90, 16, 99_999, 4_356, 99])
    known = [table[:, [n]] == np.unique(table[:, n]) for n in (1, 3, 5, 6, 7, 8, 13)]  # all but sex
    rows = torch.from_numpy(np.hstack([numbers, *known]).astype(np.float32))
    labels = torch.from_numpy((table[:, 14] == ">50K").astype(np.int64))
    deal = Deal(clients=600, size=10, present=8, absent=2, others=200, matched=True)
    women = table[:, 9] == "Female"
    yield Case("adult", "8 of 10 people are women, or 2 are", deal, women, Samples(rows, labels), unit(rows), False)


def diabetes() -> Iterator[Case]:
    data = hush.dataset("diabetes130")
    last = next(place for place, name in enumerate(data.features) if place > 8 and "=" not in name)
    dense = torch.cat([data.train.inputs[rows] for rows in torch.arange(len(data.train)).split(5000)])
    old, rows = (dense[:, data.features.index("age")] >= 0.7).numpy(), dense[:, 1:last].clone()  # no age, no diagnoses
    assert data.features[0] == "age"
    deal = Deal(clients=600, size=20, present=20, others=200, matched=True)
    labels = data.train.targets.reshape(-1).long()
    yield Case(
        "diabetes130",
        "all 20 patients are 70 or older, or none is",
        deal,
        old,
        Samples(rows, labels),
        unit(rows),
        False,
    )


def attacks(case: Case) -> Iterator[tuple[Attack, bool]]:
    """All of them, and whether they are on features."""
    sampling = hush.Poisson(RATE)

    def made(name: str, **more: object) -> hush.Scheme:
        return hush.scheme(name, **{**LOCAL, "sampling": sampling, **more})

    plain, signs = made("fl-standard"), made("fl-sign")
    yield Attack("fl-standard", None, "upload", plain), False
    yield Attack("fl-standard", None, "sum", plain, "sum"), False
    yield Attack("fl-top", None, "upload", made("fl-top", ratio=0.1)), False
    yield Attack("fl-sign", None, "upload", signs), False
    yield Attack("fl-sign", None, "upload", signs, learned=plain), False
    yield Attack("fl-sign", None, "sum", signs, "sum"), False
    yield Attack("two-bit", None, "upload", made("two-bit", bound=1.0)), False
    head_of = {} if case.images else dict(ENTRIES["hush"].tables)
    clients = Enrolled(case.featured()[0], torch.full((REGISTERED,), case.deal.size))
    for epsilon in EPSILONS:
        noise = noise_for(epsilon, DELTA, RATE, ROUNDS)
        shares = {"clip": CLIP, "noise": noise}
        top, coins = made("fl-top-dp", ratio=0.1, **shares), made("two-bit-dp", **shares)
        own = hush.secured(hush.scheme("hush", sampling=sampling, noise=noise, **head_of), clients)
        if epsilon == EPSILONS[0]:
            bare = replace(own, stages=own.stages[:-1])
            yield Attack("hush", None, "integers without noise", bare), True
        records = noise_for(epsilon, DELTA, RATE, ROUNDS, batch=1.0)
        signed = made("fl-sign-dp", clip=2.0, noise=records, steps=1, batch=case.deal.size, rate=0.05)
        yield Attack("fl-sign-dp", epsilon, "upload", signed), False
        for name, scheme, featured in (("fl-top-dp", top, False), ("two-bit-dp", coins, False), ("hush", own, True)):
            yield Attack(name, epsilon, "upload", scheme), featured
            if epsilon == EPSILONS[0]:  # what is not found with less noise is not found with more
                yield Attack(name, epsilon, "sum", scheme, "sum"), featured


def lines(case: Case, attack: Attack, featured: bool, repetitions: int) -> Iterator[dict[str, object]]:
    problem, rows = case.featured() if featured else (case.problem(), case.rows)
    found = repeated(
        attack.made,
        problem,
        rows,
        case.trait,
        case.deal,
        repetitions=repetitions,
        view=attack.view,
        cohort=COHORT,
        learned=attack.learned,
    )
    for number, one in enumerate(found):
        yield {
            "data": case.data,
            "property": case.words,
            "scheme": attack.scheme,
            "epsilon": attack.epsilon or "none",
            "sees": attack.sees,
            "attacker": "adapted" if attack.learned is None else "trained on plain updates",
            "repetition": number,
            "accuracy": round(one.accuracy, 4),
            "auc": round(one.auc, 4),
            "error": round(one.error, 4),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adult", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=["fashion-mnist", "adult", "diabetes130"])
    parser.add_argument("--out", type=Path, default=HERE / "properties.csv")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    known: dict[str, Callable[[], Iterator[Case]]] = {
        "fashion-mnist": fashion,
        "adult": lambda: adult(wanted.adult),
        "diabetes130": diabetes,
    }
    with wanted.out.open("w", newline="") as file:
        table = None
        for case in (case for name in wanted.data for case in known[name]()):
            for attack, featured in attacks(case):
                for row in lines(case, attack, featured, wanted.repetitions):
                    if table is None:
                        table = csv.DictWriter(file, row.keys(), lineterminator="\n")
                        table.writeheader()
                    table.writerow(row)
                    print(*row.values(), flush=True)
                file.flush()


if __name__ == "__main__":
    main()
