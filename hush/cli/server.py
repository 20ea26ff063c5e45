"""hush server: the coordinator of a real federation."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hush import __version__
from hush.cli.bars import bar, facts_of
from hush.cli.log import logger
from hush.cli.run import configured, short, warn
from hush.cli.signals import stop_once
from hush.errors import Mistake, Stopped
from hush.experiment import config


def server(
    experiment: Annotated[str, typer.Argument(help="A TOML file, or a scheme by name.")],
    kit: Annotated[Path, typer.Option(help="The coordinator's kit: see `hush federation`.")],
    data: Annotated[str | None, typer.Option(help="Test rows of the server: a set, an .npz or a schema.")] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE.KEY=VALUE", help="Any setting, as often as needed; `hush settings` lists them."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory; runs/NAME by default.")] = None,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for each phase of a round.")] = 300.0,
    wait: Annotated[
        float | None, typer.Option(min=0, help="Begin after so many seconds without sites that are missing.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="The member of the roster that is the second server of sums in halves.")
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="A line of JSON for each event.")] = False,
) -> None:
    """Train with the sites of a kit. The same command again goes on with a run that was stopped."""
    from hush.federation.kit import read

    options: dict[str, Any] = config.given(set or [])
    if data is not None:
        options["data.name"] = config.resolved(data)
    wanted = configured(experiment, options)
    own = read(kit)
    if not own.coordinator:
        raise Mistake(f"{kit} is the kit of the site {own.name}: give the coordinator's, or run hush client")
    place = out if out is not None else Path("runs") / f"{short(experiment).removesuffix('.toml')}-federation"
    say = logger("server", log_json)
    stop_once()
    from hush.experiment import server as hosting  # torch is slow to import: a wrong option is reported before
    from hush.experiment.report import runs, table
    from hush.experiment.statement import planned

    notes = Console(stderr=True, quiet=log_json)
    if (place / "model.safetensors").exists():
        raise Mistake(f"the run in {place} is finished: choose another --out for a new one")
    try:
        with hosting.host(wanted, own, place, __version__, say, deadline, wait, second=second) as hosted:
            total = hosted.experiment.config.run.rounds
            say("charter", digest=hosted.charter.digest)
            for note in hosted.experiment.notes:
                notes.print(note, style="dim", highlight=False, markup=False)
            warn(notes, planned(hosted.experiment))
            with bar(notes) as progress:
                shown = progress.add_task(short(wanted.scheme.name), total=total, facts="")
                for row in hosted.rows:
                    progress.update(shown, completed=row["round"], facts=facts_of(row))
                    why = {"aborted": row["reason"]} if row["aborted"] else {}
                    say("round", round=row["round"], of=total, facts=row["reason"] or facts_of(row), **why)
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command goes on with the run") from None
    if not log_json:
        console, finished = Console(), runs.read(place)
        console.print(table.summary(finished))
        console.print(f"page: {place / 'report.html'}", soft_wrap=True, highlight=False, markup=False)
        warn(notes, finished.warnings)
