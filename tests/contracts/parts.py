"""Parts that make a contract visible: a trainer whose update is known, a transport that looks around."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor, nn

from hush.core.clients import Opening, Order
from hush.core.engine import Engine
from hush.core.protocols import Trainer
from hush.core.rounds import Report
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Total
from hush.core.task import Block, Task
from hush.data.samples import Samples, Split
from hush.federation.simulated import Simulated, rounds
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger

TURNS = ("hush-trusted",)  # whose noise counts on turns: test_turns.py has what others show with cohorts at random


@dataclass(frozen=True)
class Still(Trainer):
    """A trainer that has nothing to say: what a private scheme then releases is its noise alone."""

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        return plan.weights.new_zeros(len(block), (plan.weights if plan.live is None else plan.live).numel())


@dataclass(frozen=True)
class Says(Trainer):
    """A trainer that says the given row, whoever it is."""

    row: Tensor

    def fit(self, block: Block, plan: Plan, engine: Engine = Engine()) -> Tensor:
        return self.row.expand(len(block), -1).clone()


@dataclass
class Around:
    """A transport around another: what it does beside passing orders on is for who makes one of it."""

    inner: Simulated = Simulated()

    def of(self, task: Task) -> Self:
        self.clients = self.inner.of(task)
        return self

    @property
    def enrolled(self) -> Task:
        return self.clients.enrolled

    def begin(self, terms: Opening) -> int | None:
        return self.clients.begin(terms)

    def collect(self, order: Order) -> Total:
        return self.clients.collect(order)


@dataclass
class Watch(Around):
    """A transport that writes down the plan, the total, and what the ledger held when it was asked."""

    ledger: Ledger = field(default_factory=Ledger)
    plans: list[Plan] = field(default_factory=list)
    cohorts: list[list[int]] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    held: list[tuple[Event, ...]] = field(default_factory=list)

    def collect(self, order: Order) -> Total:
        self.plans.append(order.plan)
        self.cohorts.append(order.cohort.tolist())
        self.held.append(self.ledger.events)
        total = super().collect(order)
        self.totals.append(total)
        return total


def run(scheme: Scheme, task: Task, total: int = 3, seed: int = 4, **other: object) -> list[Report]:
    """All reports, each with a copy of the weights that it had, since the state moves on."""
    kept = []
    for report in rounds(scheme, task, rounds=total, seed=seed, **{"accountant": "rdp", **other}):
        kept.append(replace(report, state=replace(report.state)))
    return kept


def wide(model: Callable[[], nn.Module], clients: int) -> Task:
    """One random row per client, for a model of many weights."""
    inputs = torch.rand(clients + 1, 1000, generator=torch.Generator().manual_seed(0))
    rows = Samples(inputs, torch.arange(clients + 1))
    split = Split.of([[client] for client in range(clients)])
    return Task(
        model(), nn.functional.cross_entropy, rows, split, public=rows.rows(torch.tensor([clients])), featured=True
    )
