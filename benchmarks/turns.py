"""Contenders as processes that take turns: only one of them computes at any moment."""

import json
import math
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from claims import quiet
from contenders import Contender
from environments import FOLDER, HERE, ROOT, binaries

PATIENCE = 30 * 60  # seconds without an answer: the contender has failed
SHORTEST = 2.0  # seconds of a turn: the kernel counts hundredths, and `others` is to be known to a few of them
LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Failed(Exception):
    """A contender that gave no answer."""


class Worker:
    """A contender's process, pinned to its cores."""

    def __init__(self, contender: Contender, data: Path, log: Path, tree: Path = ROOT) -> None:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < contender.cores:
            raise Failed(f"needs {contender.cores} cores, but this process may use {len(cores)}")
        self.log, self.rest = log, b""
        programs, workers = binaries(contender.environment), HERE / "workers"
        threads = str(contender.threads or contender.cores)
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))},
            **{name: threads for name in LIBRARIES},
            "BENCH_DATA": str(data),
            "BENCH_DEVICES": str(contender.devices),
            "BENCH_EXPERIMENTS": str(ROOT / "experiments"),
            "BENCH_OPTIONS": json.dumps(contender.options),
            "BENCH_TREE": str(tree),
            "PYTHONPATH": os.pathsep.join(map(str, (tree, workers, HERE))),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        launch = contender.launch or ("python",)
        if not (programs / launch[0]).exists():
            raise Failed(f"the environment {contender.environment} is not there")
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [programs / launch[0], *launch[1:], workers / f"{contender.worker}.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=FOLDER,
                start_new_session=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cores[: contender.cores]),
            )

    def hear(self) -> dict[str, Any]:
        """The next answer."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"no answer in {PATIENCE} seconds")
            chunk = os.read(self.process.stdout.fileno(), 2**16)
            if not chunk:
                tail = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()][-3:]
                raise Failed(
                    " / ".join(tail).replace(f"{ROOT}/", "")[-500:] or f"ended with status {self.process.wait()}"
                )
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `hear` tells why
        return self.hear()

    def close(self) -> None:
        """End of input, and if that does not end it, an end by force."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session: it and what it started
            self.process.wait()
        self.process.stdout.close()


def run(
    suite: str, contenders: list[Contender], turns: int, data: Path, repeats: int = 0, before: Path | None = None
) -> list[dict[str, Any]]:
    """The suite's results, one for each contender: what it was, its turns, or why it failed.

    A turn that others disturbed is repeated up to so many times. `before`: the tree of those at another commit.
    """
    logs = FOLDER / "logs"
    logs.mkdir(exist_ok=True)
    results: list[dict[str, Any]] = []
    workers: dict[int, Worker] = {}
    try:
        for index, one in enumerate(contenders):
            result = {"name": one.name, "key": one.key, "cores": one.cores, "setting": one.setting, "turns": []}
            result |= {"environment": one.environment, "rounds": one.rounds, "before": one.before}
            results.append(result)
            with _noted(result):
                print(f"{suite}: {one.key} ({one.environment}), start and warm-up", flush=True)
                tree = before if one.before and before is not None else ROOT
                workers[index] = Worker(one, data, logs / f"{suite}-{index}-{one.worker}.log", tree)
                result |= workers[index].hear()
        for turn in range(turns):
            for index, one in enumerate(contenders):
                if "error" in results[index] or turn >= (one.turns or turns):
                    continue
                with _noted(results[index]):
                    answer = _turn(workers[index], one, results[index], repeats)
                    results[index]["turns"].append(answer)
                    print(f"{suite}: turn {turn + 1}, {one.key}: {_words(answer)}", flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    return results


def _turn(worker: Worker, one: Contender, result: dict[str, Any], repeats: int) -> dict[str, Any]:
    """A turn's answer: the quietest of its attempts, and how many there were. Too short a turn gets more rounds."""
    if one.request:
        return worker.ask(one.request)
    found = worker.ask({"rounds": result["rounds"]})
    while one.longer and (taken := sum(found["seconds"])) < SHORTEST:
        result["rounds"] *= math.ceil(1.1 * SHORTEST / taken)
        found = worker.ask({"rounds": result["rounds"]})
    attempts = [found]
    while not quiet(attempts[-1]) and len(attempts) <= repeats:
        attempts.append(worker.ask({"rounds": result["rounds"]}))
    return min(attempts, key=lambda answer: float(answer["others"])) | {"attempts": len(attempts)}


class _noted(suppress):
    """A contender's failure is noted in its result, and the rest goes on."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(Failed)
        self.result = result

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, Failed):
            self.result["error"] = str(error)
            print(f"{self.result['key']} failed: {error}", flush=True)
        return bool(super().__exit__(kind, error, trace))


def _words(answer: dict[str, Any]) -> str:
    if "seconds" in answer:
        mean = sum(answer["seconds"]) / len(answer["seconds"])
        noise = "" if quiet(answer) else f", not final: others took {answer['others']:.2f} of a core"
        return f"{mean:.4g} s a round, {answer['cpu']:.4g} s CPU{noise}"
    return ", ".join(f"{name} {value:.4g}" for name, value in answer.items() if isinstance(value, float)) or "done"
