"""What is only summed need not exist apart: sums of blocks and one draw of noise stand for every client's own."""

from dataclasses import replace
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
from hush.core.memory import Memory
from hush.core.scheme import Scheme
from hush.core.sums import addable, summed
from hush.core.task import Task
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip
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
