"""Parts that make a contract visible: a trainer whose update is known, a transport that looks around."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from hush.data.samples import Samples, Split
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger
from hush.rng import SecretSeed
from hush.rounds import Report, rounds
from hush.scheme import Scheme
from hush.spec import Members, Plan, Total
from hush.state import Books
from hush.task import Task
from hush.trainers import Engine
from hush.transports import Local

TURNS = ("hush-trusted",)  # whose noise counts on turns: test_turns.py has what others show with cohorts by chance


@dataclass(frozen=True)
class Still:
    """A trainer that has nothing to say: what a private scheme then releases is its noise alone."""

    def fit(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        secret: SecretSeed,
        round: int,
        engine: Engine = Engine(),
    ) -> Tensor:
        return weights.new_zeros(len(clients), weights.numel() if live is None else live.numel())


@dataclass(frozen=True)
class Says:
    """A trainer that says the given row, whoever it is."""

    row: Tensor

    def fit(
        self,
        task: Task,
        weights: Tensor,
        live: Tensor | None,
        clients: Members,
        secret: SecretSeed,
        round: int,
        engine: Engine = Engine(),
    ) -> Tensor:
        return self.row.expand(len(clients), -1).clone()


@dataclass
class Watch:
    """A transport that writes down the plan, the total, and what the ledger held when it was asked."""

    ledger: Ledger = field(default_factory=Ledger)
    inner: Local = Local()
    plans: list[Plan] = field(default_factory=list)
    cohorts: list[list[int]] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    held: list[tuple[Event, ...]] = field(default_factory=list)

    def gather(
        self, scheme: Scheme, task: Task, plan: Plan, cohort: Members, secret: SecretSeed, books: Books
    ) -> Total:
        self.plans.append(plan)
        self.cohorts.append(cohort.tolist())
        self.held.append(self.ledger.events)
        total = self.inner.gather(scheme, task, plan, cohort, secret, books)
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
    return Task(model(), nn.functional.cross_entropy, rows, split, public=rows.rows(torch.tensor([clients])))
