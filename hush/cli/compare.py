"""hush compare: a table and a figure of some runs."""

import json as encoder
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hush.errors import Mistake
from hush.experiment.report import runs as read

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Directories that `hush run` wrote.")]
Out = Annotated[Path, typer.Option(help="Where the figure goes: .png, .svg or .pdf.")]
At = Annotated[
    int | None, typer.Option("--at-round", metavar="N", help="Compare the runs as they were after N rounds each.")
]
View = Annotated[str, typer.Option(help="Whose epsilon the figure shows: model, server, colluding or upload.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")]


def compare(
    runs: Runs,
    out: Out = Path("compare.png"),
    at_round: At = None,
    view: View = "model",
    json: Json = False,
) -> None:
    """Set runs side by side: what they protect, their measure against bytes and against epsilon."""
    if view not in read.VIEWS:
        raise Mistake(f"view={view!r} is not known: choose {', '.join(read.VIEWS)}")
    # matplotlib takes half a second to load, and no other command needs it.
    from hush.experiment import verify
    from hush.experiment.report import figure, table

    several = [read.read(path) for folder in runs for path in read.repetitions(folder)]
    for run in several:
        verify.row(run.path, run.last)
    if at_round is not None:
        several = [read.until(run, at_round) for run in several]
        for run in several:
            verify.row(run.path, run.last)
    rows = [line(run) for run in several]
    drawn = figure.compare(several, out, view)
    if json:
        print(encoder.dumps({"runs": rows, "figure": str(drawn)}, allow_nan=False))
        return
    console = Console()
    console.print(table.comparison(several))
    console.print(f"figure: {drawn}", markup=False, highlight=False, soft_wrap=True)


def _newest(run: read.Run, name: str) -> float | None:
    found = read.accuracies(run, name)
    return found[-1][1] if found else None


def line(run: read.Run) -> dict[str, Any]:
    """A run's last state as JSON; its measures are those of the newest evaluated round."""
    last, name = run.last, read.measure(run)
    shown = [*read.CLASSES, "auroc"] if name in read.CLASSES else []
    shown += ["top5"] if read.accuracies(run, "top5") else []
    kept = "accuracy" if name in read.CLASSES else name  # of classes the best round's accuracy, whatever decided
    best = last.get(f"best_{kept}")
    epsilon = {view: read.epsilon(last, view) for view in last["epsilon"]}
    return {
        "name": run.name,
        "scheme": run.scheme,
        "data": run.data,
        "level": run.protects,
        "relation": run.relation,
        "secure": run.secure,
        "round": last["round"],
        "measure": name,
        "larger": read.larger(run),
        **{one: _newest(run, one) for one in dict.fromkeys((*shown, *read.measures(run)))},
        f"best_{kept}": best if read.finite(best) else None,
        "best_round": last["best_round"],
        "bytes": last["bytes"],
        "epsilon": {view: "none" if value is None else value for view, value in epsilon.items()},
    }
