"""Cluster and Simulated are one: the same weights, bytes and ledger, whatever becomes of a worker."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from clusters import leave
from contracts.parts import run
from torch import nn

from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.engine import Engine
from hush.core.memory import Memory
from hush.core.rounds import Report
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Uploads
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.errors import Mistake
from hush.federation import nodes, parcels
from hush.federation.blocks import Simulation, Work
from hush.federation.cluster import Cluster
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    nodes.connect("local", 2)
    yield
    leave()


Make = Callable[[Settings, Task], Scheme]
SCHEMES: dict[str, Make] = {
    name: lambda settings, task, name=name: ENTRIES[name].scheme(settings)
    for name in ("fl-std", "fl-top-dp", "fl-cs", "top-k-ef", "two-bit", "qsgd", "fl-sign-dp", "standalone")
}
SCHEMES |= {
    "secure": lambda settings, task: secured(ENTRIES["fl-top-dp"].scheme(settings), task),
    "secure full": lambda settings, task: secured(ENTRIES["fl-std-dp"].scheme(settings), task, full=True),
    "vote": lambda settings, task: ENTRIES["fl-top-dp"].scheme(replace(settings, vote=0.5, clip=AdaptiveClip(0.3))),
}


def same(ours: list[Report], theirs: list[Report]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one.state.weights, other.state.weights)
        assert (one.bytes, one.cohort, one.clip) == (other.bytes, other.cohort, other.clip)
    one, other = ours[-1].state, theirs[-1].state
    assert (one.traffic.counts == other.traffic.counts).all()
    kept, others = one.memory.state(), other.memory.state()
    assert kept.keys() == others.keys()
    assert all(np.array_equal(kept[key], others[key]) for key in kept)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_cluster_is_the_simulator(name: str, task: Task, settings: Settings) -> None:
    scheme = SCHEMES[name](replace(settings, sampling=Fixed(8)), task)
    mine, its = Ledger(), Ledger()
    ours = run(scheme, task, 2, ledger=mine, transport=Cluster(block=3, workers=2))
    same(ours, run(scheme, task, 2, ledger=its, transport=Simulated(block=3)))
    assert mine.events == its.events
    if name != "standalone":  # whose weights stay, and whose clients keep their own
        assert not torch.equal(ours[-1].state.weights, flatten(task.model))
    assert (len(ours[-1].state.memory) > 0) == (name in ("top-k-ef", "standalone"))


def test_who_drops_out_is_missed(task: Task, settings: Settings) -> None:
    scheme = ENTRIES["two-bit"].scheme(replace(settings, sampling=Fixed(12, tolerance=0.25)))

    def gone(round: int, client: int) -> bool:
        return round == 2 and client < 3

    ours, theirs = (run(scheme, task, transport=at(block=2, lost=gone)) for at in (Cluster, Simulated))
    same(ours, theirs)
    assert ours[1].cohort == 9


def test_a_hundred_thousand_clients(settings: Settings) -> None:
    """With cohorts of a thousand, in blocks as they come."""
    inputs = torch.randn(100_000, 6, generator=torch.Generator().manual_seed(0))
    rows = Samples(inputs, (inputs[:, 0] > 0).long())
    task = Task(
        nn.Linear(6, 2), nn.functional.cross_entropy, rows, Split.of(range(100_000)[k : k + 1] for k in range(100_000))
    )
    for name in ("fl-std", "fl-std-dp"):
        scheme = ENTRIES[name].scheme(replace(settings, sampling=Fixed(1000)))
        ours, theirs = (run(scheme, task, 2, transport=transport) for transport in (Cluster(workers=2), Simulated()))
        same(ours, theirs)
        assert [report.cohort for report in ours] == [1000, 1000]


@dataclass(frozen=True)
class Mortal:
    """A crew one of whose workers is killed in round 2, with blocks in its hands."""

    crew: nodes.Actors
    killed: list[int]

    def train(self, work: Work, blocks: list[slice], memory: Memory) -> Iterator[Uploads]:
        for place, found in enumerate(self.crew.train(work, blocks, memory)):
            if work.plan.round == 2 and place == 1:
                self.killed.append(ray.get(self.crew.workers[0].ready.remote()))
                os.kill(self.killed[0], signal.SIGKILL)
            yield found


@dataclass(frozen=True)
class Killing:
    """A transport of such a crew."""

    killed: list[int]

    def of(self, task: Task) -> Simulation:
        found = Cluster(block=1, workers=2).of(task)
        return replace(found, crew=Mortal(found.crew, self.killed))


def test_a_killed_worker_changes_nothing(task: Task, settings: Settings) -> None:
    """Its blocks run again, with what their clients kept."""
    scheme, killed = ENTRIES["top-k-ef"].scheme(replace(settings, sampling=Fixed(12))), list[int]()
    ours = run(scheme, task, transport=Killing(killed))
    same(ours, run(scheme, task, transport=Simulated(block=1)))
    now = [ray.get(one.ready.remote()) for one in Cluster(workers=2).of(task).crew.workers]
    assert len(killed) == 1
    assert killed[0] not in now


def test_integers_are_added_where_they_are_made(task: Task, settings: Settings) -> None:
    """One row for a block, the sum of its clients': exact in any order."""
    scheme = SCHEMES["secure"](replace(settings, sampling=Fixed(8)), task)
    plan = Plan(1, flatten(task.model), scheme.coordinates.draw(task.problem, None, 1, None), 8.0, 8.0, 0.45)
    work = Work(scheme, plan, np.arange(8), SecretSeed.simulated(4), Engine("lockstep"))
    blocks = [slice(0, 5), slice(5, 8)]
    for found, block in zip(nodes.Actors.of(task, 2).train(work, blocks, Memory()), blocks, strict=True):
        rows = work.train(task, block, Memory()).rows
        assert (len(found.rows), len(found.sizes), len(rows)) == (1, len(rows), len(rows))
        assert torch.equal(found.rows[0], rows.long().sum(0))


def test_a_mistake_at_a_worker_is_the_users(make: Any, settings: Settings) -> None:
    shared = nn.Linear(64, 64)
    twice = make(nn.Sequential(nn.Flatten(), shared, nn.ReLU(), shared, nn.Linear(64, 10)))
    with pytest.raises(Mistake, match="engine='lockstep' needs a model") as found:
        run(ENTRIES["fl-std"].scheme(settings), twice, 1, transport=Cluster(workers=2, engine=Engine("lockstep")))
    assert "Traceback" not in str(found.value)


def test_parcels_are_not_copied() -> None:
    """What is unpacked lies in the buffers, in the order in which it lay, and may be read without a warning."""
    lying = torch.randn(3, 8, 8, 2).permute(0, 3, 1, 2)
    value = {"a": lying, "b": [torch.arange(5), torch.zeros(0), torch.tensor(2.5)], "c": nn.Linear(2, 3)}
    parcel = parcels.pack(value)
    for buffer in parcel.buffers:
        buffer.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = parcels.unpack(parcel)
    assert found["a"].stride() == lying.stride()
    assert torch.equal(found["a"], lying)
    assert all(torch.equal(one, other) for one, other in zip(found["b"], value["b"], strict=True))
    assert torch.equal(found["c"].weight, value["c"].weight)
    assert found["a"].data_ptr() in {buffer.ctypes.data for buffer in parcel.buffers}
    own = parcels.unpack(parcel, own=True)["a"]
    assert torch.equal(own, lying)
    assert own.data_ptr() % 64 == 0
    assert own.data_ptr() != found["a"].data_ptr()


def test_mistakes(monkeypatch: pytest.MonkeyPatch, task: Task) -> None:
    with pytest.raises(Mistake, match="block=0 must be at least 1"):
        Cluster(block=0)
    with pytest.raises(Mistake, match="more than the 2 cores of the cluster"):
        Cluster(workers=3).of(task)
    worker = nodes.Worker("another machine")
    with pytest.raises(Mistake, match="machines of one kind"):
        worker.ready()
    for address, why in (("here", "must be local, auto or HOST:PORT"), ("127.0.0.1:1", "cannot be reached")):
        with pytest.raises(Mistake, match=why):
            nodes._reach(address)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Mistake, match=r"pip install 'hush-fl\[ray\]'"):
        nodes.connect("local")
