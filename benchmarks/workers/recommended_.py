"""hush's recommended scheme, as an experiment of this tree sets it: whole runs on features that are in the cache.

Each run is made anew before its rounds are timed, so that nothing it keeps is left from an earlier one. What is asked
for is a number of rounds, of one run or of several.
"""

import os
import time
from pathlib import Path

import talk

import hush
from hush.core.traffic import Bytes
from hush.experiment import config
from hush.experiment.resolving import Experiment, build

FILE = Path(os.environ["BENCH_EXPERIMENTS"]) / "frontier" / talk.OPTIONS["file"]


def built() -> Experiment:
    """The experiment, with its features from the cache."""
    return build(config.read(FILE))


def protocol(bytes: Bytes) -> dict[str, float]:
    """Of a secure sum, kB per registered client: up, down in its phases, and down with the cohort's keys."""
    down = sum(phase["down"]["mean"] for phase in bytes["phases"].values())
    both = {"up": bytes["up"]["protocol"]["mean"], "down": down, "down, with keys": bytes["down"]["protocol"]["mean"]}
    return {f"kB {name}": size / 1e3 for name, size in both.items()}


def measure(rounds: int) -> talk.Answer:
    """So many rounds, run after run."""
    seconds: list[float] = []
    spent = machine = 0.0
    while len(seconds) < rounds:
        one = built()
        run, clients = one.config.run, hush.Simulated(engine=one.engine)
        start = talk.begin()
        reports = hush.rounds(
            one.scheme, one.task, rounds=run.rounds, seed=run.seed, delta=one.config.scheme.delta, transport=clients
        )
        for _ in range(min(run.rounds, rounds - len(seconds))):
            began = time.perf_counter()
            report = next(reports)
            seconds.append(time.perf_counter() - began)
        ended = talk.mark()
        sent = report.bytes
        del one, reports, report  # before the next run is made
        spent, machine = spent + ended[0] - start[0], machine + ended[1] - start[1]
    found = talk.answer(seconds, (0.0, 0.0), (spent, machine))
    return found | (protocol(sent) if "phases" in sent else {})


if __name__ == "__main__":
    talk.serve(measure, ["torch", "hush-fl"])
