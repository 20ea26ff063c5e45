"""From finished runs to what is committed: results.csv, frontier.png and the README's tables.

python experiments/frontier/collect.py runs/frontier
"""

import csv
import json
import math
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
README = HERE / "README.md"
BESIDE = ["", "beside", "points more", "payload, times fewer", "with protocol"]
# Table 1 of the first paper, epsilon 1 by its own accounting: accuracy and kB up by scheme and ratio.
PAPER = [
    ("fl-top-dp 0.1 %", 0.76, 22.06),
    ("fl-top-dp 0.5 %", 0.81, 110.88),
    ("fl-cs-dp 5 %", 0.78, 887.13),
    ("fl-std-dp", 0.56, 6653.48),
]
# Ours in the figure: Fashion-MNIST, clients with images of all kinds, integers where there is a choice.
SHOWN = (
    *("hush-secure", "hush-200-rounds", "hush-tiny", "hush-tiny-60-rounds", "hush-once", "hush-trusted"),
    "fl-top-dp-ours",
)
BEFORE = ("hush-0.1", "hush-tiny-0.1", "hush-once-0.1")  # the same without blocks and the ridge solve
# Where names stand that are not below their points, to the right: points in x and y, and which end is there.
PLACES = {
    "hush-secure": (-7, 2, "right"),
    "hush-200-rounds": (0, 7, "center"),
    "hush-tiny-60-rounds": (-4, 7, "left"),
    "fl-top-dp-ours": (0, 7, "center"),
    "hush-0.1": (7, 2, "left"),
    "fl-std-dp": (-6, 4, "right"),
}
OTHERS = {
    "FL-TOP-DP as its paper has it: r = 0.5 %, floats, no secure sum": "paper",
    "our run of the paper's settings in 12 bits with a secure sum, best round, one seed": "short",
    "fl-top-dp-ours, which has 12 bits and a secure sum too": "parts",
}
BYTES = "-bytes"  # runs that only count: the same cohorts, with next to no training


def main(folder: Path) -> None:
    with (HERE / "results.csv").open() as file:
        known: dict[str, dict[str, object]] = {row["run"]: {**row} for row in csv.DictReader(file)}
    for path in sorted(folder.iterdir()):
        if not (runs := sorted(path.glob("seed-*"))):
            continue
        last = [json.loads((run / "rounds.jsonl").read_text().splitlines()[-1]) for run in runs]
        if path.name.endswith(BYTES):  # bytes depend on the cohorts alone, whatever clients train
            known[path.name.removesuffix(BYTES)] |= _bytes(last)
            continue
        metric = "accuracy" if last[0]["auroc"] is None else "auroc"
        found = [row[metric] for row in last]
        epsilon = [row["epsilon"] for row in last]
        known[path.name] = {
            "run": path.name,
            "seeds": len(last),
            "rounds": last[0]["round"],
            "metric": metric,
            "mean": round(statistics.mean(found), 4),
            "lowest": round(min(found), 4),
            "highest": round(max(found), 4),
            **_bytes(last),
            "epsilon_model": round(max(row["model"] for row in epsilon), 4),
            "epsilon_server": _server([row["server"] for row in epsilon]),
        }
    results = [known[name] for name in sorted(known)]
    keys = known["hush-secure"]
    results = [{key: row.get(key, "") for key in keys} for row in results]
    with (HERE / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, keys, lineterminator="\n")
        table.writeheader()
        table.writerows(results)
    draw(results)
    fill(results)


def fill(results: list[dict[str, object]]) -> None:
    """The README's tables, between their marks."""
    heads = [key.replace("_kB", ", kB").replace("_", " ") for key in results[0]]
    body = [[str(value) for value in row.values()] for row in results]
    text = README.read_text()
    for name, lines in (
        ("results", [heads, *body]),
        ("beside", [BESIDE, *_beside({row["run"]: row for row in results})]),
    ):
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        rows = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
        text = before + start + "".join(f"| {' | '.join(row)} |\n" for row in rows) + end + after
    README.write_text(text)


def _beside(rows: dict[object, dict[str, object]]) -> list[list[str]]:
    """Points of test accuracy more than FL-TOP-DP, and how many times fewer bytes up, rounded down."""
    published = _find("published.csv", table="u-table1", row="fl-top-dp@0.5%")
    short = _find("results.csv", setting="fashion-mnist", row="fl-top-dp@0.5% in 12 bits")
    parts = rows["fl-top-dp-ours"]
    known: dict[str, tuple[float, float, float | None]] = {
        "paper": (float(published["accuracy"]), float(published["up_kB"]), None),
        "short": (float(short["best"]), float(short["up_kB"]), None),
        "parts": (_number(parts, "mean"), _number(parts, "payload_up_kB"), _number(parts, "protocol_up_kB")),
    }
    found = []
    for words, which in OTHERS.items():
        accuracy, payload, protocol = known[which]
        for name in ("hush-secure", "hush-tiny"):
            small, more = (_number(rows[name], f"{kind}_up_kB") for kind in ("payload", "protocol"))
            points = math.floor(1e3 * (_number(rows[name], "mean") - accuracy) + 1e-6) / 10
            both = "-" if protocol is None else _times((payload + protocol) / (small + more))
            found.append([name, words, f"{points:.1f}", _times(payload / small), both])
    return found


def _find(file: str, **wanted: str) -> dict[str, str]:
    with (HERE.parent / "constrained" / file).open() as opened:
        (found,) = [row for row in csv.DictReader(opened) if wanted.items() <= row.items()]
    return found


def _number(row: dict[str, object], key: str) -> float:
    return float(str(row[key]))


def _times(factor: float) -> str:
    return f"{factor:.1f}" if factor < 100 else f"{math.floor(factor)}"


def _bytes(last: list[dict[str, dict[str, dict[str, dict[str, float]]]]]) -> dict[str, object]:
    """Mean kB of a client, over the seeds."""
    return {
        f"{kind}_{way}_kB": round(statistics.mean(row["bytes"][way][kind]["mean"] for row in last) / 1000, 3)
        for way in ("up", "down")
        for kind in ("payload", "protocol")
    }


def _server(found: list[float | str]) -> float | str:
    """Against the server; "none" where it is trusted."""
    return max((round(one, 2) for one in found if not isinstance(one, str)), default="none")


def draw(results: list[dict[str, object]]) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")

    def points(names: tuple[str, ...]) -> list[tuple[str, float, float]]:
        found = [row for row in results if row["run"] in names]
        return [(str(row["run"]), _number(row, "mean"), _number(row, "payload_up_kB")) for row in found]

    for label, colour, shown in (
        ("the first paper", "tab:gray", PAPER),
        ("hush 0.1", "tab:orange", points(BEFORE)),
        ("hush", "tab:blue", points(SHOWN)),
    ):
        axes.scatter([kB for _, _, kB in shown], [value for _, value, _ in shown], label=label, color=colour)
        for name, value, kB in shown:
            x, y, side = PLACES.get(name, (6, -11, "left"))
            axes.annotate(name, (kB, value), xytext=(x, y), textcoords="offset points", fontsize=8, ha=side)
    axes.set(xscale="log", ylim=(0.54, 0.91), xlabel="payload up per client, kB", ylabel="test accuracy")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_title("Fashion-MNIST, 6,000 clients of 10 images, epsilon 1")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(HERE / "frontier.png", dpi=120)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
