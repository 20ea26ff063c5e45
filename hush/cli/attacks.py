"""hush audit inversion, property and membership: attacks on the data behind a run."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from hush.cli.bars import counted
from hush.errors import Mistake

if TYPE_CHECKING:
    from hush.experiment.resolving import Experiment

Run = Annotated[Path, typer.Argument(help="The directory of a run.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def built(run: Path) -> "Experiment":
    """The experiment of a run's directory, which is finished."""
    if not (run / "config.toml").exists():
        raise Mistake(f"{run} holds no run: name the directory of one, or hush audit mechanism SCHEME")
    from hush.experiment.report import runs

    found = runs.read(run)
    if len(found.rounds) < found.total:
        raise Mistake(
            f"{run} has {len(found.rounds)} of {found.total} rounds: let it finish, or go on with hush run --resume"
            f" --out {run}"
        )
    if found.card is None:
        raise Mistake(f"{run} has no card, which says what is proven: restore privacy.json from a copy")
    from hush.experiment import config, federated
    from hush.experiment.fingerprint import unchanged
    from hush.experiment.resolving import build

    wanted = config.read(run / "config.toml")
    with Console(stderr=True).status("loading the data and resolving the settings"):
        made = federated.rebuilt(run, wanted, lambda line: None) or build(wanted)
        unchanged(made, run)
    return made


def inversion(
    run: Run,
    client: Annotated[int, typer.Option(min=0, help="Whose upload is attacked.")] = 0,
    json: Json = False,
) -> None:
    """Reconstruct a client's rows from its upload of the first round. The run's page shows images beside true ones."""
    experiment = built(run)
    from hush.experiment import attacking

    with Console(stderr=True).status("reconstructing"):
        found = attacking.inversion(experiment, client)
    image = found.originals.dim() == 4 and found.originals.shape[1] in (1, 3)
    if image:
        attacking.keep(found, run)
    rows = [{"psnr": psnr, "ssim": ssim} for psnr, ssim in zip(found.psnr, found.ssim, strict=True)]
    if json:
        print(json_module.dumps({"client": client, "rows": rows, "gained": found.gained, "seconds": found.seconds}))
        return
    mean, guess = sum(found.psnr) / len(found.psnr), sum(found.baseline[0]) / len(found.baseline[0])
    print(
        f"client {client}, {len(rows)} rows: {mean:.1f} dB (PSNR); the mean of public rows, which takes no upload, has"
        f" {guess:.1f}. {'Something was learned.' if found.gained > 1 else 'Nothing was learned by this attack.'}"
    )
    if image:
        print(f"picture: {run / attacking.PICTURE}, originals above; the run's page shows it, too")


def property_(
    run: Run,
    label: Annotated[int, typer.Option(help="The property: the client holds a row of this class.")],
    repetitions: Annotated[int, typer.Option(min=1, help="With other rows each time.")] = 5,
    json: Json = False,
) -> None:
    """Infer from what a client sends in the first round, or from a secure sum of 10, whether it holds a class."""
    experiment = built(run)
    from hush.experiment import attacking

    with counted("repetitions") as say:
        found = attacking.property_of_label(experiment, label, repetitions, say)
    aucs, rights = [one.auc for one in found], [one.accuracy for one in found]
    if json:
        print(json_module.dumps({"label": label, "auc": aucs, "accuracy": rights, "chance": found[0].chance}))
        return
    print(
        f"class {label}: right in {100 * sum(rights) / len(rights):.0f} % of clients, where guessing has"
        f" {100 * found[0].chance:.0f} %; AUC {sum(aucs) / len(aucs):.3f}, from {min(aucs):.3f} to {max(aucs):.3f}"
    )


def membership(
    run: Run,
    shadows: Annotated[int, typer.Option(min=6, help="Trainings, each as long as the run; an even number.")] = 8,
    unit: Annotated[str, typer.Option(help="Whose membership: record or client.")] = "record",
    json: Json = False,
) -> None:
    """Was a record, or a client, in the training? By likelihood ratios against models of the run's own scheme."""
    if unit not in ("record", "client"):
        raise Mistake(f"unit={unit} must be record or client")
    experiment = built(run)
    from hush.experiment import attacking

    kind: Literal["record", "client"] = "record" if unit == "record" else "client"
    with counted(f"rounds of {shadows} models") as say:
        found = attacking.membership_of(experiment, shadows, kind, say)
    rates, alone = attacking.Rates.of(found.curve), attacking.Rates.of(found.baseline)
    if json:
        print(json_module.dumps({"unit": unit, "models": shadows, **rates._asdict(), "loss_alone": alone._asdict()}))
        return
    print(
        f"{unit}: AUC {rates.auc:.3f} (loss alone {alone.auc:.3f}); of the members"
        f" {100 * rates.at_one_in_thousand:.2f} % are found where 0.1 % of the others are taken for members, and"
        f" {100 * rates.at_one_in_hundred:.2f} % where 1 % are"
    )
