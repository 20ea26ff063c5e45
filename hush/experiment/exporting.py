"""A trained model as a program of torch.export: raw inputs in, outputs out, for machines without hush."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from hush.data import files
from hush.errors import Mistake, first_line
from hush.experiment.model import Model

ABOUT = "hush.json"  # the file in the archive that says what the model takes
NEAR = 1e-3  # of the largest output: how far the program may be from the model, by rounding


class _Whole(nn.Module):
    """The front and the network as one module."""

    def __init__(self, front: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.front, self.network = front, network

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs of raw rows."""
        found: Tensor = self.network(self.front(inputs))
        return found


def export(model: Model, path: Path, like: Tensor) -> None:
    """Write the program (.pt2) for any number of rows; `like` are some raw rows, on which it is held against the model.

    Records go in as dense rows of the model's columns, whose names stand in the archive beside what else is known.
    """
    if path.suffix != ".pt2":
        raise Mistake(f"{path} is no name of a program: end it in .pt2")
    if path.exists():
        raise Mistake(f"{path} exists: choose another name")
    whole = _Whole(model.front.module(), model.network).eval()
    rows = like[:3].clone()
    try:
        with _silence(), torch.no_grad():
            program = torch.export.export(whole, (rows,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
            found = program.module()(like[:2].clone())
            packed = io.BytesIO()
            torch.export.save(program, packed, extra_files={ABOUT: json.dumps(asdict(model.about))})
    except Exception as error:
        what = "features or network" if model.front.about["kind"] == "own" else "network"
        raise Mistake(f"torch.export cannot take this model's {what}: {first_line(error)}") from error
    wanted = model(like[:2])
    if not torch.allclose(found, wanted, atol=NEAR * max(1.0, float(wanted.abs().max()))):
        raise Mistake("torch.export made a program that gives other outputs than the model: use hush.load instead")
    files.write(path, packed.getvalue())


@contextmanager
def _silence() -> Iterator[None]:
    """Without what torch prints and logs of a model that it cannot take: the error says it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def rows_like(model: Model) -> Tensor:
    """Made-up raw rows of the model's shape and type."""
    kind = getattr(torch, model.about.dtype)
    found = torch.rand((4, *model.about.shape), generator=torch.Generator().manual_seed(0))
    return found.to(kind) if kind.is_floating_point else (found * 2).to(kind)
