"""DP-SGD: which records, how much noise, how far one record can move what is released."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.core.engine import Engine
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.data.samples import Samples, Split
from hush.data.sparse import Sparse
from hush.errors import Mistake
from hush.models.weights import flatten, glorot
from hush.parts.sampling import Fixed, Poisson
from hush.parts.trainers.clipped import sums
from hush.parts.trainers.dpsgd import Dpsgd
from hush.parts.trainers.sgd import Sgd
from hush.random.seeds import PublicSeed, SecretSeed

SECRET = SecretSeed.simulated(1)
BASE = Dpsgd(rate=0.5, steps=1, batch=5, clip=0.7, noise=1.3)
ALONE = Scheme(BASE, Fixed(1))
SIZES = (1, 7, 20, 32)
EVERYONE = np.arange(len(SIZES))


def binary(output: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).to(output.dtype))


def table(model: nn.Module | None = None, sparse: bool = False, targets: Tensor | None = None) -> Task:
    """60 records of 40 numbers, a quarter of class 1, over 4 clients."""
    g = torch.Generator().manual_seed(2)
    inputs = torch.randn(60, 40, generator=g) * (torch.rand(60, 40, generator=g) < 0.3)
    given = (torch.arange(60) % 4 == 0).long() if targets is None else targets
    split = Split(torch.randperm(60, generator=g), torch.tensor([0, *SIZES]).cumsum(0))
    model = model or nn.Sequential(nn.Linear(40, 12), nn.ReLU(), nn.Linear(12, 1))
    return Task(glorot(model, PublicSeed(0)), binary, Samples(Sparse.of(inputs) if sparse else inputs, given), split)


def fit(trainer: Dpsgd, task: Task, clients=EVERYONE, secret=SECRET, round: int = 1, live=None) -> Tensor:
    return trainer.fit(task.block(clients, secret), Plan(round, flatten(task.model), live))


def noise_of(trainer: Dpsgd, task: Task, client: int, round: int = 1) -> Tensor:
    """What was added to the clipped sum in a single step."""
    rows = trainer._batches(task.block(np.array([client]), SECRET), 0, round)[0]
    found = -fit(trainer, task, np.array([client]), round=round)[0].double() * trainer.expected / trainer.rate
    if not len(rows):
        return found
    data = task.train.rows(rows)
    exact = sums(task.model, task.loss, flatten(task.model), data.inputs, data.targets, trainer.clip, [len(rows)])
    return found - exact[0].double()


@pytest.mark.parametrize(("clip", "noise"), [(0.1, 1.3), (2.0, 1.3), (2.0, 0.5), (1.0, 4.0)])
def test_the_noise_has_deviation_s_sigma(clip: float, noise: float) -> None:
    """S sigma, not the sigma that Algorithm 6 prints, nor S sigma over the batch or its root."""
    task = table(nn.Sequential(nn.Linear(40, 500), nn.ReLU(), nn.Linear(500, 1)))
    found = noise_of(replace(BASE, clip=clip, noise=noise), task, 3)
    assert len(found) == 21_001  # so the deviation is known to half a percent
    assert float(found.std()) == pytest.approx(clip * noise, rel=0.02)
    assert abs(float(found.mean())) < 4 * clip * noise / math.sqrt(len(found))


def test_no_noise_comes_twice() -> None:
    """Each client, step and round has its own, and it is not that of the clip-and-noise stage."""
    task = table()
    found = [noise_of(BASE, task, client, round) for client in (1, 2) for round in (1, 2)]
    found.append(noise_of(replace(BASE, batch=1), task, 1))  # the same name, another batch
    torch.testing.assert_close(found[0], found[-1], rtol=1e-4, atol=1e-5)
    found[-1] = 0.7 * 1.3 * SECRET.normal(len(found[0]), "noise", 1).double()
    for one, other in itertools.combinations(found, 2):
        assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.25
    # In steps that find no records only noise is left: two steps are two draws.
    lonely, alone = replace(BASE, batch=1, steps=2), np.array([3])
    free = next(r for r in range(1, 99) if not any(map(len, lonely._batches(task.block(np.array([3]), SECRET), 0, r))))
    both = fit(lonely, task, alone, round=free)[0] / lonely.deviation(1)
    once = fit(replace(lonely, steps=1), task, alone, round=free)[0] / lonely.deviation(1)
    assert float((both - once).std()) == pytest.approx(1, rel=0.2)
    assert abs(float(torch.corrcoef(torch.stack([once, both - once]))[0, 1])) < 0.25


def test_an_empty_batch_is_noise_alone() -> None:
    """The very numbers of the noise's stream, on dense and sparse records."""
    trainer = replace(BASE, batch=1)
    for sparse in (False, True):
        task = table(sparse=sparse)
        empty = next(r for r in range(1, 99) if not len(trainer._batches(task.block(np.array([2]), SECRET), 0, r)[0]))
        found = fit(trainer, task, np.array([2]), round=empty)
        pure = SECRET.add_normals(torch.zeros_like(found), trainer.deviation(trainer.expected), [2], "dpsgd", empty, 0)
        assert torch.equal(found, pure)
        assert bool(found.any())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("balance", ["none", "downsample", "weights", "rates"])
@pytest.mark.parametrize("steps", [1, 3])
def test_blocks_change_nothing(steps: int, balance: str, sparse: bool) -> None:
    """Any block, in any order; without noise the difference would be as small."""
    task, trainer = table(sparse=sparse), replace(BASE, steps=steps, balance=balance, share=0.25)
    together = fit(trainer, task)
    backwards = fit(trainer, task, EVERYONE[::-1].copy())
    for client in EVERYONE:
        alone = fit(trainer, task, np.array([client]))
        for other in (together[client], backwards.flip(0)[client]):
            assert (other - alone[0]).norm() <= 1e-6 * alone.norm()
    few = fit(replace(trainer, noise=1e-6), task)
    for client in EVERYONE:
        alone = fit(replace(trainer, noise=1e-6), task, np.array([client]))
        assert (few[client] - alone[0]).norm() <= 1e-6 * alone.norm() + 1e-9


def test_dropout_does_not_depend_on_the_block() -> None:
    task = table(nn.Sequential(nn.Linear(40, 12), nn.Dropout(0.5), nn.Linear(12, 1)))
    trainer = replace(BASE, steps=2)
    state = torch.get_rng_state()
    together = fit(trainer, task)
    assert torch.equal(state, torch.get_rng_state())
    for client in EVERYONE:
        assert torch.equal(together[client], fit(trainer, task, np.array([client]))[0])
    assert not torch.equal(together, fit(trainer, task, round=2))


def test_system_noise_is_new_each_time() -> None:
    task, system = table(), SecretSeed.system()
    assert not torch.equal(fit(BASE, task, secret=system), fit(BASE, task, secret=system))
    assert torch.equal(fit(BASE, task), fit(BASE, task))


def test_frozen_coordinates_stay() -> None:
    """The update has the live coordinates alone; the task's weights and data are left as they were."""
    task, live = table(), torch.arange(1, 505, 5)
    start, inputs = flatten(task.model), task.train.inputs.clone()
    before = start.clone()
    assert BASE.fit(task.block(EVERYONE, SECRET), Plan(1, start, live)).shape == (4, len(live))
    assert torch.equal(start, before)
    assert torch.equal(flatten(task.model), before)
    assert torch.equal(task.train.inputs, inputs)


def draws(trainer: Dpsgd, labels: list[int], times: int = 4000) -> list[np.ndarray]:
    rng = SECRET.generator("test")
    return [trainer._draw(len(labels), np.array(labels), rng) for _ in range(times)]


def test_poisson_batches() -> None:
    """Each record by itself at batch/|D_k|: mean and variance of the size, and of each record's count."""
    sizes = np.array([len(batch) for batch in draws(BASE, [0] * 20)])
    assert sizes.mean() == pytest.approx(5, abs=4 * math.sqrt(3.75 / 4000))
    assert sizes.var() == pytest.approx(20 * 0.25 * 0.75, rel=0.1)
    counts = np.bincount(np.concatenate(draws(BASE, [0] * 20)), minlength=20)
    assert (abs(counts / 4000 - 0.25) < 4.5 * math.sqrt(0.25 * 0.75 / 4000)).all()
    assert all(batch.tolist() == list(range(5)) for batch in draws(BASE, [0] * 5, 50))
    assert all(batch.tolist() == [0, 1] for batch in draws(BASE, [0] * 2, 50))


def test_fixed_batches() -> None:
    found = draws(replace(BASE, sampling="fixed"), [0] * 20)
    assert {len(set(batch.tolist())) for batch in found} == {5}
    counts = np.bincount(np.concatenate(found), minlength=20)
    assert (abs(counts / 4000 - 0.25) < 4.5 * math.sqrt(0.25 * 0.75 / 4000)).all()
    assert {len(set(batch.tolist())) for batch in draws(replace(BASE, sampling="fixed"), [0] * 3, 50)} == {3}


def test_batches_are_the_clients_own_and_new_in_each_step_and_round() -> None:
    task, trainer = table(), replace(BASE, steps=3)
    for client in EVERYONE:
        batches = [
            b for round in (1, 2) for b in trainer._batches(task.block(np.array([int(client)]), SECRET), 0, round)
        ]
        assert all(set(b.tolist()) <= set(task.split.rows_of(int(client)).tolist()) for b in batches)
    assert len({tuple(b.tolist()) for b in batches}) == 6


def test_rates_by_class() -> None:
    """Class 1 comes at batch/(2 share n), class 0 at batch/(2 (1 - share) n), each record by itself."""
    trainer = replace(BASE, balance="rates", share=0.25)
    labels = [1] * 10 + [0] * 30
    found = draws(trainer, labels)
    counts = np.bincount(np.concatenate(found), minlength=40) / 4000
    for part, probability in ((slice(0, 10), 0.25), (slice(10, 40), 5 / 60)):
        assert (abs(counts[part] - probability) < 4.5 * math.sqrt(probability * (1 - probability) / 4000)).all()
    sizes = np.array([len(batch) for batch in found])
    assert sizes.mean() == pytest.approx(5, rel=0.03)
    assert sizes.var() == pytest.approx(10 * 0.25 * 0.75 + 30 * (5 / 60) * (55 / 60), rel=0.1)
    # A client whose share is another one: the rates are the public ones all the same.
    lonely = np.bincount(np.concatenate(draws(trainer, [1] + [0] * 39)), minlength=40) / 4000
    assert lonely[0] == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("balance", "sampling", "rarest"),
    [
        ("none", "poisson", 0.25),
        ("none", "fixed", 0.25),
        ("weights", "poisson", 0.25),
        ("weights", "fixed", 0.25),
        ("rates", "poisson", 0.5),
    ],
)
def test_chance(balance: str, sampling: str, rarest: float) -> None:
    """The largest probability that any record of the client has, never above 1."""
    trainer = replace(BASE, balance=balance, share=0.25, sampling=sampling)
    probabilities = trainer.probability(torch.tensor([20, 4, 1, 10**7]))
    torch.testing.assert_close(probabilities, torch.tensor([rarest, 1, 1, rarest * 2e-6], dtype=torch.float64))
    often = np.bincount(np.concatenate(draws(trainer, [1] * 5 + [0] * 15)), minlength=20) / 4000
    assert often.max() == pytest.approx(rarest, abs=4.5 * math.sqrt(0.25 / 4000))


def test_downsampling_yields_equal_classes() -> None:
    """Both classes are as large as the smaller one was, and every subset of the larger one is as likely."""
    labels = [1, 1, 0, 0, 0, 0, 0]
    whole = replace(BASE, batch=7, balance="downsample", share=0.25)
    found = draws(whole, labels)
    assert all(sorted(labels[i] for i in batch) == [0, 0, 1, 1] for batch in found)
    subsets = Counter(tuple(sorted(i for i in batch.tolist() if labels[i] == 0)) for batch in found)
    assert len(subsets) == 10
    assert all(abs(count / 4000 - 0.1) < 4.5 * math.sqrt(0.09 / 4000) for count in subsets.values())
    drawn = draws(replace(whole, batch=3), labels)
    assert {len(batch) for batch in drawn} == {0, 2, 4}


def chosen(labels: dict[int, int], order: dict[int, float]) -> set[int]:
    """Algorithm 7 by priorities: of each class the `s_min` records that come first. With uniform ones, as drawn."""
    ranked = [sorted((r for r in labels if labels[r] == c), key=order.__getitem__) for c in (0, 1)]
    least = min(map(len, ranked))
    return set(ranked[0][:least]) | set(ranked[1][:least])


def test_downsampling_moves_two_records_and_never_more() -> None:
    """Both neighbours by one list of priorities, which is a coupling: the batches differ in at most two records."""
    rng, seen = np.random.default_rng(0), Counter()
    for _ in range(3000):
        labels = {r: int(rng.random() < 0.4) for r in range(rng.integers(1, 8))}
        order = {r: rng.random() for r in labels}
        added = max(labels)
        without = {r: c for r, c in labels.items() if r != added}
        seen[len(chosen(labels, order) ^ chosen(without, order))] += 1
    assert set(seen) == {0, 2}
    # The coupling's halves are what the trainer draws.
    whole = replace(BASE, batch=3, balance="downsample", share=0.25, sampling="fixed")
    drawn = Counter(frozenset(batch.tolist()) for batch in draws(whole, [1, 0, 0]))
    ranked = Counter(frozenset(chosen({0: 1, 1: 0, 2: 0}, dict(enumerate(rng.random(3))))) for _ in range(4000))
    assert set(drawn) == set(ranked) == {frozenset({0, 1}), frozenset({0, 2})}
    assert drawn[frozenset({0, 1})] / 4000 == pytest.approx(0.5, abs=0.04)


def lone(records: list[tuple[list[float], int]], trainer: Dpsgd) -> Tensor:
    """The clipped sum over all of these records, as one client's whole batch; the noise is too small to see."""
    inputs, targets = torch.tensor([x for x, _ in records]), torch.tensor([y for _, y in records])
    task = Task(nn.Linear(2, 1, bias=False), binary, (inputs, targets), [list(range(len(records)))])
    trainer = replace(trainer, batch=len(records), noise=1e-9)
    update = trainer.fit(task.block(np.array([0]), SECRET), Plan(1, torch.zeros(2)))[0]
    return -update * trainer.expected / trainer.rate


def test_downsampling_reaches_two_s() -> None:
    """Two neighbours whose sums are 2 S apart, in both cases: a partner comes along, and a place is taken."""
    trainer = replace(BASE, balance="downsample", share=0.25)
    assert trainer.reach == 2
    # Class 1 pushes against x, class 0 along x: with opposite x both push the same way.
    pair = [([10.0, 0.0], 0), ([-10.0, 0.0], 1)]
    apart = lone(pair, trainer) - lone(pair[:1], trainer)
    assert float(apart.norm()) == pytest.approx(2 * trainer.clip, rel=1e-5)
    # One 0 and one 1, then a second 0 with the opposite gradient, which the draw puts in the place of the first.
    three, sums_seen = [*pair, ([-10.0, 0.0], 0)], set()
    for seed in range(20):
        secret = SecretSeed.simulated(seed)
        inputs, targets = torch.tensor([x for x, _ in three]), torch.tensor([y for _, y in three])
        task = Task(nn.Linear(2, 1, bias=False), binary, (inputs, targets), [[0, 1, 2]])
        quiet = replace(trainer, batch=3, noise=1e-9)
        update = quiet.fit(task.block(np.array([0]), secret), Plan(1, torch.zeros(2)))[0]
        sums_seen.add(round(float(-update[0] * quiet.expected / quiet.rate), 4))
    assert sums_seen == {round(2 * trainer.clip, 4), 0.0}


@pytest.mark.parametrize("balance", ["none", "weights", "rates"])
def test_the_others_keep_s(balance: str) -> None:
    """Taking out any record moves the sum by its own clipped gradient, at most S, and by S where it is long."""
    trainer = replace(BASE, balance=balance, share=0.03)
    assert trainer.reach == 1
    rng = np.random.default_rng(3)
    records = [(rng.normal(0, 4, 2).tolist(), i % 2) for i in range(8)] + [([0.05, 0.02], 0), ([0.05, 0.02], 1)]
    if balance == "rates":  # class 0 at its own small rate: compare sums of which all records are in
        records = [(x, 1) for x, _ in records]
    whole, moved = lone(records, trainer), []
    for i in range(len(records)):
        moved.append(float((whole - lone(records[:i] + records[i + 1 :], trainer)).norm()))
    assert max(moved) <= trainer.clip * (1 + 1e-5)
    assert max(moved) == pytest.approx(trainer.clip, rel=1e-5)
    assert min(moved) < 0.9 * trainer.clip


def test_class_weights_come_before_the_clip() -> None:
    """A short gradient of the rare class counts 1/(2 share) times, up to S; of the common one 1/(2 (1 - share))."""
    trainer = replace(BASE, balance="weights", share=0.1, clip=1.0)
    x = [0.1, 0.0]  # at weights 0 its gradient is 0.05
    assert float(lone([(x, 1)], trainer).norm()) == pytest.approx(0.05 * 5, rel=1e-4)
    assert float(lone([(x, 0)], trainer).norm()) == pytest.approx(0.05 / 1.8, rel=1e-4)
    assert float(lone([([10.0, 0.0], 1)], trainer).norm()) == pytest.approx(1.0, rel=1e-4)


def test_the_divisor_is_public() -> None:
    """It does not depend on what was drawn: with downsampling it is the expected size 2 share batch."""
    assert BASE.expected == 5
    assert replace(BASE, balance="downsample", share=0.1).expected == 1
    assert replace(BASE, balance="rates", share=0.1).expected == 5
    assert replace(BASE, balance="weights", share=0.1).expected == 5


def test_a_drawn_divisor_is_the_size_of_the_batch_at_hand() -> None:
    """Sum and noise are divided by it, client by client; an empty batch by 1."""
    task, sizes = table(), []
    public = replace(BASE, balance="downsample", share=0.25)
    for round in range(1, 9):
        batches = [public._batches(task.block(np.array([int(client)]), SECRET), 0, round)[0] for client in EVERYONE]
        sizes += [len(batch) for batch in batches]
        over = torch.tensor([max(1, len(batch)) / public.expected for batch in batches])
        drawn = fit(replace(public, divisor="drawn"), task, round=round)
        torch.testing.assert_close(drawn * over.unsqueeze(1), fit(public, task, round=round), rtol=1e-4, atol=1e-6)
    assert {0, 2, 4} <= set(sizes)


def test_signs_of_one_step_do_not_tell_the_divisor() -> None:
    """Up to numbers that round to zero: so of fl-sign-dp, with one step, the divisor changes nothing."""
    task, public = table(), replace(BASE, balance="downsample", share=0.25, sampling="fixed")
    assert torch.equal(fit(public, task).sign(), fit(replace(public, divisor="drawn"), task).sign())


def test_what_no_noise_covers_is_told() -> None:
    """The size of a batch, unless it follows from the number of records; see the card."""
    drawn = replace(BASE, share=0.25, divisor="drawn")
    assert BASE.uncovered is None
    assert drawn.uncovered == "the size of each batch, by which its noisy sum is divided"
    assert replace(drawn, sampling="fixed").uncovered is None
    assert replace(drawn, sampling="fixed", balance="weights").uncovered is None
    for sampling in ("poisson", "fixed"):
        balanced = replace(drawn, sampling=sampling, balance="downsample").uncovered
        assert balanced == "the size of each batch after balancing, by which its noisy sum is divided"


def test_event() -> None:
    task, trainer = table(), replace(BASE, steps=3, balance="downsample", share=0.25)
    event = trainer.event(4, Poisson(0.5), task)
    assert (event.round, event.noise, event.share, event.rate, event.level) == (4, 1.3, 1.3, 0.5, "record")
    assert (event.steps, event.batch, event.reach, event.batches, event.sampling) == (3, 1.0, 2, "poisson", "poisson")
    large = Task(task.model, binary, task.train, [list(range(40)), list(range(40, 60))])
    event = replace(BASE, sampling="fixed").event(4, Fixed(1), large)
    assert (event.batch, event.reach, event.batches, event.sampling, event.rate) == (0.25, 1, "fixed", "fixed", 0.5)
    assert trainer.level == "record"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"rate": 0.0}, "rate=0.0 must be positive"),
        ({"rate": math.nan}, "rate=nan must be positive"),
        ({"clip": -1.0}, "clip=-1.0 must be positive"),
        ({"clip": math.inf}, "clip=inf must be positive and finite"),
        ({"noise": 0.0}, "noise=0.0 must be positive"),
        ({"noise": 1e-40}, "noise=1e-40 at clip=0.7 moves weights by 7e-42: scale the rate"),
        ({"noise": 1e38}, "moves weights by"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"batch": 0}, "batch=0 must be at least 1"),
        ({"sampling": "all"}, "sampling='all' is not known"),
        ({"balance": "equal"}, "balance='equal' is not known"),
        ({"divisor": "own"}, "divisor='own' is not known: choose public or drawn"),
        ({"divisor": "drawn", "clip": 5e36}, r"moves weights by 3.25e\+36"),
        ({"balance": "weights"}, "balance='weights' needs the public share"),
        ({"balance": "rates", "share": 0.1, "sampling": "fixed"}, "balance='rates' needs sampling='poisson'"),
        ({"share": 0.0}, "share=0.0 must lie above 0 and up to 0.5"),
        ({"share": 0.6}, "share=0.6 must lie above 0 and up to 0.5"),
        ({"share": math.nan}, "share=nan must lie"),
    ],
)
def test_refused(wrong: dict, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        replace(BASE, **wrong)


@pytest.mark.parametrize("balance", ["downsample", "weights", "rates"])
@pytest.mark.parametrize("targets", [torch.arange(60) % 3, torch.arange(60) % 2 / 1.0, -(torch.arange(60) % 2)])
def test_two_classes_are_needed_to_balance(targets: Tensor, balance: str) -> None:
    task = table(targets=targets)
    with pytest.raises(Mistake, match="the targets are not the classes 0 and 1"):
        fit(replace(BASE, balance=balance, share=0.25), task, np.array([3]))


def test_weights_of_classes_that_would_cancel_are_refused() -> None:
    """torch divides by the weights of the batch, which of one record leaves none."""
    labels = torch.arange(60) % 3
    private = Scheme(replace(BASE, batch=1), Poisson(0.5))

    def task(loss: Callable[..., Tensor], targets: Tensor = labels, model: nn.Module | None = None) -> Task:
        inputs = torch.randn(60, 5, generator=torch.Generator().manual_seed(1))
        rows = [list(range(30)), list(range(30, 60))]
        return Task(nn.Linear(5, 3) if model is None else model, loss, (inputs, targets), rows)

    def over_rows(outputs: Tensor, targets: Tensor) -> Tensor:
        return (weights[targets] * F.cross_entropy(outputs, targets, reduction="none")).mean()

    class Wrapped(nn.Linear):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": super().forward(x)}

    def drawn(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(F.dropout(outputs, 0.5), targets)

    def named(outputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs["logits"], targets, weight=weights)

    weights = torch.tensor([1.0, 50.0, 3.0])
    middle = torch.tensor([1.0, 50.0, 1.0])  # seen by neither the lowest label nor the highest
    left_out = labels.clone()
    left_out[5] = -100
    still = nn.Linear(5, 3)
    nn.init.zeros_(still.weight)
    nn.init.zeros_(still.bias)
    weighted = nn.CrossEntropyLoss(weight=weights)
    for wrong in (
        task(weighted),
        task(partial(F.cross_entropy, weight=weights)),
        task(nn.CrossEntropyLoss(weight=middle)),
        task(weighted, left_out),
        task(weighted, model=still),
        task(named, model=Wrapped(5, 3)),
    ):
        with pytest.raises(Mistake, match="is lost, as weights of classes are"):
            private.check(wrong)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    for right in (task(F.cross_entropy), task(over_rows), task(smooth), task(drawn), task(F.cross_entropy, left_out)):
        private.check(right)
    private.check(task(F.mse_loss, torch.randn(60, 3)))
    private.check(task(lambda outputs, targets: F.mse_loss(outputs[:, 0], targets), torch.randn(60)))
    Scheme(Sgd(0.1, 1, 5), Poisson(0.5)).check(task(weighted))  # of a batch they mean something


def test_models_and_devices_refused() -> None:
    task = table(nn.Sequential(nn.Linear(40, 12), nn.BatchNorm1d(12), nn.Linear(12, 1)))
    with pytest.raises(Mistake, match="BatchNorm"):
        fit(BASE, task)
    with pytest.raises(Mistake, match="device='meta' is not for records"):
        BASE.fit(table().block(EVERYONE, SECRET), Plan(1, flatten(table().model)), replace_device("meta"))


def replace_device(device: str) -> Engine:
    engine = Engine()
    object.__setattr__(engine, "device", device)  # a device that this machine has not
    return engine


def test_rows_of_several_clients_are_refused() -> None:
    """A record that three clients hold is charged for one of them: 3.53 was stated where 10.46 was due."""
    task = table()
    BASE.check(ALONE, task)
    split = Split(torch.arange(60).repeat(3), torch.arange(4) * 60, shared=True)
    with pytest.raises(Mistake, match=r"rows that several clients hold.*give each row to one client"):
        BASE.check(ALONE, replace(task, split=split))


@pytest.mark.parametrize("balance", ["none", "weights"])
def test_lengths_are_the_norms_of_the_records_gradients(balance: str) -> None:
    task = table(targets=torch.arange(60) % 2)
    trainer = Dpsgd(0.1, 1, 4, 1.0, 1.0, balance=balance, share=None if balance == "none" else 0.2)
    plan = Plan(1, flatten(task.model))
    block = task.block(np.array([1, 2]), SECRET)
    found = trainer.lengths(block, plan)
    assert found.bound == 1.0
    rows = torch.cat([block.rows(0), block.rows(1)])
    assert len(found.norms) == len(rows) == 27
    for row, norm in zip(rows.tolist(), found.norms.tolist(), strict=True):
        loss = task.loss(task.model(task.train.inputs[row : row + 1]), task.train.targets[row : row + 1])
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(task.model.parameters()))])
        weight = 1.0 if balance == "none" else (0.5 / 0.8, 0.5 / 0.2)[int(task.train.targets[row])]
        assert norm == pytest.approx(weight * float(gradient.norm()), rel=1e-5)
