"""What a card says of a run's outcome: the result beside a guess, and whether the clip bound binds.

Both are found on the server's own test rows: nothing more of the clients' data is used.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hush.catalogue.clipping import lengths
from hush.core.memory import Memory
from hush.core.spec import Plan
from hush.core.state import State
from hush.core.task import Registered, Task
from hush.data.samples import Split
from hush.experiment import own
from hush.experiment.report import runs, words
from hush.experiment.report.runs import Run
from hush.experiment.resolving import Experiment
from hush.models.guessing import guesses
from hush.models.weights import flatten
from hush.parts.trainers.cohort import together
from hush.random.seeds import PublicSeed, SecretSeed

TRIALS, FEWEST = 32, 8  # clients made up of test rows; with fewer, nobody and everybody say little


class Outcome(NamedTuple):
    """What has come of a run: see result and clipping."""

    result: dict[str, Any] | None = None
    clipping: dict[str, Any] | None = None


NOTHING = Outcome()  # nothing yet


def outcome(experiment: Experiment, state: State, path: Path) -> Outcome:
    """What has come of the run in a directory; the clip is tried once the run is finished."""
    run = runs.read(path)
    run = replace(run, rounds=[row for row in run.rounds if row["round"] <= state.round])
    done = state.round >= experiment.config.run.rounds
    return Outcome(result(experiment, run), clipping(experiment, state) if done else None)


def result(experiment: Experiment, run: Run) -> dict[str, Any] | None:
    """The run's measure at its last evaluated round, beside what always giving the same answer has of it."""
    name, test = runs.measure(run), experiment.task.test
    found, known = runs.accuracies(run), {} if test is None else guesses(test.targets)
    if not found or name not in known:
        return None
    return {"measure": words.measure(name), "round": found[-1][0], "value": found[-1][1], **known[name]._asdict()}


def clipping(experiment: Experiment, state: State) -> dict[str, Any] | None:
    """Whether the bound clips nobody, some or everybody of clients made up of test rows, by the first and last weights.

    Where records are protected, of test rows. None where there is no bound, too few test rows, or the number of a
    client's records is not known here, as on a network that protects clients. How many of the clients themselves are
    clipped is not asked: no noise covers it.
    """
    task, scheme = experiment.task, experiment.scheme
    size = 1 if scheme.level == "record" else _size(task)
    if not scheme.private or task.test is None or size is None:
        return None
    rows, seed = task.test, experiment.config.run.seed
    size = max(1, min(size, len(rows) // FEWEST))
    trials = min(TRIALS, len(rows) // size)
    if trials < FEWEST:
        return None
    dealt = torch.from_numpy(PublicSeed(seed).generator("trial of the clip").permutation(len(rows)))
    split = Split.of([dealt[size * n : size * (n + 1)] for n in range(trials)])
    made_up = Task(task.model, task.loss, rows, split, public=task.problem.public)
    pool = scheme.coordinates.pool(task.problem, PublicSeed(seed))
    trained = pool if scheme.joint else state.live
    length, bound, said = together(made_up.problem, rows, trained), math.inf, dict[str, str]()
    for when, weights in (("first", flatten(task.model)), ("last", state.weights.clone())):
        clipped = 0
        for first in range(0, trials, length):
            members = np.arange(first, min(first + length, trials))
            block = made_up.block(members, SecretSeed.simulated(seed), Memory())
            plan = Plan(-1, weights, state.live, clip=state.clip, pool=pool, joint=scheme.joint)
            found = lengths(scheme, block, plan, experiment.engine)
            if found is None:
                return None
            clipped, bound = clipped + int((found.norms > found.bound).sum()), found.bound
        said[when] = "nobody" if clipped == 0 else "everybody" if clipped == trials else "some"
    return {"bound": bound, "trials": trials, **said, "tuned": _tuned(experiment), "adaptive": state.clip is not None}


def _tuned(experiment: Experiment) -> bool:
    """Whether clip and server's rate are the scheme's own, chosen one for the other: to clip everybody may be meant."""
    entry, wanted = own.entry(experiment.config.scheme.name), experiment.config.scheme
    if "clip" not in entry.usual or "server_rate" not in entry.usual:
        return False
    rates = (entry.usual["server_rate"], entry.tables.get("server_rate"))
    return entry.usual["clip"].constant == wanted.clip and wanted.server_rate in rates


def _size(task: Registered) -> int | None:
    """The mean number of a client's records, in a simulation."""
    return round(float(task.sizes.double().mean())) if isinstance(task, Task) else None
