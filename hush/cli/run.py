"""hush run: train a scheme, and leave a directory that tells all about it."""

import json as json_module
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status

from hush import config
from hush.config import Config
from hush.errors import Mistake, Stopped
from hush.shown import shown

QUIET = 10.0  # seconds between two lines of progress where there is no terminal
SOON = 2.0  # seconds before the first one, of what comes before the rounds


def run(
    experiment: Annotated[str | None, typer.Argument(help="A TOML file, or the name of a scheme.")] = None,
    data: Annotated[
        str | None, typer.Option(help="A set by name, a schema.toml, an .npz, or file.py:function.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="cnn, mlp, linear, head, or file.py:function.")] = None,
    ratio: Annotated[float | None, typer.Option(help="Fraction of the weights that travels.")] = None,
    clip: Annotated[str | None, typer.Option(help="A number, paper, public or adaptive.")] = None,
    select: Annotated[str | None, typer.Option(help="Top-K by public data or by a noisy vote.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget (model view); needs --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of every epsilon.")] = None,
    noise: Annotated[float | None, typer.Option(help="Noise multiplier; beside --epsilon it must keep to it.")] = None,
    accountant: Annotated[str | None, typer.Option(help="moments, rdp or pld.")] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Whom a round's noise is sized for: model, server, or colluding (with --secure)."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training.")] = None,
    clients: Annotated[int | None, typer.Option(help="Registered clients.")] = None,
    cohort: Annotated[int | None, typer.Option(help="Clients per round (expected, under Poisson).")] = None,
    sampling: Annotated[str | None, typer.Option(help="poisson, fixed, or once: by public turns.")] = None,
    passes: Annotated[int | None, typer.Option(help="Turns of each client, with --sampling once.")] = None,
    partition: Annotated[str | None, typer.Option(help="iid, shards, dirichlet or column.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Dirichlet's alpha.")] = None,
    column: Annotated[str | None, typer.Option(help="The column that names the client.")] = None,
    public: Annotated[str | None, typer.Option(help="The data set of the public batch.")] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate at the clients.")] = None,
    steps: Annotated[int | None, typer.Option(help="Local SGD iterations a round.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over a client's rows a round, instead of --steps.")] = None,
    batch: Annotated[str | None, typer.Option(help="Rows of a local batch, or all.")] = None,
    balance: Annotated[str | None, typer.Option(help="A rare class: none, weights, downsample or rates.")] = None,
    share: Annotated[float | None, typer.Option(help="The public share of the rows with label 1.")] = None,
    batches: Annotated[str | None, typer.Option(help="Batches of records: poisson or fixed.")] = None,
    divisor: Annotated[
        str | None, typer.Option(help="What sums over records are divided by: public or drawn, the batch's own size.")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="The step of a scheme that sends signs.")] = None,
    places: Annotated[int | None, typer.Option(help="Two-bit's p: the bits of a number.")] = None,
    bound: Annotated[float | None, typer.Option(help="Two-bit's m: the largest number that is not cut.")] = None,
    follow: Annotated[bool | None, typer.Option("--follow", help="Two-bit's m follows the mean.")] = None,
    bits: Annotated[int | None, typer.Option(help="Bits per weight, where a scheme lets choose.")] = None,
    secure: Annotated[
        str | None,
        typer.Option(metavar="[full]", help="Secure sum of whole numbers; full: with all masks and messages."),
    ] = None,
    servers: Annotated[int | None, typer.Option(help="Servers of the secure sum: 1, or 2 that do not collude.")] = None,
    loss: Annotated[float | None, typer.Option(help="What rounding for a secure sum may add to the noise.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Parts of an update that fl-cs senses.")] = None,
    momentum: Annotated[float | None, typer.Option(help="What the server's step keeps of the one before.")] = None,
    server_rate: Annotated[float | None, typer.Option(help="The server's rate, beside its momentum.")] = None,
    directions: Annotated[int | None, typer.Option(help="Numbers that a picture becomes, of a house scheme.")] = None,
    order: Annotated[int | None, typer.Option(help="Order of the scattering, 1 or 2, of a house scheme.")] = None,
    down: Annotated[int | None, typer.Option(help="Bits of a weight on its way to the clients: 2, 4, 8, 32.")] = None,
    average: Annotated[float | None, typer.Option(help="What the released model keeps of the one before.")] = None,
    floor: Annotated[int | None, typer.Option(help="Abort a round with a smaller cohort.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Fraction of a cohort that noise against the server does without.")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Largest probability that a drawn client drops out, as you declare it.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the simulation.")] = None,
    eval_every: Annotated[int | None, typer.Option(help="Evaluate every so many rounds.")] = None,
    block: Annotated[int | None, typer.Option(help="Clients trained together.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads that train; one for each core by default.")] = None,
    engine: Annotated[str | None, typer.Option(help="lockstep or vmap; measured if left out.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or another of torch's devices.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory; runs/NAME by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, or begin it.")] = False,
    same_cpu: Annotated[
        bool, typer.Option("--same-cpu", help="Do not --resume where the last bits may come out otherwise.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Run with so many seeds, and tell the worst and the best.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the last line of the run as JSON.")] = False,
) -> None:
    """Train a scheme. Without privacy options, a -dp scheme asks for them."""
    options = {
        ("data", "name"): _resolved_path(data),
        ("data", "clients"): clients,
        ("data", "partition"): partition,
        ("data", "alpha"): alpha,
        ("data", "column"): column,
        ("data", "public"): _resolved_path(public),
        ("model", "name"): _resolved_path(model),
        ("scheme", "ratio"): ratio,
        ("scheme", "clip"): _number(clip, float),
        ("scheme", "select"): select,
        ("scheme", "epsilon"): epsilon,
        ("scheme", "delta"): delta,
        ("scheme", "noise"): noise,
        ("scheme", "accountant"): accountant,
        ("scheme", "against"): against,
        ("train", "rate"): rate,
        ("train", "steps"): steps,
        ("train", "epochs"): epochs,
        ("train", "batch"): _number(batch, int),
        ("train", "balance"): balance,
        ("train", "share"): share,
        ("train", "batches"): batches,
        ("train", "divisor"): divisor,
        ("scheme", "gamma"): gamma,
        ("scheme", "places"): places,
        ("scheme", "bound"): bound,
        ("scheme", "follow"): follow,
        ("scheme", "bits"): bits,
        ("scheme", "chunks"): chunks,
        ("scheme", "momentum"): momentum,
        ("scheme", "server_rate"): server_rate,
        ("scheme", "average"): average,
        ("scheme", "down"): down,
        ("scheme", "directions"): directions,
        ("scheme", "order"): order,
        ("secure", "mode"): secure,
        ("secure", "servers"): servers,
        ("secure", "loss"): loss,
        ("sampling", "kind"): sampling,
        ("sampling", "cohort"): cohort,
        ("sampling", "passes"): passes,
        ("sampling", "floor"): floor,
        ("sampling", "tolerance"): tolerance,
        ("sampling", "dropout"): dropout,
        ("run", "rounds"): rounds,
        ("run", "seed"): seed,
        ("run", "eval_every"): eval_every,
        ("run", "block"): block,
        ("run", "workers"): workers,
        ("run", "engine"): engine,
        ("run", "device"): device,
    }
    if resume and out is None:
        raise Mistake("--resume needs --out, the directory of the run to go on with")
    if same_cpu and not resume:
        raise Mistake("--same-cpu is for a run that goes on: add --resume, or leave it out")
    wanted = _config(experiment, {k: v for k, v in options.items() if v is not None}, out if resume else None)
    from hush import catalogue  # torch is slow to import: a wrong option is told before
    from hush.report import runs, table

    catalogue.entry(wanted.scheme.name)
    place = out if out is not None else _free(Path("runs"), wanted)
    folders = [place]
    try:
        if repeat == 1:
            _train(wanted, place, resume, same_cpu)
        else:
            first = wanted.run.seed
            folders = [place / f"seed-{first + number}" for number in range(repeat)]
            for number, folder in enumerate(folders):
                again = wanted.model_copy(update={"run": wanted.run.model_copy(update={"seed": first + number})})
                _train(again, folder, resume, same_cpu)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; the same command goes on with --resume --out {place}") from None
    finished = [runs.read(folder) for folder in folders]
    if json:
        rows = [{**run.last, "path": str(run.path)} for run in finished]
        print(json_module.dumps(rows[0] if repeat == 1 else {**runs.spread(finished), "runs": rows}))
        return
    console = Console()
    console.print(table.summary(finished[0]) if repeat == 1 else table.repeated(finished))
    for folder in folders:
        console.print(f"page: {folder / 'report.html'}", soft_wrap=True, highlight=False, markup=False)


def _train(wanted: Config, place: Path, resume: bool, same_cpu: bool) -> None:
    """One run in its directory, with progress on standard error."""
    from hush import job
    from hush.experiment import build

    notes = Console(stderr=True)
    with notes.status("loading the data and resolving the settings") as status:
        built = build(wanted, _said(notes, status))
    job.open_directory(place, built.config, resume)
    for note in built.notes:
        notes.print(note, style="dim", highlight=False, markup=False)

    def say(sentence: str) -> None:
        notes.print(sentence, style="dim", highlight=False, markup=False, soft_wrap=True)

    total, told = built.config.run.rounds, time.monotonic()
    with _progress(notes) as progress:
        bar = progress.add_task(wanted.scheme.name, total=total, facts="")
        for row in job.execute(built, place, same_cpu, say):
            progress.update(bar, completed=row["round"], facts=_facts(row))
            if not notes.is_terminal and time.monotonic() - told > QUIET:  # a log has no bar: a line now and then
                notes.print(f"round {row['round']} of {total}  {_facts(row)}", highlight=False)
                told = time.monotonic()
        progress.update(bar, completed=total)


def _config(experiment: str | None, options: dict[tuple[str, str], Any], resumed: Path | None) -> Config:
    """The file or the scheme's name, with the options over it; --resume alone takes the run's own."""
    if experiment is None:
        if resumed is not None and not (resumed / "config.toml").exists():
            raise Mistake(f"{resumed} holds no run to resume: mend --out, or name a scheme to begin one")
        if resumed is None:
            raise Mistake(
                "name a scheme (`hush schemes` lists them) or a TOML file: hush run hush --epsilon 1 --delta 1e-5"
            )
        base = config.read(resumed / "config.toml")
    elif experiment.endswith(".toml"):
        base = config.read(Path(experiment))
    else:
        base = config.parse({"scheme": {"name": experiment}}, "scheme")
    tables = base.model_dump(exclude_unset=True, exclude_none=True)  # a scheme may have rounds of its own
    if resumed is not None and (resumed / "config.toml").exists():
        # Measured when the run began: measured again it might come out otherwise, and so would the last bits.
        tables.setdefault("run", {}).setdefault("engine", config.read(resumed / "config.toml").run.engine)
    for (table, key), value in options.items():
        tables.setdefault(table, {})[key] = value
    if ("scheme", "epsilon") in options and ("scheme", "noise") not in options:
        tables["scheme"].pop("noise", None)
    if ("scheme", "noise") in options and ("scheme", "epsilon") not in options:
        tables["scheme"].pop("epsilon", None)
    return config.parse(tables, "options")


def _number(text: str | None, kind: type[int] | type[float]) -> int | float | str | None:
    """A number where it is one; else the word as it is."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        return text


def _resolved_path(text: str | None) -> str | None:
    return (
        str(Path(text).resolve()) if text is not None and (text.endswith((".npz", ".toml")) or ".py:" in text) else text
    )


def _free(folder: Path, wanted: Config) -> Path:
    """A directory of its own for each run that has no --out."""
    name = f"{wanted.scheme.name}-{Path(wanted.data.name).name.split('.')[0]}"
    candidates = (folder / (name if n == 1 else f"{name}-{n}") for n in range(1, 10**6))
    return next(path for path in candidates if not path.exists())


def _said(notes: Console, status: Status) -> Callable[[str], None]:
    """Says a sentence: on a terminal in place of the one before, in a log as a line now and then."""
    due = time.monotonic() + SOON

    def say(sentence: str) -> None:
        nonlocal due
        if notes.is_terminal:
            status.update(escape(sentence))
        elif time.monotonic() > due:
            notes.print(sentence, highlight=False, markup=False, soft_wrap=True)
            due = time.monotonic() + QUIET

    return say


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
        console=console,
    )


def _facts(row: dict[str, Any]) -> str:
    """What the bar says besides its length."""
    spent = row["epsilon"]["model"]
    words = [f"{row['seconds']:.1f} s/round"]
    if row["best_round"] is not None:
        name = "accuracy" if row["best_auroc"] is None else "balanced"
        words.append(f"{name} {row[name] if row[name] is not None else row[f'best_{name}']:.3f}")
    words.append("no guarantee" if isinstance(spent, str) else f"epsilon {shown(spent)}")
    return "  ".join(words)
