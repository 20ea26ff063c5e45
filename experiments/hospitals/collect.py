"""From finished runs to what is committed: results.csv, and the tables for the README.

python experiments/hospitals/collect.py runs/hospitals

The folder holds a folder for each data set, in it one for each row of the table: a run, or the runs of --repeat.
"""

import csv
import sys
from pathlib import Path

from hush.privacy import Ledger, model_epsilon, paper_epsilon, unnoticed_epsilon
from hush.report import runs

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    with (HERE / "published.csv").open() as file:
        published = {row["run"]: row for row in csv.DictReader(file)}
    results = [
        result(data.name, name, several)
        for data in sorted(folder.iterdir())
        for name in published
        if (several := found(data / name))
    ]
    with (HERE / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, results[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(results)
    for row in results:
        paper = published[row["run"]]
        cells = [
            row["data"],
            row["run"],
            f"{paper['auroc_worst']}-{paper['auroc_best']}",
            f"{row['auroc_best_round_worst']:.3f}-{row['auroc_best_round_best']:.3f}",
            f"{paper['balanced_worst']}-{paper['balanced_best']}",
            f"{row['balanced_best_round_worst']:.3f}-{row['balanced_best_round_best']:.3f}",
            row["up_MB"],
            *(row[f"epsilon_{view}"] for view in ("paper", "model", "server")),
        ]
        print("| " + " | ".join(map(str, cells)) + " |")


def found(place: Path) -> list[runs.Run]:
    """The finished runs of one row."""
    places = [place] if (place / "config.toml").exists() else sorted(place.glob("seed-*"))
    read = [runs.read(one) for one in places]
    return [run for run in read if len(run.rounds) == run.total]


def result(data: str, name: str, several: list[runs.Run]) -> dict[str, object]:
    """One line: worst and best over the repetitions; epsilon is the largest of them."""
    run, spread = several[0], runs.spread(several)
    events = [Ledger.load(one.path / "privacy.json").events for one in several]
    delta = run.delta or 1e-5
    epsilons = {
        "paper": [paper_epsilon(e, delta) for e in events if e],
        "model": [model_epsilon(e, delta) for e in events if e],
        "unnoticed": [unnoticed_epsilon(e, delta) for e in events if e],
        "server": [value for one in several if (value := runs.epsilon(one.last, "server")) is not None],
    }
    ends = {
        f"{measure}_{end}_round_{side}": round(spread[measure][end][side], 4)
        for measure in ("auroc", "balanced")
        for end in ("last", "best")
        for side in ("worst", "best")
    }
    return {
        "data": data,
        "run": name,
        "repetitions": len(several),
        "rounds": run.total,
        "noise": run.config["scheme"].get("noise", "none"),
        "balance": run.config["train"]["balance"],
        **ends,
        "up_MB": round(max(runs.kilobytes(one.last, "up", "payload") for one in several) / 1000, 2),
        "seconds_a_round": round(sum(row["seconds"] for row in run.rounds) / len(run.rounds), 2),
        **{f"epsilon_{view}": round(max(values), 2) if values else "none" for view, values in epsilons.items()},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
