"""A sweep as a table for the terminal and as a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from hush.experiment.report import runs, words
from hush.experiment.report.runs import finite
from hush.experiment.sweep.plan import Sweep, short, word
from hush.experiment.sweep.summary import Group, Spread


def table(sweep: Sweep, several: Sequence[Group]) -> Table:
    """A row for each combination of the settings that vary: mean over its seeds, and from the worst to the best."""
    names = " or ".join(dict.fromkeys(words.better(group.measure, group.larger) for group in several))
    caption = f"{names} at the last and the best round: mean over the seeds (worst to best); kB per client, mean"
    views = [view for view in runs.VIEWS if any(view in runs.views(group.runs[0].last) for group in several)]
    private = any(group.epsilon(view) is not None for group in several for view in views)
    deltas = ", ".join(dict.fromkeys(words.delta(run.delta) for group in several for run in group.runs))
    caption += f"; epsilon of the worst client and seed, delta {deltas}" if private else ""
    found = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    for key in sweep.varying:
        found.add_column(f"\n{short(key, sweep.varying)}", overflow="fold")
    heads = ("\nseeds", "\nlast", "\nbest", "kB\nup", "kB\ndown", *(f"ε\n{view}" for view in views))
    for head in heads:
        found.add_column(head, justify="right")
    for group in several:
        spent = (
            words.epsilon(group.epsilon(view)) if view in runs.views(group.runs[0].last) else "–" for view in views
        )
        found.add_row(
            *(Text(word(value) if value is not None else "–") for value in group.settings.values()),
            str(len(group.runs)),
            _spread(group.last, group.larger),
            _spread(group.best, group.larger),
            words.kB(group.kilobytes("up")),
            words.kB(group.kilobytes("down")),
            *spent,
        )
    return found


def _spread(found: Spread | None, larger: bool) -> str:
    """The mean, and from the worst to the best."""
    if found is None:
        return "–"
    mean, ends = words.accuracy(found.mean), (found.low, found.high) if larger else (found.high, found.low)
    return mean if found.low == found.high else f"{mean} ({' to '.join(map(words.accuracy, ends))})"


def across(sweep: Sweep) -> str | None:
    """The setting of numbers that varies most, the first of them: the figure's axis. Else the first that varies."""
    values = {key: {point.settings.get(key) for point in sweep.points} for key in sweep.varying}
    numbers = [key for key, found in values.items() if all(finite(one) and not isinstance(one, bool) for one in found)]
    return max(numbers or sweep.varying[:1], key=lambda key: len(values[key]), default=None)


def figure(sweep: Sweep, several: Sequence[Group], out: Path) -> Path:
    """The last value against one setting, a line for each combination of the others."""
    from hush.experiment.report.figure import Line
    from hush.experiment.report.figure import sweep as draw

    axis = across(sweep)
    lines: dict[str, list[tuple[Any, float, float, float]]] = {}
    for group in several:
        others = [f"{short(key, sweep.varying)} {word(value)}" for key, value in group.settings.items() if key != axis]
        place = "" if axis is None else group.settings[axis]
        if group.last is not None:
            lines.setdefault(", ".join(others), []).append((place if finite(place) else word(place), *group.last))
    # Words stay in the order of the file; the points of a line of numbers are joined from left to right.
    drawn = [
        Line(label, tuple(sorted(points) if all(finite(point[0]) for point in points) else points))
        for label, points in lines.items()
    ]
    names = " or ".join(dict.fromkeys(words.better(group.measure, group.larger) for group in several))
    return draw(drawn, "" if axis is None else short(axis, sweep.varying), f"{names}, last round", out)
