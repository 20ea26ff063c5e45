"""A run of many, in a process of its own (hush.models.processes): killed at any moment, the same command goes on."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.errors import Mistake
from hush.experiment import config
from hush.experiment.config import Config
from hush.experiment.report.words import accuracy

if TYPE_CHECKING:
    from hush.experiment.resolving import Experiment

PATIENCE = 600.0  # seconds for an earlier process to finish its round
GONE = "its process ended without a word: run the command again to go on"


def opened(wanted: Config, path: Path, threads: int) -> "Experiment":
    """What a run needs, and its directory, new or to go on with."""
    from hush.experiment import directory
    from hush.experiment.resolving import build

    run, kept = wanted.run.model_copy(update={"workers": threads}), path / "config.toml"
    if kept.exists():  # measured when the run began: measured again it might come out otherwise
        run = run.model_copy(update={"engine": config.read(kept).run.engine})
    built = build(wanted.model_copy(update={"run": run}))
    directory.open_directory(path, built.config, resume=True)
    return built


def executed(built: "Experiment", path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the rounds that are left, once the process of an earlier command has let go of the directory."""
    from hush.experiment import directory

    until = time.monotonic() + PATIENCE
    while True:
        started = False
        try:
            for row in directory.execute(built, path):
                started = True
                yield row
            return
        except Mistake as mistake:
            if started or "in use by another process" not in str(mistake) or time.monotonic() > until:
                raise
            time.sleep(0.5)


def facts(row: dict[str, Any], measure: str | None) -> str:
    """What a bar says of a round: the newest value of this measure, or the best where it was not evaluated."""
    values = (row.get(measure or ""), row.get(f"best_{measure}"))
    found = next((value for value in values if value is not None), None)
    return "" if found is None else f"{measure} {accuracy(found)}"
