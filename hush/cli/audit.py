"""hush audit: attacks on a run or a scheme, beside what is proven."""

import json as json_module
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hush.cli.attacks import built, inversion, membership, property_
from hush.errors import Mistake

if TYPE_CHECKING:
    from hush.experiment.auditing import Audit, Say
    from hush.experiment.resolving import Experiment
    from hush.privacy.facts import Finding

COMMANDS = ("run", "mechanism", "inversion", "property", "membership")
ALARM = 1  # the status of an audit that found something wrong

app = typer.Typer(
    help="Attack a run, or a scheme, and set what that shows beside what is proven.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("inversion")(inversion)
app.command("property")(property_)
app.command("membership")(membership)
Trials = Annotated[int, typer.Option(min=100, help="Trials in each world, with the client and without it.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("run")
def of_run(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    trials: Trials = 20_000,
    canaries: Annotated[
        int | None,
        typer.Option(min=20, help="Train once more with so many canaries, as long as the run took, and count them."),
    ] = None,
    json: Json = False,
) -> None:
    """Audit a run: trials of its scheme's own code, and canaries where asked for. The card shows them from then on.

    `hush audit RUN` is short for it.
    """
    from hush.experiment import audits
    from hush.experiment.auditing import CANARY

    experiment = built(run)
    found = _trials(experiment, trials)
    kept = [one for one in audits.read(run) if one.attack.startswith(CANARY)]
    if canaries is not None:
        kept = _canaries(run, canaries)
    findings = [*kept, *found.findings]
    audits.write(run, findings, found.wrong)
    _show(run.name, findings, found, json)


@app.command()
def mechanism(
    scheme: Annotated[str, typer.Argument(metavar="SCHEME|RUN", help="A scheme by name, file.py:function, or a run.")],
    noise: Annotated[float | None, typer.Option(help="Noise multiplier of a scheme by name; 1 if not given.")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="Its registered clients; 6,000 if not given.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of its epsilons; 1e-5 if not given.")] = None,
    trials: Trials = 20_000,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the trials; a run has its own.")] = None,
    json: Json = False,
) -> None:
    """Run the worst pair of neighbours through a scheme's own code many times, and see who can distinguish them."""
    if Path(scheme).is_dir():
        if any(one is not None for one in (noise, clients, delta, seed)):
            raise Mistake("a run has its own noise, clients, delta and seed: leave these options out")
        experiment = built(Path(scheme))
        found = _trials(experiment, trials)
    else:
        from hush.experiment.auditing import of_name
        from hush.experiment.config import resolved

        with _progress("trials") as say:
            found = of_name(resolved(scheme), noise or 1.0, clients or 6000, delta or 1e-5, trials, seed or 0, say)
    _show(scheme, found.findings, found, json)


def _trials(experiment: "Experiment", trials: int) -> "Audit":
    from hush.experiment.auditing import of_scheme

    with _progress("trials") as say:
        return of_scheme(experiment, trials, say)


def _canaries(run: Path, count: int) -> "list[Finding]":
    """The findings of the run's training once more, with canaries, in a directory of its own."""
    from tempfile import TemporaryDirectory

    from hush.experiment import audits, config, directory, federated
    from hush.experiment.auditing import CANARY
    from hush.experiment.resolving import build

    if federated.stored(run) is not None:
        raise Mistake("canaries are simulated, and this run was a federation's: leave --canaries out")
    wanted = config.over(config.read(run / "config.toml"), {"run.canaries": count}, "--canaries")
    with TemporaryDirectory() as folder, _progress("training with canaries") as say:
        place = Path(folder) / "run"
        experiment = build(wanted)
        directory.open_directory(place, experiment.config, resume=False)
        for row in directory.execute(experiment, place):
            say(row["round"], wanted.run.rounds)
        return [one for one in audits.read(place) if one.attack.startswith(CANARY)]


@contextmanager
def _progress(what: str) -> "Iterator[Say]":
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(name: str, findings: "Sequence[Finding]", found: "Audit", json: bool) -> None:
    from hush.privacy import findings as written

    others = [one for one in findings if one.alarm and one not in found.findings]
    alarms = [*found.alarms, *(f"{one.attack}: {written.row(one)['meaning']}" for one in others)]
    if json:
        rows = [written.row(one) for one in findings]
        print(json_module.dumps({"of": name, "trials": found.trials, "findings": rows, "alarms": alarms}))
    else:
        table = Table(title=f"{name}: what is proven, and what attacks show; {found.trials:,} trials in each world")
        for head in ("attack", "view", "proven", "shown, at least", "confidence", "if"):
            table.add_column(head)
        for one in findings:
            stated = "none" if one.stated is None else f"{one.stated:.2f}"
            shown = "no limit" if one.shown == math.inf else f"{math.floor(100 * one.shown) / 100:.2f}"
            style = "bold red" if one.alarm else None
            words = (one.attack, one.view, stated, shown, written.sure(one.confidence), one.assumes or "")
            table.add_row(*words, style=style)
        Console().print(table)
    for sentence in alarms:
        notes = Console(stderr=True)
        notes.print(f"alarm: {sentence}", style="bold red", highlight=False, markup=False, soft_wrap=True)
    if alarms:
        raise typer.Exit(ALARM)
