"""Every scheme of the catalogue through its own code: what hush states of a few rounds, and what trials of them show.

python experiments/audit/table.py [--trials 20000] [--workers N]

A scheme that results.csv holds is not run again. `--tables` writes the README's tables alone, those of
onerun.py and cost.py as well.
"""

import argparse
import csv
import math
import re
from functools import partial
from pathlib import Path

import torch
from torch import nn

import hush
from hush.audit.chunks import cores
from hush.audit.mechanism import mechanism
from hush.catalogue.entries import ENTRIES

HERE = Path(__file__).parent
RESULTS, TEXT = HERE / "results.csv", HERE / "README.md"
SIZE = 5390  # weights of a head
COLUMNS = ["scheme", "view", "stated", "counted", "fitted", "trials", "alarms"]
SECURE = ("fl-std-dp", "fl-top-dp", "hush", "hush-once", "hush-trusted")  # also as integers with a secure sum
ONE_RUN, COST = HERE / "onerun.csv", HERE / "cost.csv"
MARK = re.compile(r"(<!-- (table|one run|cost) -->\n).*?(<!-- end -->)", re.DOTALL)


def names() -> list[str]:
    """All schemes that send something, and some of them in integers."""
    sent = [name for name, entry in ENTRIES.items() if not entry.example.baseline]
    return [*sent, *(f"{name}, secure sum" for name in SECURE)]


def made(name: str) -> hush.Scheme:
    """A scheme at a clip bound and a noise multiplier of 1."""
    scheme = ENTRIES[name.removesuffix(", secure sum")].example
    if not name.endswith("secure sum"):
        return scheme
    model = nn.Linear(SIZE // 10, 10, bias=False)
    rows = (torch.zeros(6000, SIZE // 10), torch.zeros(6000, dtype=torch.int64))
    task = hush.Task(model, nn.functional.cross_entropy, rows, [[n] for n in range(6000)])
    return hush.secured(scheme, task)


def audited(name: str, trials: int, workers: int | None = None) -> list[dict[str, object]]:
    """A line for each view."""
    found = mechanism(made(name), size=SIZE, trials=trials, spread=partial(cores, number=workers))
    lines = []
    for one in found.findings:
        if one.attack != "distinguisher":
            continue
        fitted = [two.shown for two in found.findings if (two.attack, two.view) == ("normal fit", one.view)]
        lines.append(
            {
                "scheme": name,
                "view": one.view,
                "stated": "none" if one.stated is None else f"{one.stated:.3f}",
                "counted": f"{math.floor(1000 * one.shown) / 1000:.3f}",
                "fitted": f"{math.floor(1000 * fitted[0]) / 1000:.3f}" if fitted else "",
                "trials": found.trials,
                "alarms": len(found.alarms),
            }
        )
    return lines


def read() -> list[dict[str, str]]:
    """The results so far."""
    if not RESULTS.exists():
        return []
    with RESULTS.open() as file:
        return list(csv.DictReader(file))


def table(rows: list[dict[str, str]]) -> str:
    """In Markdown; schemes with the same figures in every view share a line."""
    figures: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        figures.setdefault(row["scheme"], []).append(
            (row["view"], row["stated"], row["counted"], row["fitted"] or "-", f"{int(row['trials']):,}", row["alarms"])
        )
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, lines in figures.items():
        alike.setdefault(tuple(lines), []).append(name)
    heads = ["schemes", "view", "stated", "shown, counted", "shown, if normal", "trials", "alarms"]
    text = f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n"
    for lines, schemes in alike.items():
        for number, line in enumerate(lines):
            text += f"| {', '.join(schemes) if number == 0 else ''} | {' | '.join(line)} |\n"
    return text


def one_run() -> str:
    """What onerun.py found."""
    heads = ["scheme", "training", "proven", "shown, counted", "shown, if normal", "right guesses", "accuracy", "CPU s"]
    text = f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n"
    with ONE_RUN.open() as file:
        for row in csv.DictReader(file):
            guessed = f"{row['right']} of {row['guesses']}" if row["right"] else ""
            cells = [row["scheme"], row["kind"], row["proven"], row["shown"], row["fitted"], guessed]
            text += f"| {' | '.join(cell or '-' for cell in [*cells, row['accuracy'], row['seconds']])} |\n"
    return text


def cost() -> str:
    """What cost.py measured."""
    heads = ["run", "CPU s", "CPU s with --audit", "more"]
    text = f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n"
    with COST.open() as file:
        for row in csv.DictReader(file):
            more = float(row["audited"]) / float(row["seconds"]) - 1
            text += f"| {row['run']} | {row['seconds']} | {row['audited']} | {100 * more:.0f} % |\n"
    return text


def current() -> str:
    """The README with its tables as the results give them."""
    made = {"table": lambda: table(read()), "one run": one_run, "cost": cost}
    return MARK.sub(lambda found: found[1] + made[found[2]]() + found[3], TEXT.read_text())


def main() -> None:
    """Run what is missing, a line at a time into the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--workers", type=int, help="processes that run trials; one for each core if not given")
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    known = {row["scheme"] for row in read()}
    missing = [] if asked.tables else [name for name in names() if name not in known]
    for name in missing:
        lines, first = audited(name, asked.trials, asked.workers), not RESULTS.exists()
        with RESULTS.open("a") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if first:
                writer.writeheader()
            writer.writerows(lines)
        print(name, *(f"{line['view']} {line['stated']} {line['counted']}" for line in lines), flush=True)
    TEXT.write_text(current())


if __name__ == "__main__":
    main()
