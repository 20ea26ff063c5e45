"""Trials in chunks: the same ones whoever runs them, and nothing is left where a process dies or Ctrl-C is typed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch

import hush
from hush.audit import chunks
from hush.audit.mechanism import mechanism
from hush.audit.records import RecordWorlds
from hush.audit.trials import Given
from hush.audit.worlds import Worlds
from hush.random.seeds import SecretSeed

STAGES = (hush.Clip(1.0), hush.Rotate(0), hush.Quantise(16, 12), hush.IntegerNoise(1.3))
SCHEME = hush.Scheme(hush.Sgd(0.1, 1, 1), hush.Poisson(0.01), stages=STAGES)
RECORDS = hush.Scheme(hush.Dpsgd(rate=0.1, steps=1, batch=12, clip=1.0, noise=2.0), hush.Poisson(0.01))
SECRET = SecretSeed.simulated(0)


def of(worlds, spread, trials=100):
    return chunks.seen(worlds, [worlds.present, worlds.absent("upload")], trials, SECRET, spread, None)


def same(one, other):
    assert list(one) == list(other)
    for world, found in one.items():
        beside = other[world]
        assert list(found.views) == list(beside.views)
        for ours, theirs in zip(
            [*found.views.values(), *found.noise, *found.added],
            [*beside.views.values(), *beside.noise, *beside.added],
            strict=True,
        ):
            assert torch.equal(ours, theirs)


def alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def short(monkeypatch):
    """Small chunks, and processes for however little there is to do."""
    monkeypatch.setattr(chunks, "SIZE", 16)
    monkeypatch.setattr(chunks, "WORTH", -1.0)


def test_one_worker_and_two_find_the_same(short):
    said = []
    one, two = (
        mechanism(SCHEME, trials=100, size=64, spread=spread, say=lambda *done: said.append(done))
        for spread in (partial(chunks.threads, number=1), partial(chunks.cores, number=2))
    )
    assert one == two
    assert multiprocessing.active_children() == []
    half = len(said) // 2
    assert said[half - 1] == said[-1] == (300, 300)
    assert [done for done, _ in said[half:]] == sorted({done for done, _ in said[half:]})


@pytest.mark.parametrize("worlds", [Worlds(SCHEME, 32, 4), RecordWorlds(RECORDS, 8)], ids=["clients", "records"])
def test_threads_and_what_is_sent_to_a_process_find_the_same(short, worlds):
    one, two = (of(worlds, partial(chunks.threads, number=number)) for number in (1, 2))
    same(one, two)
    given = list(chunks._chunks(worlds, list(one), 100, SECRET))
    assert len(given) == 14
    order = chunks._packed(worlds), list(enumerate(given))  # now that it has found what it keeps

    def here(_, wanted, take):
        for _, place, arrays in chunks._steps(order, 1):
            take(place, chunks._opened(*arrays))

    same(one, of(worlds, here))


def test_draws_of_no_two_chunks_are_the_same(short):
    worlds = Worlds(SCHEME, 32, 4)
    for found in of(worlds, chunks.threads).values():
        assert len(torch.unique(found.views["upload"], dim=0)) == 100
    present, absent = (
        of(worlds, chunks.threads)[world].views["server"] for world in (worlds.present, worlds.absent(""))
    )
    assert not bool((present[:, None] == absent[None]).all(2).any())


def test_what_takes_no_time_or_cannot_be_sent_stays_here(monkeypatch):
    begun = []
    monkeypatch.setattr(chunks.processes, "stream", lambda *_: begun.append(1) or iter(()))
    of(Worlds(SCHEME, 32, 4), partial(chunks.cores, number=2))
    monkeypatch.setattr(chunks, "WORTH", -1.0)

    class Own(Given):
        """Of a file that no other process can import."""

    scheme = hush.Scheme(Own(torch.zeros(1, 1), (0,)), hush.Poisson(0.01), stages=STAGES)
    monkeypatch.setattr(chunks, "SIZE", 16)
    of(Worlds(scheme, 32, 4), partial(chunks.cores, number=2))
    of(Worlds(SCHEME, 32, 4), partial(chunks.cores, number=1))
    assert begun == []


def test_a_process_that_is_killed_ends_the_audit_with_a_sentence(short):
    worlds, taken = Worlds(SCHEME, 32, 4), []

    def take(place, what):
        taken.append(place)
        if len(taken) == 2:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    many = list(chunks._chunks(worlds, [worlds.present], 60_000, SECRET))
    with pytest.raises(hush.Mistake, match=r"was killed, or had no memory left: run the command again, with --workers"):
        chunks.cores(worlds, many, take, 2)
    assert len(taken) < len(many)
    assert multiprocessing.active_children() == []


def test_control_c_leaves_no_traceback_and_no_process():
    """Typed while the processes begin, where Python itself would print one for each."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hush", "audit", "mechanism", "fl-top-dp", "--trials", "2000000", "--workers", "2"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 120
    while len(children.read_text().split()) < 3 and time.monotonic() < until:  # one counts what is shared
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    while alive(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(process.pid)
