"""Rows run in parallel, a process for each run: killed at any moment, the same command goes on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hush.errors import Mistake
from hush.experiment import parallel
from hush.experiment.config import Config
from hush.experiment.reproduce import results
from hush.experiment.reproduce.plan import Row
from hush.experiment.reproduce.results import Fact, Result
from hush.models import processes

if TYPE_CHECKING:
    from hush.data.registry import DataSet

QUANTILES = (1, *range(5, 100, 5), 99)
Say = Callable[["Job", str, int, int], None]  # of a job: what it does, and how many rounds of how many are done


@dataclass(frozen=True)
class Job:
    """A row with a seed, and the directory of its run. again: a commit, where a result of another one does not do."""

    row: Row
    seed: int
    runs: Path
    again: str | None = None

    @property
    def name(self) -> str:
        """As the table's row, with the seed."""
        return f"{self.row.name} seed {self.seed}"

    @property
    def path(self) -> Path:
        """Where the run is."""
        setting, name = self.row.key
        return self.runs / setting / "-".join([name, str(self.seed), *([self.again] if self.again else [])])

    @property
    def command(self) -> str:
        """What runs it."""
        seeds = f" --seeds {self.seed + 1}" if self.seed else ""
        name = f'"{self.row.name}"' if " " in self.row.name else self.row.name
        return f"hush reproduce {self.row.table.name} --rows {name}{seeds}"

    def done(self) -> bool:
        """Whether its figures are in the paper's folder."""
        folder, table = self.row.table.paper.folder, self.row.table
        known: Iterator[Result | Fact]
        if table.kind == "run":
            known = (one for one in results.read(folder) if one.complete)
        else:
            known = (one for one in results.facts(folder) if one.measure == table.measure)
        mine = (one for one in known if (one.setting, one.row, one.seed) == (*self.row.key, self.seed))
        return any(self.again in (None, one.commit) for one in mine)


def run(jobs: Sequence[Job], workers: int, say: Say) -> dict[str, str]:
    """Run what is missing, `workers` at a time; the mistakes by job. Each result is written as it comes.

    Rows of several tables with one setting and name are one run.
    """
    left = _together(list({(*job.row.key, job.seed): job for job in jobs if not job.done()}.values()))
    failed: dict[str, str] = {}

    def hear(place: int, message: processes.Message) -> None:
        some = left[place]
        if message[0] == "round":
            say(some[0], *message[1:])
        elif message[0] == "done":
            job = some.pop(0)
            results.add(job.row.table.paper.folder, *message[1:])
            say(job, "done", 1, 1)
        elif message[0] == "facts":
            results.add(some[0].row.table.paper.folder, message[1])
        elif message[0] == "failed":
            failed[some.pop(0).name] = message[1]
        elif message[0] == "gone":
            failed.update({job.name: parallel.GONE for job in some})

    processes.stream([[_order(job) for job in some] for some in left], _steps, workers, hear)
    return failed


def _together(jobs: list[Job]) -> list[list[Job]]:
    """A process for each run; what only needs the data, in one process for each set of it."""
    groups: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        alone = (*job.row.key,) if job.row.table.kind == "run" else (job.row.table.kind, job.row.key[0])
        groups.setdefault((*alone, job.seed), []).append(job)
    return list(groups.values())


@dataclass(frozen=True)
class _Order:
    """What a process needs to know of a job."""

    key: tuple[str, str]
    kind: str
    measure: str
    seed: int
    config: Config
    path: Path
    folder: Path
    command: str
    moves: Config | None  # the configuration whose coordinates are looked at


def _order(job: Job) -> _Order:
    row = job.row
    return _Order(
        row.key,
        row.table.kind,
        row.table.setting.measure,
        job.seed,
        row.config(job.seed),
        job.path,
        row.table.paper.folder,
        job.command,
        _looked(row, job.seed),
    )


def _looked(row: Row, seed: int) -> Config | None:
    """Of a row whose weights are looked at: what the setting's first such row is run with."""
    wanted = row.table.setting.moves
    if row.table.kind != "run" or row.name not in wanted:
        return None
    known = (one for table in row.table.paper.tables for one in table.rows)
    return next(one for one in known if one.key == (row.key[0], wanted[0]) and one.table.kind == "run").config(seed)


def _steps(orders: list[_Order], threads: int) -> Iterator[processes.Message]:
    """In a process of its own."""
    found = cache(_found)
    for order in orders:
        try:
            if order.kind == "run":
                yield from _train(order, threads)
            else:
                yield from _bound(order, found) if order.kind == "clip" else _count(order)
        except Mistake as mistake:
            yield "failed", str(mistake)


def _found(name: str, seed: int) -> "DataSet":
    from hush.experiment import population

    return population.found(name, seed)


def _train(order: _Order, threads: int) -> Iterator[processes.Message]:
    yield "round", "loading the data", 0, 0
    built = parallel.opened(order.config, order.path, threads)
    tree = _tree(order)
    for row in parallel.executed(built, order.path):
        yield "round", parallel.facts(row, order.measure), row["round"], built.config.run.rounds
    if order.moves is not None:
        yield "facts", _moved(order, tree)
    yield "done", *results.of_run(order.path, order.key, order.measure, tree, order.command)


def _moved(order: _Order, tree: str) -> tuple[Fact, ...]:
    """Quantiles, in percent, of how far the weights of a Top-K have moved since the first round."""
    import copy

    import torch
    from safetensors.torch import load_file

    from hush.experiment.resolving import build
    from hush.models.weights import flatten
    from hush.random.seeds import PublicSeed

    assert order.moves is not None
    like = build(order.moves)
    live = like.scheme.coordinates.draw(like.task.problem, PublicSeed(order.seed), 1, None)
    model = copy.deepcopy(like.task.model)
    model.load_state_dict(load_file(order.path / "model.safetensors"))
    moved = (flatten(model) - flatten(like.task.model))[live].abs().double()
    known = torch.quantile(moved, torch.tensor(QUANTILES, dtype=torch.float64) / 100).tolist()
    return tuple(
        Fact(*order.key, order.seed, f"moved {percent}", round(value, 6), tree)
        for percent, value in zip(QUANTILES, known, strict=True)
    )


def _tree(order: _Order) -> str:
    """The commits that computed the run, in order; kept beside it."""
    place, now = order.path / "commits.txt", results.commit(order.folder)
    known = place.read_text().split() if place.exists() else []
    finished = known and (order.path / "model.safetensors").exists()
    if not finished and (not known or known[-1] != now):
        known.append(now)
        place.write_text("\n".join(known) + "\n")
    return " ".join(known)


def _bound(order: _Order, found: "Callable[[str, int], DataSet]") -> Iterator[processes.Message]:
    from hush.experiment.given import Given
    from hush.experiment.resolving import build

    yield "round", "training on the public batch", 0, 0
    known = Given(found(order.config.data.name, order.seed))
    bound = build(order.config, given=known).config.scheme.clip
    assert isinstance(bound, float)
    facts = (Fact(*order.key, order.seed, "clip", round(bound, 5), results.commit(order.folder)),)
    yield "done", facts


def _count(order: _Order) -> Iterator[processes.Message]:
    """Rows of the training or of the test part: by label, and by client."""
    import numpy as np

    from hush.data.records import split
    from hush.data.registry import records, schema_of

    yield "round", "counting rows", 0, 0
    place = schema_of(order.config.data.name)
    if place is None:
        raise Mistake(f"{order.config.data.name} is no set of hospital records: only these have such a table")
    found = records(place[0])
    train, test = split(found, seed=order.seed)
    rows = train if order.key[1] == "train" else test
    _, sizes = np.unique(found.clients[rows.numpy()], return_counts=True)
    positive = int((found.targets[rows] > 0).sum())
    known: dict[str, float] = {"positive": positive, "negative": len(rows) - positive, "total": len(rows)}
    known |= {"min": int(sizes.min()), "max": int(sizes.max())}
    known |= {"mean": round(float(sizes.mean()), 2), "std": round(float(sizes.std()), 2)}
    made = results.commit(order.folder)
    yield "done", tuple(Fact(*order.key, order.seed, measure, float(value), made) for measure, value in known.items())
