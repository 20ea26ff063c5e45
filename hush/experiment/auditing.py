"""Audits of a run: trials of its scheme's own code, and what its canaries show."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hush.audit.canaries import Canaries, WithCanaries
from hush.audit.chunks import Say, Spread, cores, threads
from hush.audit.mechanism import Audit, mechanism
from hush.audit.onerun import Scored
from hush.catalogue.values import Settings
from hush.core.clients import Clients
from hush.core.rounds import Report
from hush.core.state import State
from hush.data import files
from hush.errors import Mistake
from hush.experiment import audits, own
from hush.experiment.resolving import DELTA, Experiment
from hush.parts.stages import Clip
from hush.privacy.events import Event
from hush.privacy.facts import Finding
from hush.privacy.views import views

__all__ = ["SURE", "Audit", "Say", "Watch", "close", "cores", "of_name", "of_scheme"]

QUICK, TRIALS = 1_000, 20_000  # in each world: at the end of a run, and later
CONFIDENCE, SURE = 0.99, 0.995  # of all trials together, and of each of the two findings of canaries
AGAIN = "one more training"  # of the same configuration
FILE = "canaries.bin"


def close(
    experiment: Experiment,
    path: Path,
    state: State,
    events: Sequence[Event],
    watch: "Watch | None",
    tell: Callable[[str], None],
) -> None:
    """The audits of a run that asked for them, beside its card: its canaries, where it has any, and quick trials."""
    if watch is not None and watch.clients.canaries.attack not in [one.attack for one in audits.read(path)]:
        delta, canaries = experiment.config.scheme.delta or DELTA, watch.clients.canaries
        stated = views(events, state.participation, delta, experiment.config.scheme.accountant)["model"]
        proven = stated if isinstance(stated, float) and experiment.scheme.private else None
        audits.add(path, watch.scored(state).findings(canaries.attack, canaries.assumes, proven, delta, SURE))
    if not audits.tried(path):
        tell("auditing: trials of the scheme's own code")
        trials = of_scheme(experiment, QUICK, partial(threads, number=experiment.config.run.workers))
        audits.add(path, trials.findings, trials.wrong, trials.trials)


def elsewhere(found: Sequence[Finding]) -> list[Finding]:
    """Canaries of another training than that of the run which they are shown for, and says so."""
    return [replace(one, attack=f"{one.attack}, {AGAIN}", words=f"in {AGAIN}, {one.words}") for one in found]


def of_scheme(experiment: Experiment, trials: int = TRIALS, spread: Spread = threads, say: Say | None = None) -> Audit:
    """Trials of the scheme of an experiment, which their findings name: their epsilons are not those of the run."""
    wanted = experiment.config
    found = mechanism(
        experiment.scheme,
        experiment.task.clients,
        size=experiment.scheme.coordinates.count(experiment.task.layout),
        delta=wanted.scheme.delta or DELTA,
        trials=trials,
        confidence=CONFIDENCE,
        seed=wanted.run.seed,
        spread=spread,
        say=say,
    )
    return replace(found, findings=tuple(replace(one, attack=f"trial, {one.attack}") for one in found.findings))


def of_name(
    scheme: str,
    noise: float | None,
    clients: int,
    delta: float,
    trials: int,
    seed: int,
    spread: Spread = threads,
    say: Say | None = None,
) -> Audit:
    """Trials of a scheme by name, at a clip bound of 1 and, if not given, a noise multiplier of 1."""
    entry = own.entry(scheme)
    if noise is not None and not entry.private:
        raise Mistake(f"{scheme} has no noise to set: leave it out")
    noise = 1.0 if noise is None else noise
    made = entry.scheme(Settings(sampling=entry.sampling, noise=noise, clip=Clip(1.0)))
    return mechanism(
        made, clients, delta=delta, trials=trials, confidence=CONFIDENCE, seed=seed, spread=spread, say=say
    )


class Watch:
    """The clients of a run with canaries, and canaries.bin: what an attacker sees of these, a row for each round."""

    def __init__(self, canaries: Canaries, clients: Clients, path: Path, state: State | None) -> None:
        """From the first round, or that of a checkpoint: later rows are dropped."""
        self.clients, self.path = WithCanaries(clients, canaries), path / FILE
        rounds = 0 if state is None else state.round
        kept = self.path.read_bytes() if self.path.exists() else b""
        rows = np.frombuffer(kept[: len(kept) // 8 * 8], "<f8")
        width = len(canaries.included) if canaries.watched else 0
        if len(rows) < rounds * width:
            raise Mistake(f"{self.path} lacks rounds of this run: restore it from a copy, or begin anew")
        files.write(self.path, rows[: rounds * width].tobytes())

    def put(self, report: Report, last: int) -> dict[str, Any] | None:
        """A round is done; what the canaries show, where it is the last."""
        with self.path.open("ab") as file:
            file.write(self.clients.seen.astype("<f8").tobytes())
        self.clients.forget()
        if report.round < last:
            return None
        return {**self.scored(report.state).shown(report.delta, SURE)._asdict(), "confidence": SURE}

    def scored(self, state: State) -> Scored:
        """The canaries, after the last round."""
        canaries, rows = self.clients.canaries, np.frombuffer(self.path.read_bytes(), "<f8")
        return canaries.scored(rows.reshape(-1, len(canaries.included)), state.weights)
