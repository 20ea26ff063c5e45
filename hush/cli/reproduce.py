"""hush reproduce: a paper's table, run again, paper beside ours."""

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from hush.cli.bars import bars
from hush.cli.data import Packages, asked
from hush.errors import Mistake, Stopped

if TYPE_CHECKING:
    from hush.experiment.reproduce.tables import Line
    from hush.experiment.reproduce.work import Job

Name = Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table, as u-table1; --list names all.")]
Rows = Annotated[list[str] | None, typer.Option("--rows", help="Rows of it, as fl-top-dp@0.5%; all if left out.")]
Seeds = Annotated[int, typer.Option(min=1, max=1000, help="Runs of each row, with the seeds 0, 1, ...")]
Workers = Annotated[int | None, typer.Option(min=1, max=512, help="Runs at a time; one for each core if left out.")]
Again = Annotated[bool, typer.Option("--again", help="Run rows that have a result of another commit, too.")]
Listed = Annotated[bool, typer.Option("--list", help="Every row: what was published, what was run, what it takes.")]
Tables = Annotated[bool, typer.Option("--tables", help="Write tables and figures of experiments/ anew from results.")]
Out = Annotated[Path, typer.Option("--out", help="Where the runs are kept.")]
Experiments = Annotated[Path | None, typer.Option(help="The folder of experiments; that of the clone if left out.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def reproduce(
    table: Name = None,
    rows: Rows = None,
    seeds: Seeds = 1,
    workers: Workers = None,
    again: Again = False,
    listed: Listed = False,
    tables: Tables = False,
    out: Out = Path("runs/reproduce"),
    experiments: Experiments = None,
    packages: Packages = False,
    json: Json = False,
) -> None:
    """Run the rows of a paper's table that have no result yet, and set paper and ours side by side.

    A run that was stopped or killed goes on with the same command. Results go to results.csv of the paper's folder.
    """
    folder = _folder(experiments)
    if tables:
        if table is not None or listed or rows or again:
            raise Mistake("--tables writes all tables: leave the table, --rows, --again and --list out")
        _write(folder, json)
        return
    if listed:
        if table is None and rows:
            raise Mistake("--rows are those of a table: name it, too, or leave --rows out for all tables")
        _list(folder, table, rows, out, json)
        return
    if table is None:
        raise Mistake("name a table, as u-table1: `hush reproduce --list` has all of them")
    _run(folder, table, rows, seeds, workers, again, out, packages, json)


def _folder(given: Path | None) -> Path:
    if given is not None:
        return given
    clone = Path(__file__).parents[2] / "experiments"
    found = next((folder for folder in (Path("experiments"), clone) if any(folder.glob("*/tables.toml"))), None)
    if found is None:
        raise Mistake(
            "the papers' tables are in the folder experiments of a clone, and an installed package has none:"
            " run this in a clone, or name its folder by --experiments"
        )
    return found


def _run(
    folder: Path,
    name: str,
    names: list[str] | None,
    seeds: int,
    workers: int | None,
    again: bool,
    out: Path,
    packages: bool,
    json: bool,
) -> None:
    import os

    from hush.experiment.reproduce import plan, results, work
    from hush.experiment.reproduce.tables import lines

    found = plan.find(folder, name)
    wanted = plan.chosen(found, names)
    commit = results.commit(found.paper.folder) if again else None
    if commit == "unknown" or (commit and commit.endswith("+")):
        raise Mistake("--again knows a run by the commit that made it: commit what was changed in this clone first")
    jobs = [work.Job(row, seed, out, commit) for seed in range(seeds) for row in wanted]
    missing = [job for job in jobs if not job.done()]
    _fetch(missing, packages)
    try:
        failed = _watched(missing, workers or os.cpu_count() or 1) if missing else {}
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command goes on") from None
    made = lines(found, wanted, out)
    if json:
        print(encoder.dumps({"rows": [line.plain() for line in made], "failed": failed}, allow_nan=False))
    else:
        titles = dict.fromkeys(row.table.title for row in wanted)
        _show(f"{'; '.join(titles)}: {found.measure}", [line.brief() for line in made])
        if len(jobs) > len(missing) and not again:
            print(f"{len(jobs) - len(missing)} of {len(jobs)} had a result before; --again runs them anew")
    if failed:
        first = next(iter(failed))
        more = f" ({len(failed) - 1} more failed)" if len(failed) > 1 else ""
        raise Mistake(f"{first}: {failed[first]}{more}")


def _fetch(jobs: list["Job"], packages: bool) -> None:
    """The known sets that the jobs need and this machine does not have, once and before anything is run."""
    from hush.data.fetch import fetch, ready, say_aloud
    from hush.data.known import SETS

    wanted = [job.row.config(job.seed).data for job in jobs]
    for name in dict.fromkeys(name for data in wanted for name in (data.name, data.public)):
        if name in SETS and not ready(SETS[name]):
            fetch(name, None, say_aloud, (lambda question: True) if packages else asked)


def _watched(jobs: list["Job"], workers: int) -> dict[str, str]:
    """Run the jobs with a bar for each."""
    from hush.experiment.reproduce import work

    with bars(len(jobs)) as say:
        return work.run(jobs, workers, lambda job, *facts: say(job.name, *facts))


def _list(folder: Path, name: str | None, names: list[str] | None, out: Path, json: bool) -> None:
    from hush.experiment.reproduce.plan import chosen, find, papers
    from hush.experiment.reproduce.tables import lines

    wanted = [find(folder, name)] if name else [table for paper in papers(folder) for table in paper.tables]
    found = [line for table in wanted for line in lines(table, chosen(table, names), out)]
    if json:
        print(encoder.dumps({"rows": [line.plain() for line in found]}, allow_nan=False))
        return
    _show("", [_listed(line) for line in found])


def _listed(line: "Line") -> dict[str, str]:
    plain = line.plain()
    numbers = {key: "-" if plain[key] is None else f"{plain[key]:g}" for key in ("paper", "ours")}
    return {
        "table": plain["table"],
        "row": plain["row"],
        "measure": plain["measure"],
        **numbers,
        "seeds": str(len(plain["seeds"])),
        "state": plain["state"],
        "a run takes": _cost(line),
    }


def _cost(line: "Line") -> str:
    """By what this machine has run; else by the result's own run, which was elsewhere."""
    if line.row.table.kind != "run":
        return "seconds"
    for seconds, where in ((line.seconds, ""), (line.elsewhere, ", elsewhere")):
        if seconds is not None:
            return (f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s") + where
    return "not measured"


def _show(title: str, rows: list[dict[str, str]]) -> None:
    heads = list(dict.fromkeys(head for row in rows for head in row))
    table = Table(*(Column(head, no_wrap=True) for head in heads), title=title or None)
    for row in rows:
        table.add_row(*(row.get(head, "-") for head in heads))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)  # a file has no width of its own


def _write(folder: Path, json: bool) -> None:
    from hush.experiment.reproduce import figures, tables

    changed: list[Any] = [*tables.write(folder), *figures.write(folder)]
    if json:
        print(encoder.dumps({"written": [str(path) for path in changed]}))
    else:
        print(
            "\n".join(f"written: {path}" for path in changed) or "all tables and figures are as the results have them"
        )
