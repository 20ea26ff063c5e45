"""From finished runs to what is committed: results.csv, curves.csv, curves.png and the table for the README.

python experiments/constrained/collect.py runs/constrained
"""

import csv
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from hush.privacy import Ledger, model_epsilon, paper_epsilon
from hush.report import runs

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    with (HERE / "published.csv").open() as file:
        published = {row["run"]: row for row in csv.DictReader(file)}
    found = {name: runs.read(folder / name) for name in published}
    results, curves = [], []
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, run in found.items():
        last = run.rounds[-1]
        points = runs.accuracies(run)
        curves += [{"run": name, "round": number, "accuracy": value} for number, value in points]
        axes.plot(*zip(*points, strict=True), label=name)
        events = Ledger.load(run.path / "privacy.json").events
        results.append(
            {
                "run": name,
                "rounds": last["round"],
                "seed": run.config["run"]["seed"],
                "clip": run.config["scheme"].get("clip", ""),
                "accuracy_last": last["accuracy"],
                "accuracy_best": last["best_accuracy"],
                "round_best": last["best_round"],
                "payload_up_kB": round(last["bytes"]["up"]["payload"]["mean"] / 1000, 2),
                "payload_down_kB": round(last["bytes"]["down"]["payload"]["mean"] / 1000, 2),
                "protocol_up_kB": round(last["bytes"]["up"]["protocol"]["mean"] / 1000, 2),
                "protocol_down_kB": round(last["bytes"]["down"]["protocol"]["mean"] / 1000, 2),
                "epsilon_paper": round(paper_epsilon(events, run.delta), 2) if events else "none",
                "epsilon_model": round(model_epsilon(events, run.delta), 2) if events else "none",
                **{f"epsilon_{view}": shown(last["epsilon"][view]) for view in ("server", "upload")},
            }
        )
    axes.set(xlabel="round", ylabel="test accuracy", title="Fashion-MNIST, 6,000 clients of 10 images, 100 a round")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(HERE / "curves.png", dpi=120)
    write(HERE / "results.csv", results)
    write(HERE / "curves.csv", curves)
    for row in results:
        paper = published[row["run"]]
        cells = [
            row["run"],
            paper["accuracy"] or "-",
            f"{row['accuracy_best']:.3f} ({row['round_best']})",
            f"{row['accuracy_last']:.3f}",
            paper["up_kB"] or "-",
            f"{row['payload_up_kB']} / {row['payload_down_kB']}",
            paper["epsilon"] or "-",
            *(row[f"epsilon_{view}"] for view in ("paper", "model", "server", "upload")),
        ]
        print("| " + " | ".join(map(str, cells)) + " |")


def shown(value: float | str) -> float | str:
    return value if isinstance(value, str) else round(value, 2)


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
