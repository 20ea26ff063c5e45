"""What the runs of a sweep come to: mean and spread over the seeds, by the settings that vary."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hush.data import files
from hush.experiment import verify
from hush.experiment.report import runs
from hush.experiment.report.runs import Run
from hush.experiment.sweep.plan import Sweep, Values, word


class Spread(NamedTuple):
    """Of some runs: the mean, the smallest and the largest."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds alone, and what of their settings varies in the sweep."""

    settings: Values
    runs: tuple[Run, ...]

    @property
    def measure(self) -> str:
        """What says how good they are."""
        return runs.measure(self.runs[0])

    @property
    def larger(self) -> bool:
        """Whether more of it is better."""
        return runs.larger(self.runs[0])

    @property
    def last(self) -> Spread | None:
        """At the last round that was evaluated."""
        found = [runs.accuracies(run) for run in self.runs]
        return spread([points[-1][1] if points else None for points in found])

    @property
    def best(self) -> Spread | None:
        """At the best round of each."""
        found = [runs.best(run) for run in self.runs]
        return spread([None if point is None else point[1] for point in found])

    def kilobytes(self, way: str) -> float:
        """Per registered client, the mean."""
        return math.fsum(runs.kilobytes(run.last, way) for run in self.runs) / len(self.runs)

    def epsilon(self, view: str) -> float | None:
        """The largest of them; None where one has no guarantee."""
        found = [runs.epsilon(run.last, view) for run in self.runs]
        known = [value for value in found if value is not None]
        return max(known) if len(known) == len(found) else None

    def plain(self) -> dict[str, Any]:
        """As a row of a table, in plain values."""
        found: dict[str, Any] = {**self.settings, "seeds": len(self.runs), "measure": self.measure}
        for name, end in (("last", self.last), ("best", self.best)):
            heads = (name, f"{name}_min", f"{name}_max")
            found |= dict(zip(heads, end or (None, None, None), strict=True))
        found |= {f"{way}_kB": self.kilobytes(way) for way in ("up", "down")}
        for view in runs.views(self.runs[0].last):
            value = self.epsilon(view)
            found[f"epsilon_{view}"] = "none" if value is None else value
        return found


def spread(values: Sequence[float | None]) -> Spread | None:
    """Of values that are all known."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Spread(math.fsum(known) / len(known), min(known), max(known))


def groups(sweep: Sweep, out: Path, finished: Sequence[str]) -> list[Group]:
    """The finished runs, in the order of the file; their ledgers are held against what they say."""
    found: dict[tuple[str, ...], tuple[Values, list[Run]]] = {}
    for point in sweep.points:
        if point.name not in finished:
            continue
        run = runs.read(out / point.name)
        verify.row(run.path, run.last)
        settings = {key: point.settings.get(key) for key in sweep.varying}
        key = tuple(f"{name}={word(value)}" for name, value in point.group.items())
        found.setdefault(key, (settings, []))[1].append(run)
    return [Group(settings, tuple(several)) for settings, several in found.values()]


def write(several: Sequence[Group], path: Path) -> None:
    """The table as CSV, with every digit."""
    rows = [group.plain() for group in several]
    heads = list(dict.fromkeys(head for row in rows for head in row))
    stream = io.StringIO()
    table = csv.DictWriter(stream, heads, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    files.write(path, stream.getvalue().encode())
