"""A run in a directory: what it leaves, and how it goes on after a kill."""

import fcntl
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from hush.core.clients import Clients
from hush.core.rounds import Report, loop
from hush.core.state import State
from hush.core.task import Task
from hush.data import files
from hush.data.fetch import Say
from hush.errors import Mistake
from hush.experiment import auditing, audits, checkpoint, config, model
from hush.experiment.config import Config
from hush.experiment.fingerprint import fingerprint_of, rows_of
from hush.experiment.journal import CHECKPOINT, Desk, Log, Row
from hush.experiment.places import transport
from hush.experiment.population import quiet
from hush.experiment.resolving import DELTA, Experiment
from hush.experiment.settings import PYTHON
from hush.models.kernels import kernels
from hush.models.metrics import Score, evaluate, evaluate_loss, mean
from hush.models.weights import loaded
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed

BEST = ("measure", "larger", "best_round")  # of a row: the run's measure, and its best round so far
UNKNOWN = "kernels that were not written down"


def open_directory(path: Path, resolved: Config, resume: bool) -> None:
    """Make the directory for this configuration, or find in it a run of the very same one to resume."""
    stored = path / "config.toml"
    try:
        if stored.exists() and _begun(path):
            if not resume:
                raise Mistake(f"{path} already holds a run: add --resume to go on with it, or choose another --out")
            difference = config.changed(config.read(stored), resolved)
            if difference:
                raise Mistake(
                    f"{path} holds a run with another configuration, {difference}: choose another --out, or delete it"
                )
            return
        if path.exists() and not stored.exists() and not (path.is_dir() and set(path.iterdir()) <= files.drafts(path)):
            raise Mistake(f"{path} exists and holds no run: choose another --out")
        for left in (audits.FILE, auditing.FILE, "inversion.png"):
            (path / left).unlink(missing_ok=True)  # of another run, that was never begun
        files.write(stored, config.dump(resolved).encode())
    except OSError as error:
        remedy = "make room there, or choose another --out" if files.full(error) else "choose another --out"
        raise Mistake(f"{path} cannot be written ({error.strerror}): {remedy}") from None


def _begun(path: Path) -> bool:
    """Whether anything was released or logged there; a run that failed before that may be begun anew."""
    log = path / "rounds.jsonl"
    return any((path / name).exists() for name in ("privacy.json", "privacy.jsonl")) or (
        log.exists() and log.stat().st_size > 0
    )


@contextmanager
def locked(path: Path, remedy: str = "wait for it") -> Iterator[None]:
    """One process at a time in a run's directory; the lock dies with its process."""
    try:
        held = (path / ".lock").open("w")
    except OSError as error:
        raise Mistake(f"{path} cannot be written ({error.strerror}): make it writable, or work on a copy") from None
    with held as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Mistake(f"{path} is in use by another process: {remedy}") from None
        yield


def execute(
    experiment: Experiment,
    path: Path,
    same_cpu: bool = False,
    say: Say = quiet,
    clients: Clients | None = None,
    secret: SecretSeed | None = None,
    cluster: str | None = None,
) -> Iterator[Row]:
    """Train in the directory, from its checkpoint if it has one; yields each round's row once written.

    `same_cpu`: refuse to go on where other kernels compute than those that the run had. Else `say` hears of it.
    `clients`: who trains, simulated ones if not given. Clients elsewhere answer a round once: each is kept before the
    next begins. `secret`: the server's own draws; those of a simulation if not given.
    `cluster`: the address of the one whose workers train, in place of this process's threads; the bits are the same.
    """
    try:
        with locked(path, "wait for it or choose another --out"):
            for left in files.drafts(path) | files.drafts(path / CHECKPOINT.parent):
                left.unlink(missing_ok=True)  # of a process that was killed while it wrote
            yield from _execute(experiment, path, same_cpu, say, clients, secret, cluster)
    except OSError as error:
        if not files.full(error):
            raise
        how = "--resume" if clients is None else "the same command"
        raise Mistake(f"{path} cannot be written ({error.strerror}): make room there, then go on with {how}") from error


def _execute(
    experiment: Experiment,
    path: Path,
    same_cpu: bool,
    say: Say,
    clients: Clients | None,
    secret: SecretSeed | None,
    cluster: str | None,
) -> Iterator[Row]:
    wanted, task, elsewhere = experiment.config, experiment.task, clients is not None
    saved, log, spent = path / CHECKPOINT, path / "rounds.jsonl", path / "privacy.json"
    best: Row = dict.fromkeys(BEST)
    state, written, facts = None, None, dict[str, Any]()
    if saved.exists():
        state, facts = checkpoint.load_state(saved)
        best |= {key: value for key, value in facts.items() if key in best or key.startswith("best_")}
        written = Log(log, facts["log"], facts["log_bytes"])
    written = written or Log(log)
    fingerprint, here = fingerprint_of(experiment), kernels()
    if spent.exists():
        ledger = Ledger.load(spent)
    else:
        ledger = Ledger(spent, {"task": fingerprint, "rows": rows_of(experiment), "kernels": here})
    # The ledger says what computed the first rounds, the checkpoint what computed those since.
    ran = dict(facts.get("kernels") or {"1": str(ledger.header.get("kernels", UNKNOWN))})
    before, number = list(ran.values())[-1], 1 if state is None else state.round + 1
    if ledger.header.get("task") != fingerprint:
        left = experiment.scheme.standalone or (path / model.FILE).exists()
        if state is not None and number > wanted.run.rounds and left and _of(experiment, ledger, before != here):
            return  # a finished run needs neither its first weights nor code
        what = "" if before == here else f", as features do that were made elsewhere (there {before}; here {here})"
        raise Mistake(
            f"{path}: the data, the model or a file of your own changed since the run began{what}: choose another --out"
        )
    if before != here and number <= wanted.run.rounds:
        charged = 0 if state is None else state.participation.charged
        say(
            _move(
                path,
                before,
                here,
                number,
                same_cpu,
                not elsewhere and experiment.scheme.private and len(ledger.events) > charged,
            )
        )
        ran[str(number)] = here
        if state is not None:  # before anything is computed: should this process die, the next one knows of it
            checkpoint.save_state(saved, state, {**facts, "kernels": ran})
    desk, watch = Desk(experiment, path, ledger, written, ran, elsewhere), None
    if clients is None:
        assert isinstance(task, Task)
        clients = transport(wanted.run, experiment.engine, cluster).of(task)
        if experiment.canaries is not None:
            if cluster is not None:
                raise Mistake("what canaries show is counted in this process: leave --cluster or the audit out")
            watch = auditing.Watch(experiment.canaries, clients, path, state)
            clients = watch.clients
    try:
        for report, row in trained(experiment, clients, ledger, best, state, secret, replay=not elsewhere):
            if len(ran) > 1 and str(report.round) in ran:
                row["kernels"] = here
            state = report.state
            if watch is not None:
                row["audit"] = watch.put(report, wanted.run.rounds)
            written.append(row)
            desk.put(state, best)
            yield row
    finally:
        desk.keep()
    assert state is not None
    desk.close(state)  # a process killed in its last round may have left them behind
    if wanted.run.canaries is not None:
        auditing.close(experiment, path, state, ledger.events, watch, say)
    if experiment.scheme.standalone:
        return  # nobody's model is everybody's: each client has its own
    assert experiment.about is not None
    model.write(path / model.FILE, loaded(task.model, state.released), experiment.about, ledger.card)


def _of(experiment: Experiment, ledger: Ledger, elsewhere: bool) -> bool:
    """Whether a finished run is of these rows. Features that were made elsewhere differ in last bits, and hush's own
    sets may come out otherwise in another version of it.
    """
    data = experiment.config.data
    own = data.name == PYTHON or data.partition == "own" or bool(experiment.files) or Path(data.name).exists()
    return not own or (elsewhere and experiment.scheme.featured) or ledger.header.get("rows") == rows_of(experiment)


def trained(
    experiment: Experiment,
    clients: Clients,
    ledger: Ledger,
    best: Row,
    state: State | None = None,
    secret: SecretSeed | None = None,
    replay: bool = False,
) -> Iterator[tuple[Report, Row]]:
    """The loop on an experiment: each round's report and row, in memory."""
    wanted = experiment.config
    for report in loop(
        experiment.scheme,
        clients,
        rounds=wanted.run.rounds,
        seed=wanted.run.seed,
        delta=wanted.scheme.delta or DELTA,
        accountant=wanted.scheme.accountant,
        ledger=ledger,
        secret=secret,
        state=state,
        replay=replay,
    ):
        yield report, _row(report, experiment, best)


def rows(path: Path) -> list[Row]:
    """The rows of a run's directory, oldest first."""
    return [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]


def _move(path: Path, before: str, here: str, number: int, same_cpu: bool, ahead: bool) -> str:
    """The note that other kernels go on; refused where that is asked for, or would release a round twice."""
    if same_cpu:
        raise Mistake(f"{path} was computed by {before}, and here it is {here}: go on there, or leave --same-cpu out")
    if ahead:
        # Two sums that differ, under the same noise, reveal their difference to whoever sees both.
        raise Mistake(
            f"{path} may have released round {number}, by {before}; {here} would release it again with other last bits"
            " under the same noise: go on there, or begin anew with another --out and --seed"
        )
    return f"from round {number} on by {here}, before by {before}: the last bits may differ from those of a run there"


def _row(report: Report, experiment: Experiment, best: Row) -> Row:
    run, task = experiment.config.run, experiment.task
    score = None
    if task.test is not None:
        due = report.round % run.eval_every == 0 or report.round == run.rounds
        if due:
            score = found = mean([evaluate(task, weights, workers=run.workers) for weights in report.models])
        else:
            one = task.test.rows(torch.arange(1))
            found = mean([evaluate_loss(task, weights, one) for weights in report.models])
        if not math.isfinite(found.loss):
            raise Mistake(
                f"round {report.round}: the model yields NaN or infinity on the test data; the run stops here"
                " and the last good checkpoint stays: lower the training rate or check the model and the data"
            )
    if score is not None:
        _keep(best, score, report.round)
    names = [key.removeprefix("best_") for key in best if key.startswith("best_") and key != "best_round"]
    values = dict.fromkeys(names) if score is None else score.values
    return {
        "round": report.round,
        "cohort": report.cohort,
        "aborted": report.aborted,
        "reason": report.reason,
        "refused": list(report.refused),
        "level": experiment.scheme.level,
        **values,
        "loss": None if score is None else score.loss,
        **best,
        "clip": report.clip,
        "length": None if report.length is None else report.length._asdict(),
        "bytes": report.bytes,
        "epsilon": report.epsilon,
        "seconds": round(report.seconds, 3),
    }


def _keep(best: Row, score: Score, number: int) -> None:
    """The best round so far, by the task's own measure."""
    before, now = best.get(f"best_{score.main}"), score.value
    best |= {"measure": score.main, "larger": score.larger}
    if now is None or (before is not None and (now <= before if score.larger else now >= before)):
        return
    values = score.values or {"loss": score.loss}
    best |= {f"best_{name}": value for name, value in values.items()} | {"best_round": number}
