"""Runs against each other in one static figure: what a good model costs in bytes and in epsilon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from hush.errors import Mistake
from hush.experiment.report import runs, words
from hush.experiment.report.runs import Run
from hush.experiment.report.table import labels

SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito's colours without the yellow, which is too pale for a line on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
DASHES = ("-", "--", ":", "-.")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e2dd",
    "axes.axisbelow": True,
    "svg.fonttype": "none",
}


def compare(several: Sequence[Run], out: Path, view: str = "model") -> Path:
    """Draw the runs' measure against payload kB up per client and against the epsilon of a view.

    Protocol bytes are shown, too: a ring is at payload and protocol together. Epsilons share an axis where they are of
    one level and one neighbour relation. A run that sends nothing is a level line at its last value: what can be had
    for no bytes.
    """
    if out.suffix.lower() not in SUFFIXES:
        raise Mistake(f"out={str(out)!r} must end in one of {', '.join(SUFFIXES)}: for example compare.png")
    sent = [curve(run, lambda row: runs.kilobytes(row, "up", "payload")) for run in several]
    spent = [curve(run, lambda row: runs.epsilon(row, view)) for run in several]
    groups = {run.relation: run for run, found in zip(several, spent, strict=True) if found and run.relation}
    with rc_context(STYLE):
        count = 1 + len(groups)
        drawn = Figure(figsize=(5.6 * count, 3.9 + 0.2 * len(several)), dpi=150, layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.subplots(1, count, sharey=True, squeeze=False)[0]
        _panel(axes[0], "kB up per client, mean", sent, [level(run) for run in several])
        _rings(axes[0], several, sent)
        for axis, (relation, one) in zip(axes[1:], groups.items(), strict=True):
            mine = [found if run.relation == relation else [] for run, found in zip(several, spent, strict=True)]
            _panel(axis, f"epsilon, {view} view, {one.level} level", mine, [])
            axis.set_title(_title(several, relation, view), fontsize=9, color="#62666e", loc="left")
        names = dict.fromkeys(words.better(runs.measure(run), runs.larger(run)) for run in several)
        axes[0].set_ylabel(" or ".join(names))
        columns = max(1, min(3, len(several), 3 * count // 2))
        drawn.legend(
            handles=[
                axes[0].plot([], [], label=_label(run, name), **_look(number))[0]
                for number, (run, name) in enumerate(zip(several, labels(several), strict=True))
            ],
            loc="outside lower center",
            ncols=columns,
            frameon=False,
        )
        return _saved(drawn, out)


def _title(several: Sequence[Run], relation: str | None, view: str) -> str:
    """The relation and the delta of a panel's runs, and how many runs have no guarantee at all."""
    deltas = ", ".join(dict.fromkeys(words.delta(run.delta) for run in several if run.relation == relation))
    public = sum(runs.epsilon(run.last, view) is None for run in several)
    left = f"; {public} run{'s'[: public > 1]} without a guarantee not shown" if public else ""
    return f"{relation}, delta {deltas}{left}"


def _rings(axis: Any, several: Sequence[Run], sent: Sequence[Sequence[tuple[float, float]]]) -> None:
    """Where each curve would end with its protocol bytes."""
    drawn = False
    for number, (run, found) in enumerate(zip(several, sent, strict=True)):
        both = curve(run, lambda row: runs.kilobytes(row, "up"))
        if found and both[-1][0] > 1.05 * found[-1][0]:
            look = {"color": _look(number)["color"], "linewidth": 0.9}
            axis.plot([found[-1][0], both[-1][0]], [found[-1][1]] * 2, linestyle=":", **look)
            axis.plot(*both[-1], "o", markersize=6, markerfacecolor="white", markeredgecolor=look["color"])
            low, high = axis.get_xlim()
            axis.set_xlim(low, max(high, 1.25 * both[-1][0]))
            drawn = True
    said = "● payload, ○ with protocol" if drawn else "payload; protocol adds less than 5 %"
    axis.set_title(said, fontsize=9, color="#62666e", loc="left")


@dataclass(frozen=True)
class Line:
    """What one line of a sweep's figure shows: (where, mean, smallest, largest) for each of its points."""

    label: str
    points: tuple[tuple[Any, float, float, float], ...]


def sweep(lines: Sequence[Line], across: str, measure: str, out: Path) -> Path:
    """Draw a measure against the setting `across`, with its spread over the seeds; words stand side by side."""
    places = [point[0] for line in lines for point in line.points]
    numbers = all(runs.finite(place) for place in places)
    words_ = list(dict.fromkeys(map(str, places)))
    with rc_context(STYLE):
        drawn = Figure(figsize=(6.4, 4.0 + 0.2 * len(lines)), dpi=150, layout="constrained")
        FigureCanvasAgg(drawn)
        axis: Any = drawn.subplots()
        axis.set_xlabel(_plain(across))
        axis.set_ylabel(measure)
        if numbers and places and min(places) > 0 and max(places) > 20 * min(places):
            _log_axis(axis, min(places), max(places))
        elif not numbers:
            axis.set_xticks(range(len(words_)), [_plain(word) for word in words_])
            axis.margins(x=0.2)
        for number, line in enumerate(lines):
            x = [place if numbers else words_.index(str(place)) for place, *_ in line.points]
            y, low, high = (list(part) for part in zip(*(point[1:] for point in line.points), strict=True))
            errors = [[m - a for m, a in zip(y, low, strict=True)], [b - m for m, b in zip(y, high, strict=True)]]
            look = _look(number) if numbers else {**_look(number), "linestyle": "none"}
            axis.errorbar(x, y, yerr=errors, marker="o", capsize=3, label=_plain(line.label), **look)
        if not lines:
            axis.text(0.5, 0.5, "no round evaluated yet", ha="center", va="center", transform=axis.transAxes)
        if any(line.label for line in lines):
            drawn.legend(loc="outside lower center", ncols=max(1, min(3, len(lines))), frameon=False)
        return _saved(drawn, out)


def _saved(drawn: Figure, out: Path) -> Path:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(out)
    except OSError as error:
        raise Mistake(f"out={str(out)!r} cannot be written ({error.strerror}): give another path") from None
    return out


def curve(run: Run, of: Callable[[runs.Row], float | None]) -> list[tuple[float, float]]:
    """(cost, value) of the evaluated rounds whose cost a log axis can show."""
    name = runs.measure(run)
    found = [(of(row), row[name]) for row in run.rounds if runs.finite(row.get(name))]
    return [(cost, value) for cost, value in found if cost is not None and cost > 0]


def level(run: Run) -> float | None:
    """The last value of a run that sends nothing."""
    found = runs.accuracies(run)
    return found[-1][1] if found and runs.kilobytes(run.last, "up") == 0 else None


def _panel(
    axis: Any, title: str, curves: Sequence[Sequence[tuple[float, float]]], levels: Sequence[float | None]
) -> None:
    axis.set_xlabel(title)
    for number, height in enumerate(levels):
        if height is not None:
            axis.axhline(height, **_look(number))
    costs = [cost for curve in curves for cost, _ in curve]
    if not costs and any(height is not None for height in levels):
        axis.set_xticks([])
        return
    if not costs:
        axis.text(0.5, 0.5, "no round evaluated yet", ha="center", va="center", transform=axis.transAxes)
        return
    low, high = min(costs), max(costs)
    if levels or high > 20 * low:
        _log_axis(axis, low, high)
    for number, curve in enumerate(curves):
        if curve:
            x, y = zip(*curve, strict=True)
            axis.plot(x, y, **_look(number))
            axis.plot(x[-1], y[-1], "o", markersize=6, color=_look(number)["color"])


def _log_axis(axis: Any, low: float, high: float) -> None:
    axis.set_xlabel(f"{axis.get_xlabel()} (log scale)")
    axis.set_xscale("log")
    # At least a factor of four wide, so that a run of one round has ticks around it.
    spread = max(1.25, (4 / (high / low)) ** 0.5)
    axis.set_xlim(low / spread, high * spread)
    wide = high / low > 300
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:.4g}"))
    axis.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0), numticks=20) if wide else NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())


def _look(number: int) -> dict[str, Any]:
    dashes = DASHES[(number // len(COLOURS)) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes, "linewidth": 1.8}


def _label(run: Run, name: str) -> str:
    """The run's name, and its scheme where the name does not say it."""
    return _plain(name if run.scheme in name else f"{name} ({run.scheme})")


def _plain(label: str) -> str:
    # matplotlib reads dollars as formulas and hides labels that begin with an underscore.
    return f" {label}".replace("$", r"\$") if label.startswith("_") else label.replace("$", r"\$")
