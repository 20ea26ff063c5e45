"""What is only summed need not exist apart: sums of blocks and one draw of noise stand for every client's own."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from contracts.parts import Still, Watch, run, wide
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.engine import Engine
from hush.core.memory import Memory
from hush.core.plain import Sum
from hush.core.scheme import Scheme
from hush.core.spec import Asked, ClientContext, Plan, Total, Uploads
from hush.core.sums import addable, summed
from hush.core.task import Block, Task
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip, Noise
from hush.parts.trainers import Sgd
from hush.privacy.ledger import Ledger
from hush.random.seeds import SecretSeed

SECRET, EVERYONE, FEW = SecretSeed.simulated(3), np.arange(12), 9
SIGMA, S = 1.3, 0.7
SINGLE = {"two-bit"}  # whose aggregator looks at single uploads


def every_fourth_in_round_two(round: int, client: int) -> bool:
    return round == 2 and client % 4 == 0


def test_a_block_adds_up_to_its_clients(entry: Entry, task: Task, settings: Settings) -> None:
    scheme, watch = entry.scheme(replace(settings, sampling=Fixed(len(EVERYONE)))), Watch()
    assert (addable(scheme) is None) == (entry.name in SINGLE)
    if addable(scheme) is None:
        return
    run(scheme, task, 1, transport=watch)
    (plan,), front = watch.plans, replace(scheme, stages=scheme.stages[: addable(scheme)])
    apart = front.client(task.block(EVERYONE, SECRET, Memory()), plan).double()
    whole = summed(scheme, task.block(EVERYONE, SECRET, Memory()), plan)
    assert whole.shape == (1, apart.shape[1])
    assert apart.norm() > 0
    assert (whole[0].double() - apart.sum(0)).norm() <= 1e-5 * apart.norm()


def test_bytes_events_and_aborts_are_the_same(entry: Entry, task: Task, settings: Settings) -> None:
    scheme = entry.scheme(replace(settings, sampling=Fixed(10, tolerance=0.3)))
    ledgers = Ledger(), Ledger()
    added, apart = (
        run(scheme, task, 3, transport=Simulated(lost=every_fourth_in_round_two, exact=exact), ledger=ledger)
        for exact, ledger in zip((False, True), ledgers, strict=True)
    )
    assert ledgers[0].events == ledgers[1].events
    for one, other in zip(added, apart, strict=True):
        assert (one.bytes, one.cohort, one.aborted, one.epsilon) == (other.bytes, other.cohort, False, other.epsilon)
    assert (added[-1].state.traffic.counts == apart[-1].state.traffic.counts).all()


@dataclass(frozen=True)
class Silent(Sgd):
    """Has a way of its own to train."""

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> torch.Tensor:
        return 0 * super().fit(block, plan, engine)


@dataclass(frozen=True)
class Narrow(Clip):
    """Cuts number by number."""

    def encode(self, x: torch.Tensor, ctx: ClientContext) -> torch.Tensor:
        each = self.bound / x.shape[1] ** 0.5
        return x.clamp(-each, each)


@dataclass(frozen=True)
class Shifted(Noise):
    """Adds something else."""

    def encode(self, x: torch.Tensor, ctx: ClientContext) -> torch.Tensor:
        return x + 7


@dataclass(frozen=True)
class Median(Sum):
    """Looks at single uploads."""

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        rows = torch.cat([upload.rows for upload in uploads]).double()
        return Total(rows.median(0).values * len(rows), len(rows), 1.0)


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(Silent(0.5, 3, None), Fixed(9)),
        Scheme(Sgd(0.5, 3, None), Fixed(9), stages=(Narrow(0.1),)),
        Scheme(Sgd(0.5, 3, None), Fixed(9), stages=(Clip(0.1), Shifted(1.0))),
        Scheme(Sgd(0.5, 3, None), Fixed(9), aggregator=Median()),
    ],
    ids=["trainer", "clip", "noise", "aggregator"],
)
def test_a_part_with_a_method_of_its_own_is_not_taken_for_its_parent(scheme: Scheme, make) -> None:
    """What a parent says of its own method is given up: the sum is of what the part does."""
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    added, apart = (run(scheme, task, 1, transport=Simulated(exact=exact))[0].state.weights for exact in (False, True))
    torch.testing.assert_close(added, apart, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def large() -> Task:
    """101,000 weights and 10 clients."""
    return wide(lambda: nn.Linear(1000, 101, bias=False), 10)


def released(scheme: Scheme, task: Task, lost: int, exact: bool) -> list[torch.Tensor]:
    """The noise of each round: the clients have nothing else to say."""
    weights = [flatten(task.model)]
    transport = Simulated(lost=lambda round, client: client < lost, exact=exact)
    for report in run(scheme, task, 2, 4, transport=transport):
        weights.append(report.state.weights)
    return [(after - before).double() for before, after in pairwise(weights)]


@pytest.mark.parametrize("secure", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("lost", [0, 2])
def test_one_draw_is_distributed_as_the_sum_of_the_shares(secure: bool, lost: int, large: Task) -> None:
    """The deviation within 1 %, Kolmogorov and Smirnov, and no round that knows of another."""
    sampling = Fixed(FEW, tolerance=0.33, dropout=0.1)
    settings = Settings(sampling=sampling, clip=Clip(S), noise=SIGMA)
    scheme = replace(ENTRIES["fl-std-dp"].scheme(settings), trainer=Still())
    if secure:
        scheme = secured(scheme, large, bits=16)
    needed = addable(scheme)
    assert needed is not None
    assert needed < len(scheme.stages)
    one, two = released(scheme, large, lost, exact=False)
    apart = released(scheme, large, lost, exact=True)[0]
    assert float(one.std()) == pytest.approx(float(apart.std()), rel=0.01)
    assert stats.ks_2samp(one.numpy(), apart.numpy()).pvalue > 1e-3
    for a, b in ((one, two), (one[:-1], one[1:])):
        assert abs(float(np.corrcoef(a.numpy(), b.numpy())[0, 1])) < 5 / len(a) ** 0.5
