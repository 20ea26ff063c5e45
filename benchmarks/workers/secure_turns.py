"""What both sides of the secure sum's benchmark share: the inputs, CPU times, and one client's work at a time.

A request is a line of JSON. After each client the worker says `{"turn": true}` and waits for a line, so that the
contenders' clients take turns; `{"done": ...}` ends the request.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
Request = dict[str, Any]
Times = dict[str, list[float]]

_line: TextIO = sys.stdout


def vector(client: int, size: int) -> Vector:
    """A client's numbers, of a norm close to 0.9 and below 1: the same for every contender."""
    drawn = np.random.default_rng((client, size)).standard_normal(size, np.float32)
    return drawn * np.float32(0.9 / np.sqrt(size))


def timed(call: Callable[..., Any], *args: object) -> tuple[Any, float]:
    """What a call gives, and its CPU seconds, those of threads that it started included."""
    start = time.process_time()
    found = call(*args)
    return found, time.process_time() - start


def client_times(times: Times) -> dict[str, dict[str, float]]:
    """Of each phase the median over the clients and the least; of all phases their sums."""
    found = {phase: {"median": statistics.median(each), "least": min(each)} for phase, each in times.items()}
    return found | {"all": {way: sum(each[way] for each in found.values()) for way in ("median", "least")}}


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of some packages."""
    return {"python": sys.version.split()[0], **{name: version(name) for name in packages}}


def error(found: npt.NDArray[np.float64], true: npt.NDArray[np.float64]) -> float:
    """How far a sum is from that of the inputs, as a part of its length."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def turn() -> None:
    """Let the others go on."""
    print(json.dumps({"turn": True}), file=_line, flush=True)
    if not sys.stdin.readline():
        raise SystemExit("the benchmark has ended")


def serve(answer: Callable[[Request], dict[str, Any]]) -> None:
    """Answer requests until the input ends."""
    global _line
    # Libraries print as they like: the line to the benchmark is a descriptor of its own.
    _line = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    while text := sys.stdin.readline():
        print(json.dumps({"done": answer(json.loads(text))}), file=_line, flush=True)
