"""The results as a page: the machine, what it comes to, every contender's times, and how they came about."""

from statistics import median
from typing import Any

from claims import Results, claims, quotient, rss, seconds
from contenders import TITLES
from workload import cnn_flops

NOISY = 0.1  # of a core, by other processes

HOW = """\
Every contender is a process of its own, in an environment of its own, pinned to its cores. All read the same
synthetic data (seeded, float32). Each warms up first (compilation, caches, thread pools), which is not counted. Then
they take turns, A B C, A B C, so that only one computes at any moment and a slow minute of the machine hits all alike.
A turn is one round or several; its time is the mean over its rounds. Seconds and CPU are the median over the turns,
with the least and the greatest. A ratio is the median over the turns of the quotient within a turn. CPU seconds count
every process that a contender started. `others` is how many cores other processes took meanwhile, in the worst turn:
on a quiet machine about 0, and where it is not, the times of two cores mean little. Memory is the peak resident
memory, summed over the contender's processes. Where a library has several documented ways to use the cores, all are
measured and the fastest one counts.

hush's rounds are whole ones, as the caller of `hush.rounds` sees them: drawing the cohort, training, clipping, noise,
counted bytes, ledger, accounting and report. The loop only trains and averages."""


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _spread(values: list[float]) -> str:
    return f"{_number(median(values))} ({_number(min(values))}..{_number(max(values))})"


def peak(results: Results) -> float | None:
    """The best matrix product of the run, in GFLOP/s."""
    found = [turn["gflops"] for one in results.get("cnn", []) for turn in one["turns"] if "gflops" in turn]
    return max(found, default=None)


def _table(suite: str, rows: list[dict[str, Any]], limit: float | None) -> list[str]:
    loop = next((one for one in rows if one["name"] == "loop" and seconds(one)), None)
    speed = limit if suite == "cnn" else None
    head = ["contender", "cores", "seconds per round", "CPU seconds", "rounds/s"]
    head += (
        (["of the loop"] if loop else [])
        + (["of the peak"] if speed else [])
        + ["others", "memory, MB", "turns", "setting"]
    )
    lines = ["", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for one in rows:
        times = seconds(one)
        if not times:  # failed, or not a measurement of time
            continue
        cells = [one["name"], str(one["cores"]), _spread(times), _spread([turn["cpu"] for turn in one["turns"]])]
        cells.append(_number(1 / median(times)))
        if loop:
            cells.append(f"{quotient(one, loop):.3f}")
        if speed:
            cells.append(f"{100 * cnn_flops() / median(times) / 1e9 / speed / one['cores']:.0f} %")
        cells.append(f"{max(turn['others'] for turn in one['turns']):.2f}")
        cells += [_number(rss(one)), f"{len(times)} x {one['rounds']}", one["setting"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines if len(lines) > 3 else []


def _versions(results: Results) -> list[str]:
    found: dict[str, dict[str, str]] = {}
    for rows in results.values():
        for one in rows:
            found.setdefault(one["environment"], {}).update(one.get("versions", {}))
    return [
        f"- {name}: " + ", ".join(f"{package} {number}" for package, number in sorted(packages.items()))
        for name, packages in found.items()
    ]


def page(results: Results, machine: dict[str, str], when: str) -> str:
    """The whole page, in Markdown."""
    limit = peak(results)
    lines = ["# hush against its peers, measured", "", f"One run of `make bench`, {when}.", "", "## The machine", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    if limit:
        floor = cnn_flops() / limit / 1e9
        lines.append(f"- matrix-product peak of one core, in this run: {limit:.1f} GFLOP/s (float32, 1024^3, torch.mm)")
        lines.append(
            f"- a round on the CNN is {cnn_flops() / 1e9:.0f} GFLOP when all weights train: at that peak {floor:.1f} s"
        )
    noisy = sum(turn.get("others", 0) > NOISY for rows in results.values() for one in rows for turn in one["turns"])
    if noisy:
        lines += [
            "",
            f"**In {noisy} turns other processes took more than {NOISY} of a core: repeat on a quiet machine.**",
        ]
    lines += ["", "## What it comes to", "", "| | measured | goal | |", "|---|---|---|---|"]
    for claim in claims(results):
        sign = "at least" if claim.more else "at most"
        mark = "met" if claim.met else "**missed**"
        lines.append(f"| {claim.text} | {claim.value:.3g} {claim.unit} | {sign} {claim.goal:g} | {mark} |")
    for suite, rows in results.items():
        lines += ["", f"## {suite}", "", TITLES[suite], *_table(suite, rows, limit)]
        failed = [f"- {one['key']}: {one['error']}" for one in rows if "error" in one]
        lines += ["", "Failed:", "", *failed] if failed else []
    lines += ["", "## Versions", "", *_versions(results), "", "## How the numbers came about", "", HOW, ""]
    return "\n".join(lines)
