"""The fast code equals its slow twin, scheme by scheme."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from contracts.parts import TURNS, Around
from torch import Tensor, nn

from hush.catalogue.clipping import public_bound
from hush.catalogue.entries import ENTRIES
from hush.catalogue.values import Settings
from hush.core.clients import Order
from hush.core.engine import Engine
from hush.core.protocols import Aggregator
from hush.core.rounds import Report
from hush.core.scheme import Scheme
from hush.core.spec import Asked, Total, Uploads
from hush.core.task import Task
from hush.federation.simulated import Simulated, Transport, rounds
from hush.models.weights import flatten
from hush.parts.sampling import Fixed, Once, Poisson
from hush.parts.stages import AdaptiveClip
from hush.random.seeds import PublicSeed, SecretSeed
from reference import twins
from reference.draws import Draws
from reference.twins import TWINS, Setting

SAMPLINGS = {"fixed": Fixed(5), "poisson": Poisson(0.4), "once": Once(3), "twice": Once(2, passes=2)}
CHANCE, BY_TURNS = ("fixed", "poisson"), ("once", "twice")
SEED = 4


@dataclass
class Overheard(Around):
    """A transport that writes down what each client sends, by round and client."""

    sent: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def collect(self, order: Order) -> Total:
        ear = _Ear(order.scheme.aggregator, self.sent)
        return super().collect(replace(order, scheme=replace(order.scheme, aggregator=ear)))


@dataclass(frozen=True)
class _Ear(Aggregator):
    aggregator: Aggregator
    sent: dict[tuple[int, int], Tensor]

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        def heard() -> Iterator[Uploads]:
            for block in uploads:
                for client, row in zip(block.clients.tolist(), block.rows, strict=True):
                    self.sent[asked.round, client] = row.clone()
                yield block

        return self.aggregator.combine(heard(), asked)


def setting(task: Task, settings: Settings, seed: int = SEED, total: int = 3) -> Setting:
    """The same run for the twin."""
    sampling = settings.sampling
    if isinstance(sampling, Once):
        draws = Draws(seed, task.clients, turns=sampling.cohorts)
    else:
        cohorts = {"size": sampling.size} if isinstance(sampling, Fixed) else {"rate": sampling.probability}
        draws = Draws(seed, task.clients, **cohorts)
    S = settings.clip.start if isinstance(settings.clip, AdaptiveClip) else settings.clip.bound
    return Setting(task, settings, draws, total, S, settings.noise)


def last(scheme: Scheme, task: Task, seed: int = SEED, total: int = 3, transport: Transport | None = None) -> Report:
    """The last round; each client's noise is its own, as the twins have it."""
    transport = transport or Simulated(exact=scheme.source is not None)
    return list(rounds(scheme, task, rounds=total, seed=seed, accountant="rdp", transport=transport))[-1]


def assert_same(fast: Tensor, slow: Tensor, start: Tensor, steady: bool = True) -> None:
    """Within 1e-5 of how far training went, and exactly where it began wherever the twin did not move.

    Not steady: coins may lead forth and back by the same step, which float32 does not quite undo.
    """
    moved = (slow - start.double()).norm()
    assert moved > 1e-3
    assert (fast.double() - slow).norm() <= 1e-5 * moved
    torch.testing.assert_close(fast.double(), slow, rtol=1e-5, atol=1e-6)
    still = slow == start.double()
    assert torch.equal(fast[still], start[still]) or not steady


def test_every_scheme_has_a_twin() -> None:
    assert set(TWINS) == set(ENTRIES)


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        *((name, how) for name in ENTRIES if name not in TURNS for how in CHANCE),
        *((name, how) for name in ("hush-once", *TURNS) for how in BY_TURNS),
    ],
)
def test_equal(name: str, sampling: str, task: Task, settings: Settings) -> None:
    settings = replace(settings, sampling=SAMPLINGS[sampling])
    total = 4 if sampling == "twice" else 3
    heard = Overheard()
    report = last(ENTRIES[name].scheme(settings), task, total=total, transport=heard if name == "top-k-ef" else None)
    fast, start = torch.cat(list(report.models)), flatten(task.model)
    slow = TWINS[name](replace(setting(task, settings, total=total), sent=heard.sent))
    assert_same(fast, slow, start.repeat(len(fast) // len(start)), name != "two-bit-dp")


def test_a_wrong_choice_is_seen() -> None:
    """The margin lets equal numbers change places, and no others."""
    whole = torch.tensor([3.0, -2.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    for places, right in (([0, 1], True), ([0, 2], True), ([0, 3], False), ([1, 2], False), ([0], False)):
        sent = torch.zeros(5)
        sent[places] = 1.0
        with nullcontext() if right else pytest.raises(AssertionError):
            assert twins.largest(whole, 2, sent).nonzero().flatten().tolist() == places
    with pytest.raises(AssertionError):
        twins.largest(whole, 2, torch.ones(5))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.Tanh(), nn.Conv2d(4, 5, 3), nn.Flatten(), nn.Linear(20, 10)
    )


@pytest.mark.parametrize("engine", [None, "lockstep", "vmap"])
@pytest.mark.parametrize("name", ["fl-std", "fl-std-dp", "fl-top-dp", "fl-bas-2-dp", "fl-bas-3"])
def test_equal_for_any_block_and_number_of_workers(name: str, engine: str | None, make, settings: Settings) -> None:
    """Within 1e-5 of the twin; the same bits for any number of workers, and when repeated."""
    task = make(convolutional())
    settings = replace(settings, sampling=Poisson(0.6))
    scheme, slow = ENTRIES[name].scheme(settings), TWINS[name](setting(task, settings))
    exact = scheme.source is not None
    for block in (None, 1, 3, 100):
        found = [
            last(scheme, task, transport=Simulated(block, None, workers, Engine(engine), exact)).state.weights
            for workers in (1, 2, 5, 1)
        ]
        assert_same(found[0], slow, flatten(task.model))
        assert all(torch.equal(found[0], other) for other in found)


def test_the_setting_is_a_test(task: Task, settings: Settings) -> None:
    """Clients below, at and above the batch, and updates below and above the bound, are all there."""
    s = setting(task, settings)
    sizes = {len(task.split.rows_of(client)) for t in (1, 2, 3) for client in s.draws.cohort(t)}
    assert min(sizes) < settings.batch < max(sizes)
    w, T = flatten(task.model).double(), twins.top_k(s)
    norms = [float(twins.local(s, 1, client, w, T, False).norm()) for client in range(task.clients)]
    assert min(norms) < s.S < max(norms)


@pytest.mark.parametrize("name", [e.name for e in ENTRIES.values() if e.level == "client" and e.name not in TURNS])
def test_equal_with_an_empty_cohort(name: str, task: Task, settings: Settings) -> None:
    """Poisson sampling may draw nobody: the server's noise alone moves the model."""
    settings = replace(settings, sampling=Poisson(0.08))
    empty = (seed for seed in range(100) if not Draws(seed, task.clients, rate=0.08).cohort(2))
    seed = next(empty)
    fast = last(ENTRIES[name].scheme(settings), task, seed).state.weights
    assert_same(fast, TWINS[name](setting(task, settings, seed)), flatten(task.model))


@pytest.mark.parametrize("name", ["fl-std", "fl-std-dp", "fl-top", "fl-top-dp", "fl-basic", "fl-bas-2-dp"])
def test_equal_with_convolutions(name: str, make, settings: Settings) -> None:
    task = make(
        nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64, 10),
        )
    )
    fast = last(ENTRIES[name].scheme(settings), task, total=2).state.weights
    assert_same(fast, TWINS[name](setting(task, settings, total=2)), flatten(task.model))


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5])
def test_top_k(ratio: float, task: Task, settings: Settings) -> None:
    settings = replace(settings, ratio=ratio)
    fast = settings.top().draw(task.problem, PublicSeed(SEED), 0, None)
    assert fast.tolist() == twins.top_k(setting(task, settings))


def test_vote(task: Task, settings: Settings) -> None:
    """The vote's set, and the training that follows it."""
    settings = replace(settings, vote=0.3)
    s = setting(task, settings, total=2)
    report = last(ENTRIES["fl-top-dp"].scheme(settings), task, total=2)
    T = twins.voted(s, 0.3)
    assert twins.top_k(s) != T
    assert report.state.live.tolist() == T
    assert_same(report.state.weights, twins.fixed_set(s, T, free=False, private=True), flatten(task.model))


def test_adaptive_clip(task: Task, settings: Settings) -> None:
    settings = replace(settings, clip=AdaptiveClip(0.45, quantile=0.6, rate=0.3, weight=0.5))
    s = setting(task, settings)
    report = last(ENTRIES["fl-top-dp"].scheme(settings), task)
    slow, S = twins.adaptive(s, twins.top_k(s), quantile=0.6, rate=0.3, weight=0.5)
    assert S != 0.45
    assert report.clip == pytest.approx(S, rel=1e-5)
    assert_same(report.state.weights, slow, flatten(task.model))


@pytest.mark.parametrize(
    ("name", "batch"),
    [*((e.name, 4) for e in ENTRIES.values() if e.level == "client" and not e.featured), ("fl-top-dp", 10)],
)
def test_bound_on_public_data(name: str, batch: int, task: Task, settings: Settings) -> None:
    """With a public batch of 10 that is larger than a batch, and just as large."""
    settings = replace(settings, batch=batch, steps=2)
    s = setting(task, settings)
    fresh = name in ("fl-basic-dp", "fl-bas-2-dp")
    free = name in ("fl-bas-2-dp", "fl-bas-4-dp", "fl-top-bis-dp")
    sets = {"top": twins.top_k, "bas": twins.random_k, "head": twins.head}
    some = sets.get(name.split("-")[1].removesuffix("ic"))
    fixed = None if some is None else some(s)
    matrix = s.draws.sensed(s.n, s.K, s.k.chunks, s.k.seed) if name == "fl-cs-dp" else None
    fast = public_bound(ENTRIES[name], settings, task, PublicSeed(SEED))
    assert fast == pytest.approx(twins.bound(s, fixed, fresh, free, matrix), rel=1e-5)


def test_cohorts_have_the_drawn_names(task: Task) -> None:
    for sampling, draws in (
        (Fixed(5), Draws(SEED, task.clients, size=5)),
        (Poisson(0.4), Draws(SEED, task.clients, rate=0.4)),
        (Once(2, passes=2), Draws(SEED, task.clients, turns=2)),
    ):
        for t in range(isinstance(sampling, Once), 5):  # round 0 is the vote
            fast = sampling.draw(task.clients, SecretSeed.simulated(SEED), t)
            assert np.array_equal(fast, draws.cohort(t))
