"""The results as a page: for each kind of CPU the machine, what it comes to, every contender's times."""

from statistics import median
from typing import Any

from claims import NOISY, Claim, Result, Results, claims, each, final, pairs, quotients, rss, seconds
from contenders import SUITES, TITLES
from workload import cnn_flops

HOW = f"""\
Every contender is a process of its own, in an environment of its own, pinned to its cores. All read the same
synthetic data (seeded, float32). Each warms up first (compilation, caches, thread pools), which is not counted. Then
they take turns, A B C, A B C, so that only one computes at any moment and a slow minute of the machine hits all alike.
A turn is one round or several, two seconds or more where rounds are alike; its time is the mean over its rounds.
Seconds and CPU are the median over the turns, with the least and the greatest. A ratio is the median over the turns of
the quotient within a turn. CPU seconds count every process that a contender started. Memory is the peak resident
memory, summed over the contender's processes. Where a library has several documented ways to use the cores, all are
measured and the fastest one counts.

`others` is how many cores other processes took meanwhile, in the worst turn. A turn in which they took more than
{NOISY} is repeated a few times, and the quietest attempt counts. Where that was disturbed as well, the numbers of the
contender are *not final*, and a goal is neither met nor missed by them. Bytes are counted, and final always.

hush's rounds are whole ones, as the caller of `hush.rounds` sees them: drawing the cohort, training, clipping, noise,
counted bytes, ledger, accounting and report. The loop only trains and averages. *Before* is hush of the commit that the
suite names, with the same workers, libraries and settings, in turns with this tree's."""


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _spread(values: list[float]) -> str:
    return f"{_number(median(values))} ({_number(min(values))}..{_number(max(values))})"


def _marked(text: str, *results: Result) -> str:
    """With a mark where others disturbed what it was computed from."""
    return text if final(*results) else f"{text}, not final"


def peak(results: Results) -> float | None:
    """The best matrix product of the run, in GFLOP/s."""
    found = [turn["gflops"] for one in results.get("cnn", []) for turn in one["turns"] if "gflops" in turn]
    return max(found, default=None)


def _grid(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table, where it has rows."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return ["", lines[0], "|" + "---|" * len(head), *lines[1:]] if rows else []


def _table(suite: str, rows: list[Result], limit: float | None) -> list[str]:
    loop = next((one for one in rows if one["name"] == "loop" and seconds(one)), None)
    speed = limit if suite == "cnn" else None
    head = ["contender", "cores", "seconds per round", "CPU seconds", "rounds/s"]
    head += (["of the loop"] if loop else []) + (["of the peak"] if speed else [])
    head += ["others", "memory, MB", "turns", "setting"]
    lines = []
    for one in rows:
        times = seconds(one)
        if not times:  # failed, or not a measurement of time
            continue
        cells = [f"{one['name']}{', before' if one.get('before') else ''}", str(one["cores"])]
        cells += [
            _marked(text, one) for text in (_spread(times), _spread(each("cpu")(one)), _number(1 / median(times)))
        ]
        if loop:
            cells.append(_marked(f"{median(quotients(one, loop)):.3f}", one, loop))
        if speed:
            part = 100 * cnn_flops() / median(times) / 1e9 / speed / one["cores"]
            cells.append(_marked(f"{part:.0f} %", one))
        cells.append(f"{max(each('others')(one)):.3f}")
        cells += [_number(rss(one)), f"{len(times)} x {one['rounds']}", one["setting"]]
        lines.append(cells)
    return _grid(head, lines)


def _before(rows: list[Result]) -> list[str]:
    """This tree's numbers as parts of the other commit's."""
    head = ["of before", "cores", "seconds per round", "CPU seconds", "peak memory"]
    lines = []
    for mine, other in pairs(rows):
        parts = [_spread(quotients(mine, other, number)) for number in (seconds, each("cpu"), each("rss"))]
        lines.append([mine["name"], str(mine["cores"]), *(_marked(text, mine, other) for text in parts)])
    return _grid(head, lines)


def _extra(rows: list[Result]) -> list[str]:
    """What some turns have beside their times: bytes of a protocol, CPU of a client and of a server."""
    lines = []
    for one in rows:
        name = f"{one['name']}{', before' if one.get('before') else ''}"
        for what in ("client", "server"):
            if one["turns"] and what in one["turns"][0]:
                lines.append([name, f"CPU seconds of a {what}", _marked(_spread(each(what)(one)), one)])
        for what in (key for key in (one["turns"] or [{}])[0] if key.startswith("kB ")):
            lines.append([name, what, _number(max(each(what)(one)))])
    return _grid(["contender", "number", "measured"], lines)


def _claims(found: list[Claim]) -> list[str]:
    rows = []
    for claim in found:
        spread = "" if claim.spread is None else f" ({_number(claim.spread[0])}..{_number(claim.spread[1])})"
        goal = f"{'at least' if claim.more else 'at most'} {_number(claim.goal)}"
        verdict = claim.verdict if claim.verdict == "met" else f"**{claim.verdict}**"
        rows.append([claim.text, f"{_number(claim.value)}{spread} {claim.unit}", goal, verdict])
    return _grid(["", "measured", "goal", ""], rows)


def _versions(results: Results) -> list[str]:
    found: dict[str, dict[str, str]] = {}
    for rows in results.values():
        for one in rows:
            found.setdefault(one["environment"], {}).update(one.get("versions", {}))
    return [
        f"- {name}: " + ", ".join(f"{package} {number}" for package, number in sorted(packages.items()))
        for name, packages in found.items()
        if packages
    ]


def _when(run: dict[str, Any]) -> str:
    """A suite's run in words."""
    tree = f", tree {run['tree']}" if run["tree"] else ""
    against = f", before: {run['against']}" if run["against"] else ""
    return f"{run['when']}{tree}{against}, {run['turns']} turns, load {run['load']} before it."


def section(known: dict[str, Any]) -> list[str]:
    """All of one kind of CPU."""
    kind, suites = known["kind"], {name: known["suites"][name] for name in SUITES if name in known["suites"]}
    results: Results = {name: run["results"] for name, run in suites.items()}
    limit = peak(results)
    lines = ["", f"## {kind}", "", *(f"- {name}: {value}" for name, value in known["machine"].items())]
    if limit:
        floor = cnn_flops() / limit / 1e9
        lines.append(f"- matrix-product peak of one core, in this run: {limit:.1f} GFLOP/s (float32, 1024^3, torch.mm)")
        lines.append(
            f"- a round on the CNN is {cnn_flops() / 1e9:.0f} GFLOP when all weights train: at that peak {floor:.1f} s"
        )
    lines += _claims(claims(results))
    for suite, run in suites.items():
        rows = run["results"]
        lines += ["", f"### {kind}: {suite}", "", TITLES[suite].format(kind=kind), "", _when(run)]
        lines += [*_table(suite, rows, limit), *_before(rows), *_extra(rows)]
        failed = [f"- {one['key']}: {one['error']}" for one in rows if "error" in one]
        lines += ["", "Failed:", "", *failed] if failed else []
    return [*lines, "", f"### {kind}: versions", "", *_versions(results)]


def page(kinds: list[dict[str, Any]]) -> str:
    """The whole page, in Markdown."""
    lines = ["# hush against its peers, measured", "", "What `make bench` last found on each kind of CPU."]
    for known in kinds:
        lines += section(known)
    return "\n".join([*lines, "", "## How the numbers came about", "", HOW, ""])
