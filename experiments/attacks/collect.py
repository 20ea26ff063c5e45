"""Table and figure of each attack, from its committed results: python experiments/attacks/collect.py"""

import csv
import re
from collections.abc import Callable
from math import exp
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
README = HERE / "README.md"
MARK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
Rows = list[dict[str, str]]


def read(name: str) -> Rows:
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def table(head: list[str], body: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *body))


def attacked(row: dict[str, str]) -> str:
    """What is attacked, by its name in table and figure."""
    budget = "" if row["epsilon"] == "none" else f", epsilon {float(row['epsilon']):g}"
    learned = "" if row["attacker"] == "adapted" else ", by a classifier of plain updates"
    return f"{row['scheme']}{budget}: {row['sees']}{learned}"


def grouped() -> dict[tuple[str, str], dict[str, Rows]]:
    """The repetitions of each attack, by data and property."""
    found: dict[tuple[str, str], dict[str, Rows]] = {}
    for row in read("properties.csv"):
        found.setdefault((row["data"], row["property"]), {}).setdefault(attacked(row), []).append(row)
    return found


def properties() -> str:
    """Mean accuracy, and AUC with the least and the largest of the repetitions."""
    cases = grouped()
    head = ["what is seen", *(f"{data}: {words}" for data, words in cases)]
    body = []
    for name in next(iter(cases.values())):
        cells = []
        for attacks in cases.values():
            auc, right = ([float(row[key]) for row in attacks[name]] for key in ("auc", "accuracy"))
            cells.append(f"{fmean(auc):.2f} ({min(auc):.2f} to {max(auc):.2f}), {100 * fmean(right):.0f} %")
        body.append([name, *cells])
    return table(head, body)


def membership() -> str:
    """Likelihood ratios beside the loss alone."""
    head = ["scheme", "epsilon", "who", "test accuracy", "AUC", "true at 0.1 %", "true at 1 %", "allowed at 1 %"]
    head += ["loss alone: AUC", "true at 0.1 %", "true at 1 %"]
    body = []
    for row in read("membership.csv"):
        epsilon = row["epsilon"] if row["epsilon"] == "none" else f"{float(row['epsilon']):g}"
        allowed = "100 %" if epsilon == "none" else f"{100 * min(1.0, bound(float(epsilon), 0.01)):.1f} %"
        cells = [f"`{row['scheme']}`", epsilon, row["unit"], f"{float(row['accuracy']):.3f}"]
        for attack in ("ratio", "loss"):
            cells.append(f"{float(row[f'{attack}_auc']):.3f}")
            cells += [f"{100 * float(row[f'{attack}_at_{rate}']):.2f} %" for rate in ("0.001", "0.01")]
            cells += [allowed] if attack == "ratio" else []
        body.append(cells)
    return table(head, body)


def bound(epsilon: float, false: float, delta: float = 1e-5) -> float:
    """The largest rate of true alarms that (epsilon, delta) allows at this rate of false ones.

    e^epsilon f + delta, and 1 - e^-epsilon (1 - delta - f): one guarantee read in both directions.
    """
    return min(exp(epsilon) * false + delta, 1 - exp(-epsilon) * (1 - delta - false))


TABLES: dict[str, Callable[[], str]] = {"properties": properties, "membership": membership}


def filled(text: str) -> str:
    """The text with each table between its marks as the results have it."""
    return MARK.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


def draw_properties(path: Path) -> None:
    cases = grouped()
    names = list(next(iter(cases.values())))[::-1]
    figure, panels = plt.subplots(1, len(cases), figsize=(13, 5.5), sharey=True, layout="constrained")
    for axes, ((data, words), attacks) in zip(panels, cases.items(), strict=True):
        for place, name in enumerate(names):
            auc = [float(row["auc"]) for row in attacks[name]]
            open_ = attacks[name][0]["epsilon"] == "none"
            colour = "tab:gray" if "classifier of" in name else "tab:orange" if open_ else "tab:blue"
            axes.plot([min(auc), max(auc)], [place, place], color=colour, alpha=0.5)
            axes.scatter(auc, [place] * len(auc), color=colour, s=10)
        axes.axvline(0.5, color="black", linewidth=0.8, linestyle="--")
        axes.set(xlim=(0.4, 1.02), xlabel="AUC", yticks=range(len(names)), yticklabels=names)
        axes.set_title(f"{data}:\n{words.replace('; ', chr(10)).replace(', or', chr(10) + 'or')}", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
    figure.suptitle(
        "Property inference from one round, five repetitions (orange: no noise, blue: private)", fontsize=11
    )
    figure.savefig(path, dpi=120)


def draw_membership(path: Path) -> None:
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
    styles = {"none": "-", "8.0": "--", "1.0": ":"}
    colours = {"fl-std": "tab:orange", "fl-std-dp": "tab:green", "fl-top-dp": "tab:purple", "hush": "tab:blue"}
    for axes, unit in zip(panels, ("record", "client"), strict=True):
        curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in read("membership-curves.csv"):
            if row["unit"] == unit and float(row["true"]) > 0:
                point = float(row["false"]), float(row["true"])
                curves.setdefault((row["scheme"], row["epsilon"]), []).append(point)
        for (scheme, epsilon), points in curves.items():
            label = scheme if epsilon == "none" else f"{scheme}, epsilon {float(epsilon):g}"
            axes.plot(*zip(*points, strict=True), label=label, color=colours[scheme], linestyle=styles[epsilon])
        axes.plot([1e-3, 1], [1e-3, 1], color="black", linewidth=0.8)
        axes.set(
            xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(5e-4, 1), xlabel="false alarms", title=f"was a {unit} in?"
        )
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("true alarms")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    README.write_text(filled(README.read_text()))
    draw_properties(HERE / "properties.png")
    draw_membership(HERE / "membership.png")


if __name__ == "__main__":
    main()
