"""From finished runs to what is committed: a line of results.csv for each, and the table for the README.

python experiments/compressors/collect.py runs/compressors

The folder holds runs, at any depth.
"""

import csv
import sys
from dataclasses import replace
from pathlib import Path

from hush.experiment.report import figure, runs

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    found = {str(path.parent.relative_to(folder)): path.parent for path in sorted(folder.rglob("config.toml"))}
    several = {name: replace(runs.read(path), name=name) for name, path in found.items()}
    finished = {name: run for name, run in several.items() if len(run.rounds) == run.total}
    results = [result(name, run) for name, run in finished.items()]
    with (HERE / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, results[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(results)
    print("| " + " | ".join(results[0]) + " |")
    print("|" + "---|" * len(results[0]))
    for row in results:
        print("| " + " | ".join(map(str, row.values())) + " |")
    figure.compare(list(finished.values()), HERE / "compare.png")


def result(name: str, run: runs.Run) -> dict[str, object]:
    last = run.last
    return {
        "run": name,
        "scheme": run.scheme,
        "data": run.data,
        "rounds": last["round"],
        "accuracy_last": round(last["accuracy"], 4),
        "accuracy_best": round(last["best_accuracy"], 4),
        "payload_up_kB": round(runs.kilobytes(last, "up", "payload"), 2),
        "payload_down_kB": round(runs.kilobytes(last, "down", "payload"), 2),
        **{f"epsilon_{view}": shown(runs.epsilon(last, view)) for view in ("model", "server", "upload")},
    }


def shown(epsilon: float | None) -> float | str:
    return "none" if epsilon is None else round(epsilon, 2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
