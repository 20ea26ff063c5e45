"""The figures of a run's page: its measure, bytes, epsilon and norms. Each once as SVG, once for the script."""

from collections.abc import Sequence
from html import escape
from typing import Any

from hush.experiment.report import runs, series, svg, words
from hush.experiment.report.runs import Run

Drawn = tuple[str, dict[str, Any]]  # the figures, and what the script draws in them


def all_of(run: Run) -> Drawn:
    """All figures of a run, the measure's first and large."""
    parts = [sent(run), epsilon(run), norms(run)]
    first, chart = accuracy(run)
    return f'{first}<div class="figures">{"".join(one for one, _ in parts)}</div>', chart | {
        name: found for _, charts in parts for name, found in charts.items()
    }


def accuracy(run: Run) -> Drawn:
    """The run's measure in the evaluated rounds, the best one ringed; without scripts also by bytes and epsilon."""
    found, key = runs.accuracies(run), runs.measure(run)
    name, title = words.measure(key), words.title(key)
    if not found:
        return figure(title, "No round has been evaluated yet."), {}
    best = runs.best(run) or found[-1]
    ends = f"last {words.accuracy(found[-1][1])}, best {words.accuracy(best[1])} at round {best[0]}"
    table, view = series.table(run), series.view(run)
    axes = series.axes([table], view)
    drawn = [_against(table, key, axis, best[0], f"{title} against {{}}: {ends}") for axis in axes]
    others = "".join(drawn[1:])
    note = f"On the test rows. The ring marks the best round, {best[0]:,}."
    made = figure(title, note, drawn[0], "measure", tall=True)
    lines = [{"name": "test set", "of": 0, "y": "measure", "mark": series.mark(run)}]
    chart = {"unit": name, "axes": axes, "lines": lines}
    return made + (f'<noscript><div class="figures">{others}</div></noscript>' if others else ""), {"measure": chart}


def _against(table: series.Table, key: str, axis: dict[str, Any], best: int, label: str) -> str:
    across, values, rounds = table[axis["key"]]["v"], table["measure"]["v"], table["round"]["v"]
    points = [(x, y) for x, y in zip(across, values, strict=True) if x is not None and y is not None]
    mark = next(
        ((x, y) for x, y, n in zip(across, values, rounds, strict=True) if n == best and None not in (x, y)), None
    )
    heights = [y for _, y in points]
    if not points:
        return ""
    word = "rounds" if axis["key"] == "round" else axis["name"]
    line = svg.Line("test set", points, mark)
    unit = words.measure(key)
    scale = svg.linear(min(heights), max(heights))
    return svg.chart([line], scale, words.accuracy, label.format(word), unit, axis["name"])


def sent(run: Run) -> Drawn:
    """Kilobytes per client, up and down."""
    lines = [svg.Line(way, [(row["round"], runs.kilobytes(row, way)) for row in run.rounds]) for way in ("up", "down")]
    most = max(y for line in lines for _, y in line.points)
    label = "Kilobytes per client against rounds: " + ", ".join(
        f"{line.name} {words.kB(line.points[-1][1])}" for line in lines
    )
    drawn = svg.chart(lines, svg.linear(0, most or 1), lambda value: f"{words.kB(value)} kB", label, "kB per client")
    note = "Sum since the start, payload and protocol, mean over all clients. 1 kB = 1,000 bytes."
    chart = _chart("kB per client", [("up", "up"), ("down", "down")], zero=True)
    return figure("Bytes per client", note, drawn, "bytes"), {"bytes": chart}


def epsilon(run: Run) -> Drawn:
    """Epsilon of the worst client per adversary, or the word none."""
    lines = [
        svg.Line(
            view,
            [(row["round"], value) for row in run.rounds if (value := runs.epsilon(row, view)) is not None],
        )
        for view in runs.views(run.last)
    ]
    lines = [line for line in lines if line.points]
    if not lines:
        return figure("Epsilon", "none: this scheme has no differential privacy guarantee."), {}
    label = "Epsilon against rounds: " + ", ".join(
        f"{view} {words.epsilon(runs.epsilon(run.last, view))}" for view in runs.views(run.last)
    )
    axis, unit, log, lines = _scaled(lines, "epsilon")
    drawn = svg.chart(lines, axis, words.epsilon, label, unit)
    note = f"Of the worst client, per adversary, at δ = {words.delta(run.delta)}."
    chart = _chart(unit, [(line.name, f"epsilon {line.name}") for line in lines], zero=True, log=log)
    return figure("Epsilon", note, drawn, "epsilon"), {"epsilon": chart}


def norms(run: Run) -> Drawn:
    """The norm of the released mean beside the bound on each client's part of it, where clients are bounded."""
    names = {"mean": "mean", "bound": "clip bound", "noise": "noise"}
    lines = [
        svg.Line(name, [(row["round"], value) for row in run.rounds if runs.finite(value := _length(row, key))])
        for key, name in names.items()
    ]
    if not lines[0].points:
        return "", {}
    shown = [(name, f"length {key}") for (key, name), line in zip(names.items(), lines, strict=True) if line.points]
    lines = [line for line in lines if line.points]
    label = "Norms against rounds: " + ", ".join(f"{line.name} {words.length(line.points[-1][1])}" for line in lines)
    axis, unit, log, lines = _scaled(lines, "norm")
    drawn = svg.chart(lines, axis, words.length, label, unit)
    note = "The released mean, the bound on each client's update" + (
        ", and about what noise alone would be." if len(lines) > 2 else "."
    )
    return figure("Norms", note, drawn, "norms"), {"norms": _chart(unit, shown, zero=True, log=log)}


def figure(title: str, note: str, drawn: str = "", name: str = "", tall: bool = False) -> str:
    """A figure with its caption; by its name the script finds what to draw."""
    plot = f'<div class="plot{" tall" if tall else ""}">{drawn}</div>' if drawn else ""
    known = f' data-chart="{name}"' if drawn and name else ""
    caption = f"<figcaption><h3>{escape(title)}</h3><p>{escape(note)}</p></figcaption>"
    return f"<figure{known}>{caption}{plot}</figure>"


def _length(row: runs.Row, key: str) -> Any:
    found = row.get("length")
    return found.get(key) if isinstance(found, dict) else None


def _scaled(lines: Sequence[svg.Line], name: str) -> tuple[svg.Axis, str, bool, list[svg.Line]]:
    """A linear axis from 0, or a logarithmic one where that would lay the smaller lines flat on the floor."""
    values = [y for line in lines for _, y in line.points]
    above = [value for value in values if value > 0]
    if above and max(above) > 8 * min(above):
        kept = [svg.Line(line.name, [(x, y) for x, y in line.points if y > 0]) for line in lines]
        return svg.logarithmic(min(above), max(above)), f"{name}, log scale", True, kept
    return svg.linear(0, max(values) or 1), name, False, list(lines)


def _chart(unit: str, lines: Sequence[tuple[str, str]], zero: bool = False, log: bool = False) -> dict[str, Any]:
    drawn = [{"name": name, "of": 0, "y": key} for name, key in lines]
    return {"unit": unit, "axes": [series.ROUND], "lines": drawn, "zero": zero, "log": log}
