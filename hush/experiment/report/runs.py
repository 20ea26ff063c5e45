"""A run as its directory holds it: the resolved configuration and one row per round."""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hush.errors import Mistake

VIEWS = ("model", "server", "colluding", "upload")
CLASSES = ("accuracy", "balanced")  # two ways to say the same of classes
DIRECTIONS = dict.fromkeys(("rmse", "mae", "perplexity", "loss"), False) | dict.fromkeys(
    (*CLASSES, "auroc", "top5", "r2", "macro_auroc", "macro_f1", "token_accuracy"), True
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What was asked (config) and what happened (rounds, oldest first); its privacy card, and what else is known."""

    path: Path
    name: str
    config: dict[str, Any]
    rounds: list[Row]
    card: dict[str, Any] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def scheme(self) -> str:
        """The scheme's name; of a file, the end of its path."""
        return _end(str(self.config["scheme"].get("name", "custom")))

    @property
    def data(self) -> str:
        """The data set's name; of a file, the end of its path."""
        return _end(str(self.config["data"].get("name", "custom")))

    @property
    def total(self) -> int:
        """The rounds that were asked for."""
        return int(self.config["run"]["rounds"])

    @property
    def last(self) -> Row:
        """The newest round; a run without one is refused."""
        if not self.rounds:
            raise Mistake(f"run {self.name!r} has no finished round yet: wait for its first round")
        return self.rounds[-1]

    @property
    def level(self) -> str:
        """Whom the noise protects: a client, or one record of a client."""
        return str(self.last.get("level") or "client")

    @property
    def protects(self) -> str | None:
        """The level of its guarantee; None where it has none."""
        return self.level if any(epsilon(self.last, view) is not None for view in views(self.last)) else None

    @property
    def relation(self) -> str | None:
        """The neighbour relation that its epsilons are for, in words."""
        from hush.privacy.events import relation  # which needs scipy, and `hush --help` does not

        if self.protects == "record":
            return relation(self.config.get("train", {}).get("batches", "poisson"), "record")
        return relation(self.config.get("sampling", {}).get("kind", "poisson")) if self.protects else None

    @property
    def secure(self) -> bool:
        """Whether uploads were added by a secure sum."""
        return self.config.get("secure", {}).get("mode") is not None

    @property
    def turns(self) -> bool:
        """Whether it is public who takes part when."""
        return bool(self.config.get("sampling", {}).get("kind") == "once")

    @property
    def delta(self) -> float | None:
        """The delta beside every epsilon of this run, where the configuration names one."""
        tables = (table for table in self.config.values() if isinstance(table, dict))
        found = (table["delta"] for table in tables if isinstance(table.get("delta"), (int, float)))
        return next(found, None)

    @property
    def warnings(self) -> list[str]:
        """What the card warns of; nothing in a run that was written before cards did."""
        return [str(sentence) for sentence in (self.card or {}).get("warnings", ())]


def _end(name: str) -> str:
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def read(path: Path) -> Run:
    """Read a run's directory; a last line that is cut (a live or killed run) is left out."""
    path = Path(path)
    if not path.is_dir():
        raise Mistake(f"run {str(path)!r} is not a directory: give the directory that `hush run` wrote")
    whole = path.resolve()
    name = f"{whole.parent.name}/{whole.name}" if whole.name.startswith("seed-") else whole.name
    card = _object(path / "privacy.json").get("card")
    if isinstance(card, dict) and (path / "audit.json").exists():
        from hush.experiment import audits  # which writes pages
        from hush.privacy.card import audited

        card = audited(card, audits.read(path), audits.wrong(path))
    return Run(
        path,
        name,
        _config(path / "config.toml"),
        _rounds(path / "rounds.jsonl"),
        card if isinstance(card, dict) else None,
        _object(path / "about.json"),
    )


def repetitions(path: Path) -> list[Path]:
    """The runs of a folder that `hush run --repeat` wrote, or the run itself."""
    found = sorted(path.glob("seed-*/config.toml")) if not (path / "config.toml").exists() else []
    return [one.parent for one in found] or [path]


def until(run: Run, round: int) -> Run:
    """The run as it was after so many rounds, so that runs can be compared at equal ones."""
    if not 1 <= round <= run.last["round"]:
        raise Mistake(
            f"at-round={round} is not among the {run.last['round']} rounds of run {run.name!r}: give a number from 1 to"
            f" {run.last['round']}"
        )
    return replace(run, rounds=[row for row in run.rounds if row["round"] <= round])


def measure(run: Run) -> str:
    """What says how good a run is, as its rounds name it; older ones have classes, two of them where there is an AUROC.

    Before the first evaluation it is the loss.
    """
    found = next((row["measure"] for row in reversed(run.rounds) if row.get("measure")), None)
    if found is not None or any("measure" in row for row in run.rounds):
        return str(found or "loss")
    return "balanced" if any(finite(row.get("auroc")) for row in run.rounds) else "accuracy"


def larger(run: Run, name: str | None = None) -> bool:
    """Whether more of the run's own measure is better, or of the one named."""
    if name is not None and name != measure(run) and name in DIRECTIONS:
        return DIRECTIONS[name]
    return bool(next((row["larger"] for row in reversed(run.rounds) if row.get("larger") is not None), True))


def measures(run: Run) -> tuple[str, ...]:
    """What there is to show of how good a run is, its own measure first."""
    first = measure(run)
    named = [key for row in run.rounds for key in row if key.startswith("best_") and key != "best_round"]
    others = tuple(dict.fromkeys(key.removeprefix("best_") for key in named))
    hidden = (*CLASSES, "top5") if first in CLASSES else ()  # one stands for all; rounds.jsonl has the others
    return (first, *(name for name in others if name != first and name not in hidden and accuracies(run, name)))


def accuracies(run: Run, name: str | None = None) -> list[tuple[int, float]]:
    """(round, value) of the rounds that were evaluated, of the run's own measure or the one named."""
    name = name or measure(run)
    return [(row["round"], row[name]) for row in run.rounds if finite(row.get(name))]


def best(run: Run, name: str | None = None) -> tuple[int, float] | None:
    """The best round by the run's measure, and its value there of this measure or the one named."""
    value = run.last.get(f"best_{name or measure(run)}")
    return (int(run.last["best_round"]), float(value)) if value is not None and finite(value) else None


def spread(several: Sequence[Run]) -> dict[str, dict[str, dict[str, float]]]:
    """Of repeated runs: the worst and the best of each measure, at the last and at the best round."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in dict.fromkeys(name for run in several for name in (*CLASSES, *measures(run))):
        newest = [accuracies(run, name) for run in several]
        ends = {"last": [points[-1] if points else None for points in newest], "best": [best(r, name) for r in several]}
        for end, points in ends.items():
            values = [point[1] for point in points if point is not None]
            if len(values) == len(several):
                low, high = min(values), max(values)
                worst, top = (low, high) if larger(several[0], name) else (high, low)
                found.setdefault(name, {})[end] = {"worst": worst, "best": top}
    return found


def kilobytes(row: Row, way: str, kind: str = "both", statistic: str = "mean") -> float:
    """Bytes per registered client since the start, in kB of 1,000 bytes.

    way: up or down; kind: payload, protocol or both (their means add; their maxima may be
    of different clients, so `both` is for the mean alone).
    """
    kinds = ("payload", "protocol") if kind == "both" else (kind,)
    return float(sum(row["bytes"][way][one][statistic] for one in kinds)) / 1000


def phases(row: Row) -> dict[str, dict[str, dict[str, float]]]:
    """Of each phase of secure sums, up and down: mean and max, in kB per registered client since the start."""
    found = row["bytes"].get("phases", {})
    return {
        phase: {
            way: {statistic: float(ways[way][statistic]) / 1000 for statistic in ("mean", "max")}
            for way in ("up", "down")
        }
        for phase, ways in found.items()
    }


def epsilon(row: Row, view: str) -> float | None:
    """A view's epsilon, or None where there is no guarantee (an infinite epsilon is none)."""
    value = row["epsilon"].get(view)
    return float(value) if finite(value) else None


def views(row: Row) -> tuple[str, ...]:
    """The adversaries that this run states, in the order of their power."""
    return tuple(view for view in VIEWS if view in row["epsilon"])


def finite(value: object) -> bool:
    """Whether this is a number, and one that can be drawn."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def _config(path: Path) -> dict[str, Any]:
    raw = _bytes(path)
    try:
        config = tomllib.loads(raw.decode())
        if not all(isinstance(config[table], Mapping) for table in ("data", "model", "scheme", "run")):
            raise TypeError
        int(config["run"]["rounds"])
    except (ValueError, KeyError, TypeError):
        raise Mistake(
            f"{str(path)!r} is not a run's configuration: it needs the tables data, model, scheme and "
            "run, and run.rounds; run the experiment again"
        ) from None
    return config


def _object(path: Path) -> dict[str, Any]:
    """A JSON object of a run's directory; empty where there is no such file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(_bytes(path))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Mistake(f"{str(path)!r} is damaged: restore it from a copy")
    return found


def _rounds(path: Path) -> list[Row]:
    *lines, tail = _bytes(path).split(b"\n")
    rows = [_row(line, path, number) for number, line in enumerate(lines, 1)]
    try:
        whole = bool(tail.strip()) and isinstance(json.loads(tail), dict)
    except ValueError:
        whole = False
    return [*rows, _row(tail, path, len(lines) + 1)] if whole else rows


def _row(line: bytes, path: Path, number: int) -> Row:
    try:
        row: Row = json.loads(line)
        int(row["round"])
        for key in ("best_round", "measure" if "measure" in row else "best_accuracy"):
            row[key]
        for way in ("up", "down"):
            for statistic in ("mean", "max"):
                kilobytes(row, way, "both", statistic)
        phases(row)
        views(row)
        row["epsilon"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Mistake(
            f"line {number} of {str(path)!r} is not a round's report: the file is damaged, run the experiment again"
        ) from None
    return row


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise Mistake(
            f"run {str(path.parent)!r} has no readable {path.name}: give a directory that `hush run` wrote"
        ) from None
