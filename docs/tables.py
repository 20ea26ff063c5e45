"""Fills the tables of docs/choosing.md from committed results: `make tables` runs it, and a test holds them current."""

import csv
import re
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parent.parent
TEXT = ROOT / "docs" / "choosing.md"
MARK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rows(name: str) -> list[dict[str, str]]:
    """The results of an experiment."""
    with (ROOT / "experiments" / name / "results.csv").open() as file:
        return list(csv.DictReader(file))


def number(value: str, places: int = 3) -> str:
    """A figure as a table shows it; a word, as none, stays."""
    try:
        return f"{float(value):.{places}f}"
    except ValueError:
        return value


def size(value: str) -> str:
    """kB with three digits or more."""
    kilobytes = float(value)
    return f"{kilobytes:.2f}" if kilobytes < 1 else f"{kilobytes:.1f}" if kilobytes < 100 else f"{kilobytes:,.0f}"


def table(head: list[str], body: list[list[str]]) -> str:
    """Rows in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def clients() -> str:
    """Client level at epsilon 1: what to take for what."""
    found = {row["run"]: row for row in rows("frontier")}
    wanted = [
        ("the best accuracy", "`hush --secure`", "hush-secure"),
        ("a guarantee against the server too", "`hush-once --secure`", "hush-once"),
        ("few bytes, and one party may be trusted with the sums", "`hush-trusted --secure`", "hush-trusted"),
        ("the fewest bytes", "`hush-tiny --secure`, two servers", "hush-tiny"),
        ("no secure sum", "`hush`", "hush"),
        ("to move inner weights of a network", "`fl-top-dp`, tuned", "fl-top-dp-ours"),
    ]
    head = ["you want", "take", "accuracy", "kB up: payload", "protocol", "kB down", "epsilon: model", "server"]
    return table(
        head,
        [
            [
                *(what, scheme, number(row["mean"])),
                *(size(row[f"{kind}_kB"]) for kind in ("payload_up", "protocol_up", "payload_down")),
                *(number(row[f"epsilon_{view}"], 2) for view in ("model", "server")),
            ]
            for what, scheme, row in ((what, scheme, found[run]) for what, scheme, run in wanted)
        ],
    )


def budgets() -> str:
    """What other budgets and data come to with the recommended scheme."""
    found = {row["run"]: row for row in rows("frontier")}
    wanted = [
        ("Fashion-MNIST, epsilon 0.5", "hush-epsilon-0.5"),
        ("Fashion-MNIST, epsilon 1", "hush-secure"),
        ("Fashion-MNIST, epsilon 2", "hush-epsilon-2"),
        ("Fashion-MNIST, epsilon 4", "hush-epsilon-4"),
        ("the same at 1, two classes a client", "hush-two-classes"),
        ("MNIST, epsilon 1", "hush-mnist"),
        ("CIFAR-10, epsilon 1", "cifar-hush"),
        ("hospital stays dealt to 2,000 clinics, epsilon 1", "stays-hush"),
    ]
    body = [
        [what, found[run]["metric"], number(found[run]["mean"]), size(found[run]["payload_up_kB"])]
        for what, run in wanted
    ]
    return table(["data and budget", "metric", "value", "kB up"], body)


_VIEWS = {"paper": 2, "model": 1, "server": 1}  # with decimals of their epsilons


def records() -> str:
    """Record level: one bit of each weight, or all of it. Of several seeds the mean, and the largest epsilons."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows("hospitals"):
        scheme, variant = row["row"].partition("@")[0], " " in row["row"]  # batches and divisor of the paper's authors
        if not variant and scheme in ("fl-sign-dp", "fl-standard-dp", "fl-standard", "fl-sign"):
            found.setdefault((row["setting"], row["row"]), []).append(row)
    body = []
    for (data, name), seeds in found.items():
        scheme = f"`{name.partition('@')[0]}`"
        spent = {view: max((one[f"epsilon_{view}"] for one in seeds), key=_size) for view in _VIEWS}
        counted, *holds = (number(spent[view], places) or "none" for view, places in _VIEWS.items())
        auroc, sent = (str(fmean(float(one[name]) for one in seeds)) for name in ("auroc_best", "up_kB"))
        body.append([data, scheme, counted, *holds, number(auroc), size(sent)])
    head = ["data", "scheme", "epsilon as the paper counts", "that holds: model", "server", "AUROC", "kB up"]
    return table(head, body)


def _size(value: str) -> float:
    return float(value or 0)


def compressors() -> str:
    """One task, every way to send less."""
    body = []
    for row in sorted(rows("compressors"), key=lambda row: (row["epsilon_model"], float(row["payload_up_kB"]))):
        body.append(
            [
                *(f"`{row['scheme']}`" + (f", {row['run'][-1]} bits" if row["run"][-1].isdigit() else ""),),
                *(number(row["accuracy_last"]), size(row["payload_up_kB"]), size(row["payload_down_kB"])),
                *(number(row[f"epsilon_{view}"], 2) for view in ("model", "server")),
            ]
        )
    return table(["scheme", "accuracy", "kB up", "kB down", "epsilon: model", "server"], body)


TABLES = {"clients": clients, "budgets": budgets, "records": records, "compressors": compressors}


def filled(text: str) -> str:
    """The text with each table between its marks as the results have it."""
    return MARK.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


if __name__ == "__main__":
    TEXT.write_text(filled(TEXT.read_text()))
