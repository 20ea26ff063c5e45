"""The runs of a sweep, several at a time; killed at any moment, the same command goes on."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hush.data import files
from hush.errors import Mistake
from hush.experiment import config, parallel
from hush.experiment.config import Config
from hush.experiment.sweep.plan import Point, Sweep
from hush.models import processes

Say = Callable[[str, str, int, int], None]  # of a run: its name, what it does, how many rounds of how many are done
ASKED = "sweep.json"


def done(point: Point, out: Path) -> bool:
    """Whether the run has come to its end: its model is the last that it writes."""
    return (out / point.name / "model.safetensors").exists()


def begin(sweep: Sweep, out: Path) -> None:
    """Make the directory, or find the same runs in it; others of the file are added to them."""
    asked = _asked(out)
    for point in sweep.points:
        before = asked.get(point.name)
        if before is not None and (out / point.name / "config.toml").exists():
            difference = config.changed(config.parse(before, str(out / ASKED)), point.config)
            if difference:
                raise Mistake(
                    f"{out / point.name} holds a run with another configuration, {difference}: choose another --out,"
                    " or delete it"
                )
        asked[point.name] = point.config.model_dump(exclude_unset=True, exclude_none=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
        files.write(out / ASKED, (json.dumps(asked, indent=1) + "\n").encode())
    except OSError as error:
        raise Mistake(f"{out} cannot be written ({error.strerror}): choose another --out") from None


def _asked(out: Path) -> dict[str, Any]:
    """What each directory was made for."""
    if (out / "config.toml").exists():
        raise Mistake(f"{out} already holds a run: choose another --out for the sweep")
    try:
        found = json.loads((out / ASKED).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise Mistake(f"{out / ASKED} cannot be read: choose another --out") from None
    return found if isinstance(found, dict) else {}


def run(points: list[Point], out: Path, number: int, cluster: bool, say: Say) -> dict[str, str]:
    """Run these, so many at a time, in processes or on the cluster that was joined; the mistakes by name."""
    from hush.federation import nodes

    failed: dict[str, str] = {}
    left = {point.name for point in points}

    def hear(place: int, message: processes.Message) -> None:
        name = points[place].name
        if message[0] == "round":
            say(name, *message[1:])
        elif message[0] == "done":
            left.remove(name)
            say(name, "done", 1, 1)
        elif message[0] == "failed":
            left.remove(name)
            failed[name] = message[1]
        elif message[0] == "gone" and name in left:
            failed[name] = parallel.GONE

    orders = [(point.config, (out / point.name).resolve()) for point in points]
    (nodes.stream if cluster else processes.stream)(orders, _steps, number, hear)
    return failed


def _steps(order: tuple[Config, Path], threads: int) -> Iterator[processes.Message]:
    """A run, in a process of its own."""
    wanted, path = order
    yield "round", "loading the data", 0, 0
    built = parallel.opened(wanted, path, threads)
    for row in parallel.executed(built, path):
        yield "round", parallel.facts(row, row["measure"]), row["round"], built.config.run.rounds
    yield ("done",)
