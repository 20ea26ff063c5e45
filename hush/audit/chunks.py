"""All trials of an audit, in chunks whose draws have names: whoever runs them, they are the same."""

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch

from hush.audit.records import RecordWorlds
from hush.audit.trials import Trials, World
from hush.audit.worlds import Worlds
from hush.errors import Mistake
from hush.models import processes, workers
from hush.random.seeds import SecretSeed

SIZE = 1024  # trials, at most
ROOM = 2**23  # numbers of updates that are in memory together
WORTH = 6.0  # seconds of one core that are worth the start of processes, which takes three of each
GONE = (
    "a process that ran trials was killed, or had no memory left: run the command again, with --workers 1 where memory"
    " is short"
)
AnyWorlds = Worlds | RecordWorlds
Say = Callable[[int, int], None]
Take = Callable[[int, Trials], None]  # the place of a chunk, and what was seen in it


class Chunk(NamedTuple):
    """Some trials of a world, with draws of their own."""

    world: World
    trials: int
    secret: SecretSeed


Spread = Callable[[AnyWorlds, Sequence[Chunk], Take], None]  # who runs the chunks


def seen(
    worlds: AnyWorlds, needed: Sequence[World], trials: int, secret: SecretSeed, spread: Spread, say: Say | None
) -> dict[World, Trials]:
    """So many trials of each world."""
    chunks, found, done = list(_chunks(worlds, needed, trials, secret)), dict[int, Trials](), 0

    def take(place: int, what: Trials) -> None:
        nonlocal done
        found[place], done = what, done + chunks[place].trials
        if say is not None:
            say(done, len(needed) * trials)

    spread(worlds, chunks, take)
    runs: dict[World, Trials] = {}
    for world in needed:
        places = [place for place, chunk in enumerate(chunks) if chunk.world == world]
        runs[world] = Trials.together([found.pop(place) for place in places])
    return runs


def threads(worlds: AnyWorlds, chunks: Sequence[Chunk], take: Take, number: int | None = None) -> None:
    """By threads of this process, one for each core if no number is given."""
    for place, what in enumerate(workers.spread(partial(_run, worlds), chunks, number)):
        take(place, what)


def cores(worlds: AnyWorlds, chunks: Sequence[Chunk], take: Take, number: int | None = None) -> None:
    """By processes, one for each core if no number is given; by threads what takes no time, or cannot be sent.

    A fresh process imports the program's main module: of a script, what begins this stands below
    `if __name__ == "__main__"`.
    """
    number, began = workers.count(number), time.perf_counter()
    threads(worlds, chunks[:1], take)
    left = (time.perf_counter() - began) * (len(chunks) - 1)
    packed = _packed(worlds) if number > 1 and left > WORTH else None

    def beside(place: int, what: Trials) -> None:
        take(place + 1, what)

    if packed is None:
        threads(worlds, chunks[1:], beside, number)
        return
    rest = chunks[1:]
    number = min(number, len(rest))
    orders = [(packed, [(place, rest[place]) for place in range(first, len(rest), number)]) for first in range(number)]
    heard = set[int]()

    def hear(place: int, message: processes.Message) -> None:
        if message[0] == "seen":
            heard.add(message[1])
            beside(message[1], _opened(*message[2]))
        elif message[0] == "failed":
            raise Mistake(message[1])
        elif not heard.issuperset(range(place, len(rest), number)):
            raise Mistake(GONE)

    processes.stream(orders, _steps, number, hear)


def _chunks(worlds: AnyWorlds, needed: Sequence[World], trials: int, secret: SecretSeed) -> Iterator[Chunk]:
    """As many trials in each as memory has room for."""
    step = max(1, min(SIZE, ROOM // (worlds.size * worlds.cohort)))
    for number, world in enumerate(needed):
        own = _named(secret, "world", number)
        for place, first in enumerate(range(0, trials, step)):
            yield Chunk(world, min(step, trials - first), _named(own, "trials", place))


def _named(secret: SecretSeed, *label: str | int) -> SecretSeed:
    return SecretSeed.simulated(int.from_bytes(secret.key(*label)[:8]))


def _run(worlds: AnyWorlds, chunk: Chunk) -> Trials:
    return worlds.seen(*chunk)


def _packed(worlds: AnyWorlds) -> bytes | None:
    """As another process reads it; None where parts of the scheme are of a file that it does not know."""
    try:
        return pickle.dumps(replace(worlds))  # without what it has found so far
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _steps(order: tuple[bytes, list[tuple[int, Chunk]]], _: int) -> Iterator[processes.Message]:
    """In a process of its own: the chunks of an order, one after the other."""
    worlds = pickle.loads(order[0])
    for place, chunk in order[1]:
        yield "seen", place, _arrays(_run(worlds, chunk))


def _arrays(found: Trials) -> tuple[Any, ...]:
    """As arrays: torch would send tensors as open files of shared memory, of which there may be little."""
    views = {view: x.numpy() for view, x in found.views.items()}
    return views, [x.numpy() for x in found.noise], [x.numpy() for x in found.added]


def _opened(views: dict[str, Any], noise: list[Any], added: list[Any]) -> Trials:
    def tensors(found: list[Any]) -> list[torch.Tensor]:
        return [torch.from_numpy(x) for x in found]

    return Trials({view: torch.from_numpy(x) for view, x in views.items()}, tensors(noise), tensors(added))
