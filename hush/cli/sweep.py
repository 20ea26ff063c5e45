"""hush sweep: many runs, over a grid or a list of settings, and one table of them."""

import json as encoder
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hush.cli.bars import bars
from hush.errors import Mistake, Stopped

if TYPE_CHECKING:
    from hush.experiment.sweep.plan import Point

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.toml", help="An experiment, with a grid or a list of settings; see examples/sweep.toml."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Where the runs are kept; runs/FILE by default.")]
Workers = Annotated[int | None, typer.Option(min=1, max=512, help="Runs at a time; one for each core if left out.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="[local|ADDRESS]", help="Run on a Ray cluster: this machine's, or HOST:PORT."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def sweep(file: File, out: Out = None, workers: Workers = None, cluster: Cluster = None, json: Json = False) -> None:
    """Run a grid of settings and seeds, several at a time, and leave a table and a figure.

    A sweep that was stopped or killed goes on with the same command; what is finished is not run again.
    """
    from hush.experiment.sweep import plan

    asked = plan.read(file)  # torch is slow to import: a wrong setting is reported before
    plan.check(asked)
    from hush.experiment.sweep import shown, summary, work

    place = out if out is not None else Path("runs") / file.stem
    work.begin(asked, place)
    missing = [point for point in asked.points if not work.done(point, place)]
    try:
        failed = _watched(missing, place, workers, cluster) if missing else {}
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command goes on") from None
    groups = summary.groups(asked, place, [point.name for point in asked.points if point.name not in failed])
    table, figure = place / "sweep.csv", place / "sweep.png"
    if groups:
        summary.write(groups, table)
        shown.figure(asked, groups, figure)
    if json:
        rows = [{**group.plain(), "runs": [str(run.path) for run in group.runs]} for group in groups]
        found = {"rows": rows, "table": str(table), "figure": str(figure), "failed": failed}
        print(encoder.dumps(found, allow_nan=False))
    elif groups:
        console = Console()
        (console if console.is_terminal else Console(width=160)).print(shown.table(asked, groups))
        console.print(f"table: {table}\nfigure: {figure}", markup=False, highlight=False, soft_wrap=True)
    if failed:
        first = next(iter(failed))
        more = f" ({len(failed) - 1} more failed)" if len(failed) > 1 else ""
        raise Mistake(f"{first}: {failed[first]}{more}")


def _watched(missing: list["Point"], place: Path, workers: int | None, cluster: str | None) -> dict[str, str]:
    """Run these, with a bar for each."""
    from hush.experiment.sweep import work

    number = workers or os.cpu_count() or 1
    if cluster is not None:
        from hush.experiment.places import join

        with Console(stderr=True).status("joining the cluster"):
            number = join(cluster, workers)
    with bars(len(missing)) as say:
        return work.run(missing, place, number, cluster is not None, say)
