"""What a run writes down while it goes on: a line for each round, and now and then checkpoint, card and page."""

import hashlib
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hush.core.state import State
from hush.data import files
from hush.errors import Mistake
from hush.experiment import about, checkpoint
from hush.experiment.outcome import Outcome, outcome
from hush.experiment.report import page
from hush.experiment.resolving import Experiment
from hush.experiment.statement import facts
from hush.privacy.card import card
from hush.privacy.ledger import Ledger

Row = dict[str, Any]
CHECKPOINT = Path("checkpoint") / "state.safetensors"
# Seconds between two checkpoints, and times what one took, at least: a killed run repeats the rest.
REST, SHARE = 2.0, 20


class Log:
    """rounds.jsonl: the rows that the checkpoint vouches for; later ones are dropped and run again."""

    def __init__(self, path: Path, digest: str = hashlib.sha256().hexdigest(), size: int = 0) -> None:
        kept = path.read_bytes()[:size] if path.exists() else b""
        self.path, self.size, self.sha = path, size, hashlib.sha256(kept)
        if self.sha.hexdigest() != digest:
            raise Mistake(f"{path} is not what the checkpoint vouches for: start the run again in a new directory")
        files.write(path, kept)

    def append(self, row: Row) -> None:
        """A round's row."""
        line = (json.dumps(row) + "\n").encode()
        with self.path.open("ab") as file:
            file.write(line)
        self.size += len(line)
        self.sha.update(line)

    def facts(self) -> dict[str, object]:
        """What vouches for it."""
        return {"log": self.sha.hexdigest(), "log_bytes": self.size}

    def flush(self) -> None:
        """On disk, before the checkpoint that vouches for it."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())


@dataclass
class Desk:
    """What is too expensive for every round: checkpoint, card and page. They take a twentieth of the time at most."""

    experiment: Experiment
    path: Path
    ledger: Ledger
    log: Log
    kernels: dict[str, str]  # by the first round that they computed
    each: bool = False  # whether every round is kept before the next
    done: tuple[State, Row] | None = None  # the last round of the log and what vouches for it, not yet kept
    due: float = -math.inf
    results: dict[str, Any] | None = None  # of the last model, once there is one
    seen: tuple[int, Outcome] | None = None  # what had come of the run, after which round

    def put(self, state: State, best: Row) -> None:
        """A round is in the log; keep it, should that be due."""
        self.done = state, {**best, **self.log.facts(), "kernels": self.kernels}
        if time.monotonic() >= self.due:
            self.keep()
        elif self.each:
            self._save()

    def keep(self) -> None:
        """Write the last round's checkpoint, if it is not yet, and what a reader sees of it."""
        if self.done is None or not self.done[0].current:  # a failed round has left nothing to go on from
            return
        began = time.monotonic()
        self._save()
        self.show(self.done[0])
        self.done, self.due = None, time.monotonic() + max(REST, SHARE * (time.monotonic() - began))

    def _save(self) -> None:
        assert self.done is not None
        self.log.flush()
        checkpoint.save_state(self.path / CHECKPOINT, *self.done)

    def show(self, state: State) -> None:
        """The card, what the page says beside it, and the page."""
        about.write(self.path, about.about(self.experiment, state, self.results))
        if self.seen is None or self.seen[0] != state.round:  # a trial of the clip is not made twice
            self.seen = state.round, outcome(self.experiment, state, self.path)
        self.ledger.write_card(card(facts(self.experiment, state, self.ledger.events, self.seen[1])))
        page.write(self.path)

    def close(self, state: State) -> None:
        """After the last round: with the results of its model by class and by client."""
        self.results = about.results(self.experiment, state)
        self.show(state)
