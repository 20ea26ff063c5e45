"""The story in figures: a measure against the compression ratio, one line a scheme, paper dashed and ours solid."""

import hashlib
import io
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush import files
from hush.reproduce.plan import Table, papers
from hush.reproduce.tables import lines

_VERSION = 1  # another drawing of the same points


def write(folder: Path) -> list[Path]:
    """Draw every figure whose points changed; those that were drawn."""
    changed = []
    for paper in papers(folder):
        found = tomllib.loads((paper.folder / "tables.toml").read_text()).get("figures", {})
        known = {table.name: table for table in paper.tables}
        for name, wanted in found.items():
            path = paper.folder / f"{name}.svg"
            points = [_points(known[table], wanted["schemes"]) for table in wanted["tables"]]
            digest = hashlib.sha256(f"{_VERSION} {wanted} {points}".encode()).hexdigest()
            if path.exists() and digest in path.read_text():
                continue
            files.write(path, _drawn(wanted, points, digest))
            changed.append(path)
    return changed


Points = dict[str, dict[str, list[tuple[float, float, float, float]]]]


def _points(table: Table, schemes: list[str]) -> Points:
    """By scheme, for paper and ours: ratio, mean, lowest, highest."""
    found: Points = {scheme: {"paper": [], "ours": []} for scheme in schemes}
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


def _drawn(wanted: Mapping[str, Any], points: list[Points], digest: str) -> bytes:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "hush"  # the same points, the same file
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
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Description": digest})
    plt.close(figure)
    return buffer.getvalue()
