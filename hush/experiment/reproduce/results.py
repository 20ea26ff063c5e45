"""What was measured for the rows, as results.csv, curves.csv and facts.csv keep it beside the published figures."""

import csv
import fcntl
import io
import math
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from hush.data import files
from hush.errors import Mistake
from hush.experiment.report import runs
from hush.experiment.resolving import DELTA
from hush.privacy.ledger import Ledger
from hush.privacy.views import model_epsilon, paper_epsilon

Key = tuple[str, str, int]
ResultKind = TypeVar("ResultKind", "Result", "Point", "Fact")


@dataclass(frozen=True)
class Result:
    """One run of a row.

    `best` is the measure in its best round, as the papers report it, of `evaluated` rounds; `last` that of the last
    round. kB are payload per client, `_best` up to the best round, as the papers count. `epsilon_paper` is the paper's
    count up to the best round, or for the whole run where that round is not known; `epsilon_model` and `epsilon_server`
    hold for the whole run. What is not known of a run is None.
    """

    setting: str
    row: str
    seed: int
    rounds: int
    evaluated: int
    measure: str
    best: float
    round_best: int | None
    last: float
    auroc_best: float | None
    up_kB: float
    down_kB: float | None
    up_kB_best: float | None
    down_kB_best: float | None
    clip: float | None
    epsilon_paper: float | None
    epsilon_model: float | None
    epsilon_server: float | None
    seconds: float | None
    commit: str
    command: str

    @property
    def key(self) -> Key:
        """One result each."""
        return self.setting, self.row, self.seed

    @property
    def complete(self) -> bool:
        """Whether every round was evaluated, as the papers' best rounds are, and it is known which was the best."""
        return self.evaluated >= self.rounds and self.round_best is not None

    def value(self, measure: str) -> float | None:
        """A figure by the name of its column in published.csv."""
        if measure == "up_MB":
            return self.up_kB / 1000
        return self.auroc_best if measure == "auroc" else self.best


@dataclass(frozen=True)
class Point:
    """The measure of a run in one round."""

    setting: str
    row: str
    seed: int
    round: int
    value: float

    @property
    def key(self) -> Key:
        """That of its run."""
        return self.setting, self.row, self.seed


@dataclass(frozen=True)
class Fact:
    """A figure that needs no run: a clipping bound, a count of rows."""

    setting: str
    row: str
    seed: int
    measure: str
    value: float
    commit: str


def read(folder: Path) -> list[Result]:
    """The results of a paper's folder."""
    return _rows(Result, folder / "results.csv")


def facts(folder: Path) -> list[Fact]:
    """The facts of a paper's folder."""
    return _rows(Fact, folder / "facts.csv")


def curves(folder: Path) -> list[Point]:
    """Every round of every run that a paper's folder has."""
    return _rows(Point, folder / "curves.csv")


def add(folder: Path, found: Result | Sequence[Fact], curve: Sequence[Point] = ()) -> None:
    """Put a result and its curve, or the facts of a row, in its place: sorted, one of a kind.

    One process at a time: several commands may run rows of the same paper.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        _add(folder, found, curve)
    finally:
        os.close(held)


def _add(folder: Path, found: Result | Sequence[Fact], curve: Sequence[Point]) -> None:
    if isinstance(found, Result):
        others = (point for point in curves(folder) if point.key != found.key)
        write(folder / "curves.csv", Point, sorted((*others, *curve), key=lambda point: (*point.key, point.round)))
        kept = {one.key: one for one in (*read(folder), found)}
        write(folder / "results.csv", Result, [kept[key] for key in sorted(kept)])
        return
    known = {(one.setting, one.row, one.seed, one.measure): one for one in (*facts(folder), *found)}
    write(folder / "facts.csv", Fact, [known[key] for key in sorted(known)])


def write(path: Path, kind: type[ResultKind], rows: Iterable[ResultKind]) -> None:
    """A CSV file, whole or not at all."""
    text = io.StringIO()
    table = csv.DictWriter(text, [one.name for one in fields(kind)], lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({key: "" if value is None else value for key, value in asdict(row).items()})
    files.write(path, text.getvalue().encode())


def of_run(
    path: Path, row: tuple[str, str], measure: str, commit: str, command: str
) -> tuple[Result, tuple[Point, ...]]:
    """The result of a finished run, and its curve."""
    run = runs.read(path)
    points = runs.accuracies(run, measure)
    best_round, best = max(points, key=lambda point: (point[1], -point[0]))
    at = next(one for one in run.rounds if one["round"] == best_round)
    last, delta = run.last, run.delta or DELTA
    events = Ledger.load(path / "privacy.json").events
    spent = [event for event in events if event.round <= best_round]
    server = last["epsilon"].get("server")
    seed = run.config["run"]["seed"]
    result = Result(
        *row,
        seed=seed,
        rounds=last["round"],
        evaluated=len(points),
        measure=measure,
        best=round(best, 5),
        round_best=best_round,
        last=round(points[-1][1], 5),
        auroc_best=None if at.get("auroc") is None else round(at["auroc"], 5),
        up_kB=_payload(last, "up"),
        down_kB=_payload(last, "down"),
        up_kB_best=_payload(at, "up"),
        down_kB_best=_payload(at, "down"),
        clip=_number(run.config["scheme"].get("clip")),
        epsilon_paper=_up(paper_epsilon(spent, delta)) if spent else None,
        epsilon_model=_up(model_epsilon(events, delta)) if events else None,
        epsilon_server=_up(server) if runs.finite(server) else None,
        seconds=round(sum(one["seconds"] for one in run.rounds), 1),
        commit=commit,
        command=command,
    )
    return result, tuple(Point(*row, seed, number, round(value, 5)) for number, value in points)


def commit(folder: Path) -> str:
    """The tree's commit, with + behind it if code or configurations were changed since; unknown without git."""
    try:
        head = _git(folder, "rev-parse", "--short=7", "HEAD").strip()
        names = (line[3:] for line in _git(folder, "status", "--porcelain", "--untracked-files=no").splitlines())
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + "+" * any(name.endswith((".py", ".toml", "published.csv")) for name in names)


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def _up(epsilon: float) -> float:
    """Four decimals, never below."""
    return math.ceil(epsilon * 10_000 * (1 - 1e-9)) / 10_000


def _payload(row: dict[str, Any], way: str) -> float:
    return round(float(row["bytes"][way]["payload"]["mean"]) / 1000, 2)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _rows(kind: type[ResultKind], path: Path) -> list[ResultKind]:
    if not path.exists():
        return []
    found: list[ResultKind] = []
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        try:
            if table.fieldnames is None:
                raise ValueError("the file is empty")
            found.extend(_typed(kind, line) for line in table)
        except (ValueError, csv.Error) as error:
            raise Mistake(
                f"{path}, line {table.line_num}, is no row of results ({error}): correct it, or take the file that was"
                " committed"
            ) from error
    return found


def _typed(kind: Any, line: dict[str, str]) -> Any:
    """Numbers as numbers, and nothing where there is none."""
    if None in line or None in line.values():  # as csv has it
        raise ValueError("it has more cells than the head, or fewer")
    values: dict[str, Any] = {}
    for one in fields(kind):
        if one.name not in line:
            raise ValueError(f"there is no column {one.name}")
        text, wanted = line[one.name], str(one.type)
        if "str" in wanted:
            values[one.name] = text
        elif text == "" and "None" in wanted:
            values[one.name] = None
        else:
            values[one.name] = int(text) if "int" in wanted else float(text)
    return kind(**values)
