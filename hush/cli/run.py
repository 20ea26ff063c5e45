"""hush run: train a scheme, and leave a directory with all about it."""

import json as json_module
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from hush.cli import bars
from hush.cli.audit import ALARM
from hush.cli.bars import bar, facts_of, told
from hush.errors import Mistake, Stopped
from hush.experiment import config, listing
from hush.experiment.settings import SETTINGS, Config
from hush.experiment.trackers import feed

if TYPE_CHECKING:
    from hush.experiment.report.runs import Run

USUAL = 0  # canaries: as many as is usual
WHAT, PRIVACY, TRAINING, FEDERATION, OUTPUT = "What", "Privacy", "Training", "Federation", "Output"


def _option(key: str, panel: str, *names: str, **more: Any) -> Any:
    """The option of a setting, with the help of its declaration."""
    return typer.Option(*names, help=SETTINGS[key].help, rich_help_panel=panel, **more)


def run(
    experiment: Annotated[
        str | None,
        typer.Argument(help="A TOML file, a scheme by name, or file.py:function.", autocompletion=listing.beginning),
    ] = None,
    data: Annotated[str | None, _option("data.name", WHAT)] = None,
    model: Annotated[str | None, _option("model.name", WHAT)] = None,
    ratio: Annotated[float | None, _option("scheme.ratio", WHAT)] = None,
    bits: Annotated[int | None, _option("scheme.bits", WHAT)] = None,
    features: Annotated[str | None, _option("scheme.features", WHAT, metavar="N|FILE.PY:FUNCTION")] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE.KEY=VALUE",
            help="Any other setting, as often as needed; `hush settings` lists them.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    epsilon: Annotated[float | None, _option("scheme.epsilon", PRIVACY)] = None,
    delta: Annotated[float | None, _option("scheme.delta", PRIVACY)] = None,
    noise: Annotated[float | None, _option("scheme.noise", PRIVACY)] = None,
    clip: Annotated[str | None, _option("scheme.clip", PRIVACY)] = None,
    secure: Annotated[str | None, _option("secure.mode", PRIVACY, metavar="[full]")] = None,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Attack the run: a twentieth of the clients (or records) are canaries, and the code is tried. Status 1"
            " if more is shown than is proven.",
            rich_help_panel=PRIVACY,
        ),
    ] = False,
    rounds: Annotated[int | None, _option("run.rounds", TRAINING)] = None,
    rate: Annotated[float | None, _option("train.rate", TRAINING)] = None,
    seed: Annotated[int | None, _option("run.seed", TRAINING)] = None,
    clients: Annotated[int | None, _option("data.clients", FEDERATION)] = None,
    cohort: Annotated[int | None, _option("sampling.cohort", FEDERATION)] = None,
    sampling: Annotated[str | None, _option("sampling.kind", FEDERATION)] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="[local|ADDRESS]",
            help="Train on the workers of a Ray cluster: this machine's, or HOST:PORT. The same bits.",
            rich_help_panel=FEDERATION,
        ),
    ] = None,
    exact: Annotated[bool, _option("run.exact", FEDERATION, "--exact")] = False,
    out: Annotated[
        Path | None, typer.Option(help="The run's directory; runs/NAME by default.", rich_help_panel=OUTPUT)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, or begin it.", rich_help_panel=OUTPUT)
    ] = False,
    same_cpu: Annotated[
        bool,
        typer.Option(
            "--same-cpu", help="Do not --resume where the last bits may come out otherwise.", rich_help_panel=OUTPUT
        ),
    ] = False,
    repeat: Annotated[
        int,
        typer.Option(min=1, help="Run with so many seeds, and show the worst and the best.", rich_help_panel=OUTPUT),
    ] = 1,
    log_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER:PLACE",
            help="Also log to tensorboard:DIR, mlflow:DIR or mlflow:URI, as often as needed.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the last line of the run as JSON.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Train a scheme. Without privacy options, a -dp scheme asks for them."""
    given = config.given(set or [])
    options = {
        key: value
        for key, value in {
            "data.name": config.resolved(data),
            "data.clients": clients,
            "model.name": config.resolved(model),
            "scheme.ratio": ratio,
            "scheme.bits": bits,
            "scheme.features": config.resolved(config.plain(features)),
            "scheme.clip": config.plain(clip),
            "scheme.epsilon": epsilon,
            "scheme.delta": delta,
            "scheme.noise": noise,
            "secure.mode": secure,
            "sampling.kind": sampling,
            "sampling.cohort": cohort,
            "train.rate": rate,
            "run.exact": exact or None,
            "run.rounds": rounds,
            "run.seed": seed,
        }.items()
        if value is not None
    }
    for key in options.keys() & given.keys():
        raise Mistake(f"{key} is given by an option and by --set: give it once")
    options |= given
    if resume and out is None:
        raise Mistake("--resume needs --out, the directory of the run to go on with")
    if same_cpu and not resume:
        raise Mistake("--same-cpu is for a run that goes on: add --resume, or leave it out")
    feed.check(trackers := log_to or [])
    wanted = configured(experiment, options, out if resume else None, audit)
    if resume and out is not None and experiment is not None and not (out / "config.toml").exists():
        Console(stderr=True).print(f"{out} holds no run yet: a new one begins there", style="dim", highlight=False)
    from hush.experiment import audits, own  # torch is slow to import: a wrong option is reported before
    from hush.experiment.report import runs

    own.entry(wanted.scheme.name)
    if cluster is not None:
        _join(cluster, wanted)
    place = out if out is not None else _free(Path("runs"), wanted)
    folders = [place]
    try:
        if repeat == 1:
            _train(wanted, place, resume, same_cpu, cluster, trackers)
        else:
            first = wanted.run.seed
            folders = [place / f"seed-{first + number}" for number in range(repeat)]
            for number, folder in enumerate(folders):
                again = wanted.model_copy(update={"run": wanted.run.model_copy(update={"seed": first + number})})
                _train(again, folder, resume, same_cpu, cluster, trackers, f"{place.name}-{number}")
    except KeyboardInterrupt:
        raise Stopped(f"stopped; the same command goes on with --resume --out {place}") from None
    finished = [runs.read(folder) for folder in folders]
    if json:
        rows = [{**run.last, "path": str(run.path), "warnings": run.warnings} for run in finished]
        print(json_module.dumps(rows[0] if repeat == 1 else {**runs.spread(finished), "runs": rows}))
    else:
        _show(finished, folders, audit)
    if any(audits.alarms(folder) for folder in folders):  # warned of above, and in the JSON
        raise typer.Exit(ALARM)


def _show(finished: "Sequence[Run]", folders: Sequence[Path], audit: bool) -> None:
    """What came out, and where it is."""
    from hush.experiment import audits
    from hush.experiment.report import table

    console = Console()
    console.print(table.summary(finished[0]) if len(finished) == 1 else table.repeated(finished))
    for folder in folders:
        if audit:
            console.print(f"audit: {audits.sentence(folder)}", soft_wrap=True, highlight=False, markup=False)
        console.print(f"page: {folder / 'report.html'}", soft_wrap=True, highlight=False, markup=False)
    warn(Console(stderr=True), list(dict.fromkeys(sentence for run in finished for sentence in run.warnings)))


def warn(notes: Console, sentences: list[str]) -> None:
    """What a specialist would raise an eyebrow at, a line each."""
    for sentence in sentences:
        notes.print(f"warning: {sentence}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def _join(cluster: str, wanted: Config) -> None:
    """Before anything is loaded: a cluster that is not there is reported at once."""
    from hush.experiment.places import join

    notes = Console(stderr=True)
    with notes.status("joining the cluster"):
        number = join(cluster, wanted.run.workers)
    notes.print(f"{number} workers of the cluster {cluster}", style="dim", highlight=False, markup=False)


def _train(
    wanted: Config,
    place: Path,
    resume: bool,
    same_cpu: bool,
    cluster: str | None,
    trackers: list[str],
    name: str | None = None,
) -> None:
    """One run in its directory, and by its name at the trackers, with progress on standard error."""
    from hush.experiment import directory, population
    from hush.experiment.resolving import build
    from hush.experiment.statement import planned

    notes = Console(stderr=True)
    with notes.status("loading the data and resolving the settings") as status:
        built = build(wanted, told(notes, status))
    directory.open_directory(place, built.config, resume)
    if wanted.scheme.ratio is not None and built.config.scheme.ratio is None:  # given to many schemes at once, say
        notes.print(f"{wanted.scheme.name} has no ratio: it is not used", style="dim", highlight=False, markup=False)
    alone = built.config.run.canaries == USUAL and built.canaries is None
    for note in (
        *built.notes,
        *(["too few clients (or records) for canaries: the code is tried alone"] if alone else []),
    ):
        notes.print(note, style="dim", highlight=False, markup=False)
    warn(notes, [*([] if built.data is None else population.odd(built.data)), *planned(built)])

    def say(sentence: str) -> None:
        notes.print(sentence, style="dim", highlight=False, markup=False, soft_wrap=True)

    logged = feed.Feed(trackers, place, name or place.name, built.config, say)
    total, reported = built.config.run.rounds, time.monotonic()
    with bar(notes) as progress:
        task = progress.add_task(short(wanted.scheme.name), total=total, facts="")
        for row in directory.execute(built, place, same_cpu, say, cluster=cluster):
            logged.put(row)
            progress.update(task, completed=row["round"], facts=facts_of(row))
            if (
                not notes.is_terminal and time.monotonic() - reported > bars.EVERY
            ):  # a log has no bar: a line now and then
                notes.print(f"round {row['round']} of {total}  {facts_of(row)}", highlight=False)
                reported = time.monotonic()
        progress.update(task, completed=total)
    logged.close()


def configured(
    experiment: str | None, options: dict[str, Any], resumed: Path | None = None, audit: bool = False
) -> Config:
    """The file or the scheme's name, with the options over it; --resume alone takes the run's own.

    audit: with canaries, as many as the run that is resumed or the file has, or as is usual.
    """
    canaries = None
    if experiment is None:
        if resumed is not None and not (resumed / "config.toml").exists():
            raise Mistake(f"{resumed} holds no run to resume: correct --out, or name a scheme to begin one")
        if resumed is None:
            raise Mistake(
                "name a scheme (`hush schemes` lists them) or a TOML file: hush run hush --epsilon 1 --delta 1e-5"
            )
        base = config.read(resumed / "config.toml")
    elif experiment.endswith(".toml"):
        base = config.read(Path(experiment))
    else:
        base = config.parse({"scheme": {"name": config.resolved(experiment)}}, "scheme")
    if resumed is not None and (resumed / "config.toml").exists():
        before = config.read(resumed / "config.toml").run
        if base.run.engine is None:
            # Measured when the run began: measured again it might come out otherwise, and so would the last bits.
            options = {"run.engine": before.engine, **options}
        canaries = before.canaries
    if audit:
        known = (canaries, base.run.canaries)
        options = {"run.canaries": next((one for one in known if one is not None), USUAL), **options}
    wanted = config.over(base, options, "options")
    if experiment is None and (difference := config.changed(base, wanted)):
        raise Mistake(f"{resumed} holds a run with another configuration, {difference}: choose another --out")
    return wanted


def short(scheme: str) -> str:
    """A name without a path: fedprox-scheme for examples/fedprox.py:scheme."""
    return Path(scheme).name.replace(".py:", "-")


def _free(folder: Path, wanted: Config) -> Path:
    """A directory of its own for each run that has no --out."""
    name = f"{short(wanted.scheme.name)}-{Path(wanted.data.name).name.split('.')[0]}"
    candidates = (folder / (name if n == 1 else f"{name}-{n}") for n in range(1, 10**6))
    return next(path for path in candidates if not path.exists())
