"""The numbers behind the figures of a page, as the script takes them: columns by round, with the words to show."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from hush.experiment.report import runs, words
from hush.experiment.report.runs import Row, Run
from hush.experiment.report.svg import thin

MOST = 2000  # rounds of a run that a page draws
Column = dict[str, list[Any]]
Table = dict[str, Column]
ROUND = {"key": "round", "name": "round", "short": "Rounds", "whole": True}


def table(run: Run) -> Table:
    """A run's columns: what may stand on the horizontal axis, and what the figures draw."""
    rows, name = _kept(run), runs.measure(run)
    found = {
        "round": _column([row["round"] for row in rows], lambda value: f"round {value:,}"),
        "measure": _column([row.get(name) for row in rows], words.accuracy),
        **{way: _column([runs.kilobytes(row, way) for row in rows], _sent) for way in ("up", "down")},
        **{f"epsilon {view}": _column([runs.epsilon(row, view) for row in rows], words.epsilon) for view in runs.VIEWS},
        **{
            f"length {part}": _column([(row.get("length") or {}).get(part) for row in rows], words.length)
            for part in ("mean", "bound", "noise")
        },
    }
    return {key: column for key, column in found.items() if any(value is not None for value in column["v"])}


def mark(run: Run) -> int | None:
    """The place of the best round in the columns."""
    found = runs.best(run)
    places = [row["round"] for row in _kept(run)]
    return places.index(found[0]) if found is not None and found[0] in places else None


def axes(tables: Sequence[Table], view: str | None) -> list[dict[str, Any]]:
    """What a measure may be drawn against; `view`: whose epsilon, where those of the runs can be compared."""
    found: list[dict[str, Any]] = [
        ROUND,
        {"key": "up", "name": "kB up per client", "short": "kB up", "after": " up per client"},
    ]
    if view is not None and any(f"epsilon {view}" in one for one in tables):
        name = f"epsilon, {view}"
        found.append({"key": f"epsilon {view}", "name": name, "short": "Epsilon", "before": f"{name}: "})
    return found


def view(run: Run) -> str | None:
    """Whose epsilon a measure is drawn against: that of the weakest adversary with one."""
    return next((one for one in runs.views(run.last) if runs.epsilon(run.last, one) is not None), None)


def encoded(tables: Sequence[Table], charts: dict[str, Any]) -> str:
    """For the page."""
    return json.dumps({"tables": list(tables), "charts": charts}, allow_nan=False, separators=(",", ":"))


def _kept(run: Run) -> list[Row]:
    """The rounds that are drawn: not all of a very long run, and the best one always."""
    rows = thin(run.rounds, MOST)
    found = runs.best(run)
    if found is None or len(rows) == len(run.rounds):
        return rows
    return sorted([*rows, *(row for row in run.rounds if row["round"] == found[0] and row not in rows)], key=_number)


def _number(row: Row) -> int:
    return int(row["round"])


def _column(found: list[Any], say: Callable[[Any], str]) -> Column:
    values = [value if runs.finite(value) else None for value in found]
    short = [float(f"{value:.6g}") if isinstance(value, float) else value for value in values]
    return {"v": short, "t": ["" if value is None else say(value) for value in values]}


def _sent(value: float) -> str:
    return f"{words.kB(value)} kB"
