"""From finished runs to what is committed: results.csv, frontier.png and the table for the README.

python experiments/frontier/collect.py runs/frontier
"""

import csv
import json
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
# Table 1 of the first paper, epsilon 1 by its own accounting: accuracy and kB up by scheme and ratio.
PAPER = [
    ("fl-top-dp 0.1 %", 0.76, 22.06),
    ("fl-top-dp 0.5 %", 0.81, 110.88),
    ("fl-cs-dp 5 %", 0.78, 887.13),
    ("fl-std-dp", 0.56, 6653.48),
]
# Ours in the figure: Fashion-MNIST, clients with images of all kinds, integers where there is a choice.
SHOWN = ("hush-secure", "hush-20-rounds", "hush-120-rounds", "hush-tiny", "hush-once", "hush-trusted", "fl-top-dp-ours")
LEFT = ("hush-trusted", "hush-secure", "fl-top-dp-ours", "fl-std-dp")  # whose names are left of their points


def main(folder: Path) -> None:
    results = []
    for path in sorted(folder.iterdir()):
        if not (runs := sorted(path.glob("seed-*"))):
            continue
        last = [json.loads((run / "rounds.jsonl").read_text().splitlines()[-1]) for run in runs]
        metric = "accuracy" if last[0]["auroc"] is None else "auroc"
        found = [row[metric] for row in last]
        up, down = ([row["bytes"][way] for row in last] for way in ("up", "down"))
        epsilon = [row["epsilon"] for row in last]
        results.append(
            {
                "run": path.name,
                "seeds": len(last),
                "rounds": last[0]["round"],
                "metric": metric,
                "mean": round(statistics.mean(found), 4),
                "lowest": round(min(found), 4),
                "highest": round(max(found), 4),
                "payload_up_kB": round(statistics.mean(row["payload"]["mean"] for row in up) / 1000, 3),
                "protocol_up_kB": round(statistics.mean(row["protocol"]["mean"] for row in up) / 1000, 3),
                "payload_down_kB": round(statistics.mean(row["payload"]["mean"] for row in down) / 1000, 3),
                "epsilon_model": round(max(row["model"] for row in epsilon), 4),
                "epsilon_server": _server([row["server"] for row in epsilon]),
            }
        )
    with (HERE / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, results[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(results)
    draw([row for row in results if row["run"] in SHOWN])
    for row in results:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


def _server(found: list[float | str]) -> float | str:
    """Against the server; "none" where it is trusted."""
    return max((round(one, 2) for one in found if not isinstance(one, str)), default="none")


def draw(ours: list[dict[str, object]]) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    found = [(row["run"], row["mean"], row["payload_up_kB"]) for row in ours]
    for label, colour, points in (
        ("the first paper", "tab:gray", PAPER),
        ("ours", "tab:blue", found),
    ):
        axes.scatter([kB for _, _, kB in points], [value for _, value, _ in points], label=label, color=colour)
        for name, value, kB in points:
            place, side = ((-6, 4), "right") if name in LEFT else ((6, -11), "left")
            axes.annotate(name, (kB, value), xytext=place, textcoords="offset points", fontsize=8, ha=side)
    axes.set(xscale="log", ylim=(0.54, 0.91), xlabel="payload up per client, kB", ylabel="test accuracy")
    axes.set_title("Fashion-MNIST, 6,000 clients of 10 images, epsilon 1")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(HERE / "frontier.png", dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
