"""hush audit: attacks on a run or a scheme, beside what is proven."""

import json as json_module
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hush.cli.attacks import built, inversion, membership, property_
from hush.cli.bars import counted
from hush.errors import Mistake

if TYPE_CHECKING:
    from hush.experiment.auditing import Audit
    from hush.experiment.resolving import Experiment
    from hush.privacy.facts import Finding

COMMANDS = ("run", "mechanism", "inversion", "property", "membership")
ALARM = 1  # the status of an audit that found something wrong
USUAL: dict[str, Any] = {"noise": None, "clients": 6000, "delta": 1e-5, "seed": 0}  # of trials of a scheme by name

app = typer.Typer(
    help="Attack a run, or a scheme, and set what that shows beside what is proven. `hush audit RUN` audits a run.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("inversion")(inversion)
app.command("property")(property_)
app.command("membership")(membership)
Trials = Annotated[int, typer.Option(min=100, help="Trials with the client, and without; at most 4,000 without noise.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes that run trials; one for each core if not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("run")
def of_run(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    trials: Trials = 20_000,
    canaries: Annotated[
        int | None,
        typer.Option(min=20, help="Train once more with so many canaries, as long as the run took, and count them."),
    ] = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Audit a run: trials of its scheme's own code, and canaries where asked for. The card shows them from then on.

    `hush audit RUN` is short for it. An alarm of an earlier audit stays. Status 1 if there is one.
    """
    experiment = built(run)
    from hush.experiment import audits
    from hush.experiment.auditing import elsewhere
    from hush.experiment.directory import locked

    with locked(run):
        if trials < (known := audits.trials(run)):
            raise Mistake(f"{run} was audited by {known:,} trials, and fewer show less: take --trials {known} or more")
        if canaries is not None and experiment.canaries is not None:
            raise Mistake(f"{run} was trained with canaries, and its card says what they show: leave --canaries out")
        again = None if canaries is None else _again(run, canaries)
        found = _trials(experiment, trials, workers)
        _keep(run, found.findings, found.wrong, found.trials)
        if again is not None:
            _keep(run, elsewhere(_canaries(again)))
        found = replace(found, findings=audits.read(run), wrong=audits.wrong(run))
    _show(run.name, found, json)
    if not json:
        print(f"card: hush privacy card {run} shows this from now on; so does the page, {run / 'report.html'}")


@app.command()
def mechanism(
    scheme: Annotated[str, typer.Argument(metavar="SCHEME|RUN", help="A scheme by name, file.py:function, or a run.")],
    noise: Annotated[float | None, typer.Option(help="Noise multiplier of a scheme by name; 1 if not given.")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="Its registered clients; 6,000 if not given.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of its epsilons; 1e-5 if not given.")] = None,
    trials: Trials = 20_000,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the trials; a run has its own.")] = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Run the worst pair of neighbours through a scheme's own code many times, and see who can distinguish them."""
    if Path(scheme).is_dir():
        if any(one is not None for one in (noise, clients, delta, seed)):
            raise Mistake("a run has its own noise, clients, delta and seed: leave these options out")
        experiment = built(Path(scheme))
        found = _trials(experiment, trials, workers)
    else:
        from hush.experiment.auditing import cores, of_name
        from hush.experiment.config import resolved

        given = {"noise": noise, "clients": clients, "delta": delta, "seed": seed}
        told = USUAL | {name: value for name, value in given.items() if value is not None}
        with counted("trials") as say:
            found = of_name(resolved(scheme), trials=trials, spread=partial(cores, number=workers), say=say, **told)
    _show(scheme, found, json)


def _trials(experiment: "Experiment", trials: int, workers: int | None) -> "Audit":
    from hush.experiment.auditing import cores, of_scheme

    with counted("trials") as say:
        return of_scheme(experiment, trials, partial(cores, number=workers), say)


def _keep(run: Path, found: "Sequence[Finding]", wrong: Sequence[str] = (), trials: int = 0) -> None:
    """Beside the card, at once."""
    from hush.experiment import audits

    try:
        audits.add(run, found, wrong, trials)
    except OSError as error:
        raise Mistake(f"{run} cannot be written ({error.strerror}): make it writable, or work on a copy") from None


def _again(run: Path, count: int) -> "Experiment":
    """The run's experiment with canaries."""
    from hush.experiment import config, federated
    from hush.experiment.resolving import build

    if federated.stored(run) is not None:
        raise Mistake("canaries are simulated, and this run was a federation's: leave --canaries out")
    return build(config.over(config.read(run / "config.toml"), {"run.canaries": count}, "--canaries"))


def _canaries(experiment: "Experiment") -> "list[Finding]":
    """What they show in one training, in a directory of its own."""
    from tempfile import TemporaryDirectory

    from hush.experiment import audits, directory

    with TemporaryDirectory() as folder, counted("training with canaries") as say:
        place = Path(folder) / "run"
        directory.open_directory(place, experiment.config, resume=False)
        for row in directory.execute(experiment, place):
            say(row["round"], experiment.config.run.rounds)
        return [one for one in audits.read(place) if one.attack.startswith(audits.CANARY)]


_MEANING = (
    "Proven and shown are epsilons: the odds of a guess about one client (or record) may grow e^epsilon times."
    " Shown: with this confidence no smaller one can hold; of n trials, about log(n) can be shown at most."
    " A trial is a few rounds in which the client is known to be drawn: its epsilons are not those of a run."
)
_QUIET = "No alarm: no attack shows more than is proven. That is no proof, since a better attack may show more."
_NONE = "Nothing is proven of this scheme, so that nothing that is shown is an alarm."


def _show(name: str, found: "Audit", json: bool) -> None:
    from hush.privacy import findings as written
    from hush.privacy.shown import shown as rounded

    findings, alarms = found.findings, found.alarms
    if json:
        rows = [written.row(one) for one in findings]
        print(json_module.dumps({"of": name, "trials": found.trials, "findings": rows, "alarms": list(alarms)}))
    else:
        trials = f"{found.trials:,} trials with one client (or record), as many without it"
        table = Table(title=f"{name}: what is proven, and what attacks show; {trials}")
        for head in ("attack", "view", "proven", "shown, at least", "confidence", "if"):
            table.add_column(head)
        for one in findings:
            stated = "none" if one.stated is None else rounded(one.stated)
            shown = "no limit" if one.shown == math.inf else written.bound(one.shown)
            style = "bold red" if one.alarm else None
            words = (one.attack, one.view, stated, shown, written.sure(one.confidence), one.assumes or "")
            table.add_row(*words, style=style)
        console = Console()
        console.print(table)
        console.print(_MEANING, highlight=False, markup=False)
        if not alarms:
            proven = any(one.stated is not None for one in findings)
            console.print(_QUIET if proven else _NONE, highlight=False, markup=False)
    for sentence in alarms:
        notes = Console(stderr=True)
        notes.print(f"alarm: {sentence}", style="bold red", highlight=False, markup=False, soft_wrap=True)
    if alarms:
        raise typer.Exit(ALARM)
