"""How a worker talks with the bench: one JSON request per line in, one JSON answer per line out.

A request `{"rounds": k}` is answered by `{"seconds": [...], "cpu": mean per round, "others": cores that other
processes took meanwhile, "rss": bytes}`. The first answer comes unasked, once the warm-up round is done:
`{"first": seconds, "versions": {...}, "rss": bytes}`. Where hush is measured it must be the one of BENCH_TREE.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import synthetic

FOLDER = Path(os.environ["BENCH_DATA"])
OPTIONS: dict[str, Any] = json.loads(os.environ.get("BENCH_OPTIONS", "{}"))
CORES = len(os.sched_getaffinity(0))

Answer = dict[str, Any]
Measure = Callable[[int], Answer]


def data(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The rows of a workload."""
    return synthetic.arrays(FOLDER, name)


def records() -> dict[str, np.ndarray[Any, Any]]:
    """The medical rows."""
    return synthetic.records(FOLDER)


def tree() -> list[psutil.Process]:
    """This process and all that it started; where torchrun started it, torchrun and all that that started."""
    root = psutil.Process(os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None)
    return [root, *root.children(recursive=True)]


def cpu() -> float:
    """CPU seconds so far, of this process to the nanosecond and of all below it by the kernel's ticks."""
    total, me = time.process_time(), os.getpid()
    for process in tree():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.children_user + times.children_system
        total += times.user + times.system if process.pid != me else 0.0
    return total


def busy() -> float:
    """Seconds that the machine's cores have been busy so far, or were taken by the host."""
    user, nice, system, _, _, irq, soft, steal = Path("/proc/stat").read_text().split(None, 9)[1:9]
    return sum(map(int, (user, nice, system, irq, soft, steal))) / os.sysconf("SC_CLK_TCK")


def mark() -> tuple[float, float]:
    """What has been spent so far: by this process and all below it, and by the whole machine."""
    return cpu(), busy()


def begin() -> tuple[float, float]:
    """The mark before a measurement; the peak of memory counts from here on, where the kernel can forget it."""
    for process in tree():
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return mark()


def peak() -> int:
    """The most memory that each process of the tree held since it began, or since `begin`, summed, in bytes."""
    total = 0
    for process in tree():
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
    return total


def answer(seconds: list[float], began: tuple[float, float], ended: tuple[float, float]) -> Answer:
    """What a measurement between two marks says; `cpu` is per round."""
    spent, machine = ended[0] - began[0], ended[1] - began[1]
    others = max(0.0, machine - spent) / sum(seconds)
    return {"seconds": seconds, "cpu": spent / len(seconds), "others": others, "rss": peak()}


def stepwise(step: Callable[[], object]) -> Measure:
    """Measures so many calls of `step`, one round each."""

    def measure(rounds: int) -> Answer:
        seconds, start = [], begin()
        for _ in range(rounds):
            began = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - began)
        return answer(seconds, start, mark())

    return measure


def serve(
    measure: Measure, packages: list[str], warm: int = 1, extra: dict[str, Callable[[], Any]] | None = None
) -> None:
    """Warm up, then answer requests until the input ends. `extra` are requests of other kinds, by name."""
    # Libraries print as they like: the line to the bench is a descriptor of its own, and theirs goes to the log.
    line = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first = measure(warm)["seconds"] if warm else []
    versions = {"python": sys.version.split()[0], **{name: version(name) for name in packages}}
    if "torch" in sys.modules:
        versions["kernels of torch"] = sys.modules["torch"].backends.cpu.get_cpu_capability()
    if "hush" in sys.modules and not Path(sys.modules["hush"].__file__ or "").is_relative_to(os.environ["BENCH_TREE"]):
        raise SystemExit("hush was imported from another place than the tree that is to be measured")
    print(json.dumps({"first": first, "versions": versions, "rss": peak()}), file=line, flush=True)
    for text in sys.stdin:
        request = json.loads(text)
        others = {name: call() for name, call in (extra or {}).items() if name in request}
        found = others or measure(request["rounds"])
        print(json.dumps(found), file=line, flush=True)
