"""hush predict and hush export: use the model that a run has trained."""

import csv
import io
import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

from hush.errors import Mistake

RUN = typer.Argument(help="The directory of a finished run, or its model.safetensors.")


def predict(
    run: Annotated[Path, RUN],
    rows: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="An .npz with x (or x_test), a table by the run's schema, or a data set: its test rows.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="A .csv for the predictions; standard output if not given.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the score and how many rows as JSON.")] = False,
) -> None:
    """Predict rows with the model of a run; where they have labels, say how good it is."""
    if out is not None and out.exists():
        raise Mistake(f"{out} exists: choose another --out")
    from hush.data import files  # torch is slow to import: help answers at once
    from hush.experiment.config import resolved
    from hush.experiment.model import load
    from hush.experiment.predicting import predict as predicted

    found = predicted(load(run), resolved(rows), lambda line: print(line, file=sys.stderr))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(found.table)
    if out is not None:
        files.write(out, text.getvalue().encode())
    elif not json:
        print(text.getvalue(), end="")
    known = {} if found.score is None else {"loss": found.score.loss, **found.score.values}
    known = {key: value for key, value in known.items() if value is not None}
    if json:
        print(json_module.dumps({"rows": len(found.numbers), "left_out": found.left, **known}))
        return
    words = [f"{len(found.numbers)} rows"]
    words += [f"{found.left} left out by the rules of [keep]"] if found.left else []
    words += [f"{name} {value:.4f}" for name, value in known.items() if name != "loss"]
    print(", ".join(words), file=sys.stderr)


def export(
    run: Annotated[Path, RUN],
    file: Annotated[Path, typer.Argument(metavar="FILE.pt2", help="Where the program is written.")],
) -> None:
    """Write the model of a run as a program of torch.export: raw inputs in, outputs out, without hush."""
    from hush.experiment.exporting import export as exported
    from hush.experiment.exporting import rows_like
    from hush.experiment.model import load

    model = load(run)
    exported(model, file, rows_like(model))
    print(f"{file}: takes (rows, {', '.join(map(str, model.about.shape))}), read it with torch.export.load")
