"""Coordinates in turn, and what the server keeps of each until its turn comes again."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from hush.catalogue.values import Settings
from hush.core.plain import All
from hush.core.scheme import Scheme
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated, rounds
from hush.models.weights import flatten
from hush.parts.blocks import Blocks
from hush.parts.coordinates import Only, RandomK, TopK, Vote
from hush.parts.registry import from_json
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import Clip, Noise, Sense
from hush.parts.steps import Momentum
from hush.parts.trainers import Dpsgd, Sgd
from hush.random.seeds import PublicSeed, SecretSeed

SEED = PublicSeed(0)


@pytest.mark.parametrize(
    "blocks", [Blocks(3), Blocks(4, TopK(0.1, 0.1, 2)), Blocks(5, interleave="columns"), Blocks(7, Only(("3",)))]
)
def test_blocks_are_the_set_cut_in_turns(blocks: Blocks, task: Task) -> None:
    whole = blocks.of.draw(task.problem, SEED, 0, None)
    whole = torch.arange(task.layout.parameters) if whole is None else whole
    drawn = [blocks.draw(task.problem, SEED, t, None) for t in range(1, blocks.number + 1)]
    assert torch.equal(torch.cat(drawn).sort().values, whole)
    assert max(map(len, drawn)) == blocks.count(task.layout)
    assert max(map(len, drawn)) - min(map(len, drawn)) <= 24  # of even size, but for a column
    assert all(torch.equal(block, block.sort().values) for block in drawn)
    assert torch.equal(blocks.draw(task.problem, SEED, blocks.number + 2, None), drawn[1])
    assert blocks.down(task.layout) == len(whole)


def test_a_column_stays_together(task: Task) -> None:
    blocks = Blocks(5, interleave="columns")
    weight = torch.zeros(task.layout.parameters)
    weight[blocks.draw(task.problem, SEED, 2, None)] = 1
    views = task.layout.views(weight)
    for name in ("1.weight", "3.weight"):
        assert torch.equal(views[name], views[name][:1].expand_as(views[name]))
    assert torch.equal(views["1.weight"][0].nonzero().flatten(), torch.arange(1, 64, 5))
    assert {float(views[name].std()) for name in ("1.bias", "3.bias")} == {0.0}


def slow(task: Task, scheme: Scheme, cohorts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Every client alone, in float64: trains all of the set, sends its block; momentum and average wait for turns."""
    coordinates, step = scheme.coordinates, scheme.step
    assert isinstance(coordinates, Blocks)
    assert isinstance(step, Momentum)
    assert isinstance(scheme.trainer, Sgd)
    pool = coordinates.of.draw(task.problem, SEED, 0, None)
    pool = torch.arange(task.layout.parameters) if pool is None else pool
    w = flatten(task.model).double()
    velocity, average, visits = torch.zeros_like(w), w.clone(), torch.zeros_like(w)
    for t, cohort in enumerate(cohorts):
        block = pool[t % coordinates.number :: coordinates.number]
        total = torch.zeros(len(block), dtype=torch.float64)
        for client in cohort:
            own, rows = w.clone(), task.train.rows(task.split.rows_of(client))
            for _ in range(scheme.trainer.steps or 0):
                model = copy.deepcopy(task.model).double()
                nn.utils.vector_to_parameters(own, model.parameters())
                task.loss(model(rows.inputs.double()), rows.targets).backward()
                slope = torch.cat([p.grad.flatten() for p in model.parameters()])
                own[pool] -= scheme.trainer.rate * slope[pool]
            update = (own - w)[block]
            total += update * min(1.0, 0.05 / float(update.norm()))
        velocity[block] = step.keep * velocity[block] + total / len(cohort)
        w[block] += step.rate * velocity[block]
        visits[block] += 1
        b, n = scheme.average, visits[block]
        kept = (b - b**n) / (1 - b**n)
        average[block] = kept * average[block] + (1 - kept) * w[block]
    return w, average


@pytest.mark.parametrize("of", [All(), TopK(0.2, 0.1, 2)])
def test_rounds_are_those_of_the_slow_twin(of: All | TopK, task: Task) -> None:
    scheme = Scheme(
        Sgd(0.3, 2, None),
        Fixed(4),
        Blocks(3, of),
        (Clip(0.05),),
        Momentum(2.0, 0.7),
        average=0.6,
    )
    cohorts = [scheme.sampling.draw(task.clients, SecretSeed.simulated(0), t).tolist() for t in range(1, 9)]
    *_, last = rounds(scheme, task, rounds=8)
    weights, average = slow(task, scheme, cohorts)
    moved = (weights - flatten(task.model)).norm()
    assert float((last.state.weights - weights).norm()) < 1e-5 * float(moved)
    assert float((last.state.released - average).norm()) < 1e-5 * float(moved)


def test_only_a_block_travels_up(task: Task, settings: Settings) -> None:
    scheme = Scheme(Sgd(0.1, 1, None), Fixed(6), Blocks(5), (Clip(0.1), Noise(2.0)))
    *_, last = rounds(scheme, task, rounds=5)
    assert last.bytes["up"]["payload"]["mean"] == pytest.approx(4 * task.layout.parameters / task.clients * 6)
    assert last.bytes["down"]["payload"]["mean"] == pytest.approx(4 * task.layout.parameters * 4 * 6 / task.clients)
    one, other = (
        [report.state.weights for report in rounds(scheme, task, rounds=3, transport=t)]
        for t in (Simulated(1, exact=True), Loopback())
    )
    assert all(map(torch.equal, one, other))


def test_noise_and_epsilon_do_not_know_of_blocks(task: Task) -> None:
    """The same event, and the noise of a release has its deviation: noise * clip on each number of the sum."""
    sampling, stages = Poisson(0.4), (Clip(1e-3), Noise(2.0))
    plain = Scheme(Sgd(1e-9, 1, None), sampling, stages=stages)
    blocks = Scheme(Sgd(1e-9, 1, None), sampling, Blocks(2), stages)
    whole, parts = (list(rounds(scheme, task, rounds=60)) for scheme in (plain, blocks))
    assert parts[-1].epsilon == whole[-1].epsilon
    before, found = flatten(task.model), []
    for t, report in enumerate(parts):
        block = torch.arange(t % 2, task.layout.parameters, 2)
        moved = report.state.weights - before
        others = torch.ones_like(moved).index_fill(0, block, 0)
        assert not (moved * others).any()
        found.append(moved[block].double() * sampling.cohort(task.clients))
        before = report.state.weights
    measured = float(torch.cat(found).std())
    assert measured == pytest.approx(2.0 * 1e-3, rel=4 / math.sqrt(2 * 60 * 455))


def test_json_has_all_of_it() -> None:
    scheme = Scheme(Sgd(0.1, 1, None), Fixed(2), Blocks(3, TopK(0.1, 0.1, 2)))
    assert from_json(scheme.to_json()) == scheme


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Blocks(0), "blocks=0 must be at least 1"),
        (lambda: Blocks(2, RandomK(0.1, fresh=True)), "RandomK has none: fix it"),
        (lambda: Blocks(2, Vote(0.1, 0.1, 1, 5, 1.0)), "Vote has none: fix it"),
        (lambda: Blocks(2, TopK(0.1, 0.1, 1), "columns"), "are uneven: interleave weights"),
        (lambda: Blocks(2, interleave="rows"), "interleave='rows' is not known"),
    ],
)
def test_what_cannot_be_cut(make, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        make()


def test_what_does_not_go_with_it(task: Task) -> None:
    def scheme(**parts) -> Scheme:
        return Scheme(**{"trainer": Sgd(0.1, 1, None), "sampling": Fixed(4), "coordinates": Blocks(3), **parts})

    scheme().check(task)
    with pytest.raises(Mistake, match="blocks=911 of 910 weights: take fewer blocks"):
        scheme(coordinates=Blocks(911)).check(task)
    with pytest.raises(Mistake, match="Dpsgd protects records at every weight"):
        scheme(trainer=Dpsgd(0.1, 1, 2, 1.0, 1.0)).check(task)
    sense = Sense(0.1, 2, 0)
    with pytest.raises(Mistake, match="coordinates are drawn each round"):
        scheme(stages=(sense,), step=Momentum(1.0, 0.9, sense)).check(task)
