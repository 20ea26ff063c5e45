"""The story in figures, paper dashed and ours solid; each is drawn anew where its points changed.

[figures.X] of tables.toml has a kind:
ratios   a measure against the compression ratio, one line a scheme.
rounds   the measure against the rounds, one line a scheme, a panel for each thing that rows are at (row@thing).
bits     bits that travel up for each weight against p, two-bit's and p of them.
claim    the third paper's epsilon against p.
moves    how far the weights of a Top-K move, as a distribution: one line a row.
"""

import hashlib
import io
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hush.data import files
from hush.experiment.reproduce import results
from hush.experiment.reproduce.plan import Paper, Table, papers
from hush.experiment.reproduce.tables import lines

_VERSION = 1  # another drawing of the same points
Wanted = Mapping[str, Any]


def write(folder: Path) -> list[Path]:
    """Draw every figure whose points changed; those that were drawn."""
    changed = []
    for paper in papers(folder):
        found = tomllib.loads((paper.folder / "tables.toml").read_text()).get("figures", {})
        for name, wanted in found.items():
            path = paper.folder / f"{name}.svg"
            points, draw = _KINDS[wanted.get("kind", "ratios")]
            known = points(paper, wanted)
            digest = hashlib.sha256(f"{_VERSION} {wanted} {known}".encode()).hexdigest()
            if path.exists() and digest in path.read_text():
                continue
            files.write(path, _drawn(draw, wanted, known, digest))
            changed.append(path)
    return changed


def _drawn(draw: Callable[[Any, Wanted, Any], Any], wanted: Wanted, points: Any, digest: str) -> bytes:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "hush"  # the same points, the same file
    figure = draw(plt, wanted, points)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Description": digest})
    plt.close(figure)
    return buffer.getvalue()


def _tables(paper: Paper, wanted: Wanted) -> list[Table]:
    known = {table.name: table for table in paper.tables}
    return [known[name] for name in wanted["tables"]]


Ratios = dict[str, dict[str, list[tuple[float, float, float, float]]]]


def _ratios(paper: Paper, wanted: Wanted) -> list[Ratios]:
    return [_by_scheme(table, wanted["schemes"]) for table in _tables(paper, wanted)]


def _by_scheme(table: Table, schemes: list[str]) -> Ratios:
    """By scheme, for paper and ours: ratio, mean, lowest, highest."""
    found: Ratios = {scheme: {"paper": [], "ours": []} for scheme in schemes}
    for line in lines(table):
        scheme = line.row.scheme
        if scheme not in found:
            continue
        ratio, paper, ours = float(line.row.published["ratio"]), line.paper(table.measure), line.ours(table.measure)
        if paper is not None:
            found[scheme]["paper"].append((ratio, sum(paper) / 2, *paper))
        if ours:
            found[scheme]["ours"].append((ratio, sum(ours) / len(ours), min(ours), max(ours)))
    return {scheme: {kind: sorted(points) for kind, points in both.items()} for scheme, both in found.items()}


def _draw_ratios(plt: Any, wanted: Wanted, points: list[Ratios]) -> Any:
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    colours = plt.get_cmap("tab10")
    for number, scheme in enumerate(wanted["schemes"]):
        for kind, style in (("paper", "--"), ("ours", "-")):
            known = sorted(point for part in points for point in part[scheme][kind])
            if not known:
                continue
            x, mean, low, high = zip(*known, strict=True)
            run = any(part[scheme]["ours"] for part in points)
            label = scheme if kind == "ours" else None if run else f"{scheme} (not run)"
            marks = "o" if kind == "ours" else "" if len(known) > 1 else "x"
            percent = [100 * ratio for ratio in x]
            axes.plot(percent, mean, style, marker=marks, ms=4, color=colours(number), label=label, alpha=0.9)
            if kind == "ours" and any(a < b for a, b in zip(low, high, strict=True)):
                axes.fill_between(percent, low, high, color=colours(number), alpha=0.2, lw=0)
    axes.set_xscale("log")
    axes.set(xlabel="compression ratio, %", ylabel=wanted["label"], title=wanted["title"])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, title="paper dashed, ours solid", title_fontsize=8)
    return figure


Curve = list[tuple[int, float, float, float]]
Rounds = dict[str, dict[str, tuple[float | None, Curve]]]


def _rounds(paper: Paper, wanted: Wanted) -> Rounds:
    """By panel and scheme: what was published, after all rounds, and of ours (round, mean, lowest, highest)."""
    measured: dict[tuple[str, str], dict[int, list[float]]] = {}
    for point in results.curves(paper.folder):
        measured.setdefault((point.setting, point.row), {}).setdefault(point.round, []).append(point.value)
    found: Rounds = {}
    for table in _tables(paper, wanted):
        for line in lines(table):
            known, published = measured.get(line.row.key, {}), line.paper(table.measure)
            curve = [(at, sum(v) / len(v), min(v), max(v)) for at, v in sorted(known.items())]
            panel = found.setdefault(line.row.name.partition("@")[2], {})
            panel[line.row.scheme] = None if published is None else sum(published) / 2, curve
    return found


def _draw_rounds(plt: Any, wanted: Wanted, points: Rounds) -> Any:
    columns = min(2, len(points))
    rows = -(-len(points) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(8, 1 + 3 * rows), layout="constrained", squeeze=False)
    colours = {
        scheme: number for number, scheme in enumerate(dict.fromkeys(s for panel in points.values() for s in panel))
    }
    for axes, (panel, schemes) in zip(grid.flat, points.items(), strict=False):
        for scheme, (published, curve) in schemes.items():
            colour = plt.get_cmap("tab10")(colours[scheme])
            if published is not None:
                axes.axhline(published, ls="--", lw=1, color=colour)
            axes.plot([at for at, *_ in curve], [mean for _, mean, *_ in curve], "-o", ms=3, color=colour, label=scheme)
            if any(low < high for *_, low, high in curve):
                x, _, low, high = zip(*curve, strict=True)
                axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        left = [scheme for scheme, (_, curve) in schemes.items() if not curve]
        note = f"\nno curve: {'all' if len(left) == len(schemes) else ', '.join(left)}" if left else ""
        axes.set_title(panel + note, fontsize=9)
        axes.set(xlabel="aggregations", ylabel=wanted["label"])
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(left) == len(schemes):
            axes.set_xticks([])
        axes.grid(alpha=0.3)
    for axes in grid.flat[len(points) :]:
        axes.set_axis_off()
    title = "paper, after convergence, dashed; ours solid"
    known = grid.flat[0].get_legend_handles_labels()
    figure.legend(*known, loc="outside lower center", ncols=4, frameon=False, fontsize=8, title=title, title_fontsize=8)
    figure.suptitle(wanted["title"], fontsize=11)
    return figure


Lines = dict[str, list[tuple[int, float]]]


def _bits(paper: Paper, wanted: Wanted) -> Lines:
    from hush.catalogue.entries import scheme

    size = 2**16
    sent = {p: scheme("two-bit", precision=p).specs(size)[-1] for p in wanted["precision"]}
    return {
        "two-bit": [(p, round(8 * spec.form.length(spec.size) / size, 3)) for p, spec in sent.items()],
        "others, a number of p bits": [(p, float(p)) for p in wanted["precision"]],
    }


def _claim(paper: Paper, wanted: Wanted) -> Lines:
    from hush.parts.stages.twobit import paper_epsilon

    return {"ln(p/(p-2))": [(p, round(paper_epsilon(p), 6)) for p in wanted["precision"]]}


def _draw_lines(plt: Any, wanted: Wanted, points: Lines) -> Any:
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for name, known in points.items():
        axes.plot(*zip(*known, strict=True), "-", marker="o", ms=4, label=name)
    axes.set(xlabel="p, the bits of a number", ylabel=wanted["label"])
    axes.set_title(wanted["title"], fontsize=10)
    axes.set_xticks(wanted["precision"])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


Moves = dict[str, list[tuple[float, int]]]


def _moves(paper: Paper, wanted: Wanted) -> Moves:
    """By row: how far, and what share of the weights moved no farther, in percent; the mean over seeds."""
    found: dict[str, dict[int, list[float]]] = {name: {} for name in wanted["rows"]}
    for fact in results.facts(paper.folder):
        if fact.setting == wanted["setting"] and fact.row in found and fact.measure.startswith("moved "):
            found[fact.row].setdefault(int(fact.measure.partition(" ")[2]), []).append(fact.value)
    return {
        row: [(sum(values) / len(values), percent) for percent, values in sorted(known.items())]
        for row, known in found.items()
    }


def _draw_moves(plt: Any, wanted: Wanted, points: Moves) -> Any:
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for row, known in points.items():
        axes.plot([far for far, _ in known], [share for _, share in known], label=row if known else f"{row} (not run)")
    axes.set_xscale("log")
    axes.set(xlabel="how far a weight moved", ylabel="% of the Top-K that moved no farther", title=wanted["title"])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


_KINDS: dict[str, tuple[Callable[[Paper, Wanted], Any], Callable[[Any, Wanted, Any], Any]]] = {
    "ratios": (_ratios, _draw_ratios),
    "rounds": (_rounds, _draw_rounds),
    "bits": (_bits, _draw_lines),
    "claim": (_claim, _draw_lines),
    "moves": (_moves, _draw_moves),
}
