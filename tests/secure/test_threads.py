"""Two threads with one client, or one server: one of them gets the answer, and nothing is said or added twice."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hush.errors import Mistake
from hush.secure.driver import answer
from hush.secure.messages import PHASES, Phase
from secure.cohorts import Kept, identities, keep, plain, snapshot, terms
from secure.test_twoserver import pair, send

PEOPLE = identities(12)
TRIES, THREADS = 40, 4


@pytest.fixture(scope="module")
def kept() -> Kept:
    return keep(PEOPLE, terms(PEOPLE, size=3000))


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def at_once(call: Callable[[], Any], threads: int = THREADS) -> list[Any]:
    """What each of several threads got: an answer, or what was raised."""
    start, found = threading.Barrier(threads), []

    def one() -> None:
        start.wait()
        try:
            found.append(call())
        except Exception as why:
            found.append(why)

    running = [threading.Thread(target=one) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return found


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_client_answers_once(kept: Kept, phase: Phase) -> None:
    """Of threads that deliver the same message at once one gets the answer, and the others hear that it was given."""
    for attempt in range(TRIES):
        name = list(PEOPLE)[attempt % len(PEOPLE)]
        client, data = kept.client(phase, name), kept.down[phase][name]
        found = at_once(lambda one=client, data=data, name=name: answer(one, phase, data, kept.values[name]))
        assert [one for one in found if isinstance(one, bytes)] == [one for one in found if type(one) is not Mistake]
        assert sum(isinstance(one, bytes) for one in found) == 1
        assert client._phase == phase + 1


@pytest.mark.parametrize("phase", [Phase.MASK, Phase.CONSENT])
def test_a_client_answers_one_of_two_messages(kept: Kept, phase: Phase) -> None:
    """Two messages that are both right, with other neighbours or survivors: which is answered is open, one it is."""
    full = kept.down[phase][7]
    fewer = full[:-1] + bytes([full[-1] & (0x03 if phase is Phase.MASK else 0x07)])  # one less
    for _ in range(TRIES):
        client, messages = kept.client(phase, 7), iter([full, fewer])
        found = at_once(lambda one=client, left=messages: answer(one, phase, next(left), kept.values[7]), threads=2)
        assert sorted(type(one).__name__ for one in found) == ["Mistake", "bytes"]


def test_a_server_adds_once(kept: Kept) -> None:
    for _ in range(TRIES):
        server = snapshot(kept.servers[Phase.MASK])
        assert sorted(at_once(lambda one=server: one.take(7, kept.up[Phase.MASK][7]))) == [False] * 3 + [True]
    total, who = kept.rest(server)
    assert np.array_equal(total, plain(kept.agreed, kept.values, who))


def test_half_a_sum_is_told_once() -> None:
    """Two sets of clients for which a half is added up would reveal what differs."""
    people = identities(6)
    agreed = terms(people, size=3000)
    for _ in range(TRIES // 4):
        here, there = pair(agreed)
        send(here, there, identities(6), agreed)
        told = there.present()
        found = at_once(lambda one=here, present=told: one.add(present))
        assert sum(isinstance(one, bytes) for one in found) == 1
        assert all(type(one) is Mistake for one in found if not isinstance(one, bytes))
