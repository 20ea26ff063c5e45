"""One training with canary clients: what it shows of epsilon beside what is proven, and what it costs.

python experiments/audit/onerun.py [--canaries 1000] [--rows hush fl-top-dp]

hush and fl-top-dp on Fashion-MNIST at epsilon 1, 4 and 8, by the configurations of experiments/frontier, fl-top-dp with
cohorts of 100 for its time. "without canaries" is the same training as it is, for the cost; "no noise" is one whose
clients add none of the noise that is stated. Seconds are those of the processor. Runs are kept in runs/audit and go on
where they were stopped. A row that onerun.csv holds is not run again.
"""

import argparse
import csv
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

import hush
from hush.core.spec import ClientContext, ServerContext, Total
from hush.experiment import config, directory
from hush.experiment.resolving import Experiment, build

HERE = Path(__file__).parent
RESULTS = HERE / "onerun.csv"
FILES = {"hush": "hush.toml", "fl-top-dp": "fl-top-dp-ours.toml"}
COHORTS = {"hush": 300, "fl-top-dp": 100}
COLUMNS = [
    "scheme",
    "epsilon",
    "kind",
    "canaries",
    "proven",
    "shown",
    "fitted",
    "right",
    "guesses",
    "accuracy",
    "seconds",
]


@dataclass(frozen=True)
class Silent(hush.Noise):
    """States its noise and adds none."""

    def encode(self, x: Tensor, ctx: ClientContext) -> Tensor:
        """As it is."""
        return x

    def together(self, x: Tensor, ctx: ClientContext, clients: int) -> Tensor:
        """As it is."""
        return x

    def decode(self, total: Total, ctx: ServerContext) -> Total:
        """As it is."""
        return total


def cases(wanted: list[str]) -> Iterator[tuple[str, float, str]]:
    """Scheme, epsilon and kind of each row."""
    for scheme in wanted:
        yield from ((scheme, epsilon, "canaries") for epsilon in (1.0, 4.0, 8.0))
        yield scheme, 1.0, "without canaries"
        if scheme == "hush":
            yield scheme, 1.0, "no noise"


def built(scheme: str, epsilon: float, kind: str, canaries: int) -> Experiment:
    """The experiment of a row: floats and no secure sum, whose bits cost time and change nothing that is asked here."""
    options = {
        "scheme.epsilon": epsilon,
        "sampling.cohort": COHORTS[scheme],
        "run.eval_every": 10**6,
        "run.canaries": None if kind == "without canaries" else canaries,
    }
    base = config.read(HERE.parent / "frontier" / FILES[scheme])
    wanted = config.over(base, {key: value for key, value in options.items() if value is not None}, "options")
    wanted = wanted.model_copy(update={"secure": wanted.secure.model_copy(update={"mode": None})})
    wanted = wanted.model_copy(update={"scheme": wanted.scheme.model_copy(update={"bits": None})})
    found = build(wanted)
    if kind != "no noise":
        return found
    stages = found.scheme.stages
    assert found.scheme.source is not None
    silent = Silent(found.config.scheme.noise or 1.0)
    return replace(found, scheme=replace(found.scheme, stages=(*stages[:-1], silent)))


def measured(scheme: str, epsilon: float, kind: str, canaries: int) -> dict[str, object]:
    """A row."""
    place = Path("runs") / "audit" / f"{scheme}-{epsilon:g}-{kind.replace(' ', '-')}"
    experiment = built(scheme, epsilon, kind, canaries)
    directory.open_directory(place, experiment.config, resume=True)
    began = time.process_time()
    for _ in directory.execute(experiment, place):
        pass
    spent = time.process_time() - began
    last = directory.rows(place)[-1]
    found = last.get("audit") or {}
    return {
        "scheme": scheme,
        "epsilon": epsilon,
        "kind": kind,
        "canaries": found.get("canaries", 0),
        "proven": f"{last['epsilon']['model']:.3f}",
        "shown": f"{found['epsilon']:.3f}" if found else "",
        "fitted": f"{found['fitted']:.3f}" if found else "",
        "right": found.get("right", ""),
        "guesses": found.get("guesses", ""),
        "accuracy": f"{last['accuracy']:.4f}",
        "seconds": f"{spent:.1f}" if spent < 10 else f"{spent:.0f}",
    }


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--rows", nargs="+", default=list(FILES), choices=list(FILES))
    asked = parser.parse_args()
    known = set()
    if RESULTS.exists():
        with RESULTS.open() as file:
            known = {(row["scheme"], float(row["epsilon"]), row["kind"]) for row in csv.DictReader(file)}
    for case in cases(asked.rows):
        if case in known:
            continue
        row = measured(*case, asked.canaries)
        first = not RESULTS.exists()
        with RESULTS.open("a") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if first:
                writer.writeheader()
            writer.writerow(row)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
