"""Sets of coordinates: how many, which, from whom."""

import math
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hush.core.plain import All
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.errors import Mistake
from hush.models.weights import flatten
from hush.parts.coordinates import Ballot, Only, RandomK, TopK, Vote, accumulate, largest
from hush.parts.registry import from_json
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip, Noise
from hush.parts.trainers import Sgd
from hush.random.seeds import PublicSeed, SecretSeed

SEED = PublicSeed(2)


def test_largest_takes_the_first_of_equals() -> None:
    scores = torch.tensor([[1.0, 3.0, 3.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert largest(scores, 2).tolist() == [[1, 2], [0, 1]]
    assert largest(scores, 4).tolist() == [[0, 1, 2, 4], [0, 1, 2, 3]]


def test_paper_counts(make) -> None:
    """K = floor(r n) of the paper's network: 1,663 at 0.1 %, 8,316 at 0.5 %."""
    task = make(nn.Sequential(nn.Flatten(), nn.Linear(64, 12)))
    for ratio, count in ((0.001, 1663), (0.005, 8316), (0.01, 16633), (0.05, 83168), (0.1, 166337)):
        shape = replace(task, model=nn.Linear(1_663_370, 1, bias=False))
        assert len(RandomK(ratio, fresh=False).draw(shape, SEED, 0, None)) == count


def test_ratio_of_a_round_number(task: Task) -> None:
    """0.1 of 910 is 91, though 0.1 * 910 may be a little less in binary."""
    for ratio, count in ((0.1, 91), (0.7, 637), (0.3, 273), (1.0, 910)):
        assert len(RandomK(ratio, fresh=True).draw(task.problem, SEED, 1, None)) == count


def test_fresh_and_fixed_random_sets(task: Task) -> None:
    fresh, fixed = RandomK(0.1, fresh=True), RandomK(0.1, fresh=False)
    assert (fresh.fixed, fixed.fixed) == (False, True)
    sets = [fresh.draw(task.problem, SEED, t, None) for t in (1, 2)]
    assert not torch.equal(*sets)
    assert torch.equal(fixed.draw(task.problem, SEED, 1, None), fixed.draw(task.problem, SEED, 2, None))
    assert not torch.equal(sets[0], fresh.draw(task.problem, PublicSeed(3), 1, None))
    for drawn in sets:
        assert torch.equal(drawn, drawn.unique())
        assert drawn.min() >= 0
        assert drawn.max() < 910


def test_random_sets_are_uniform(task: Task) -> None:
    hits = torch.zeros(910)
    for t in range(600):
        hits[RandomK(0.1, fresh=True).draw(task.problem, SEED, t, None)] += 1
    assert float(hits.mean()) == pytest.approx(60)
    assert float(hits.std()) == pytest.approx(math.sqrt(600 * 0.1 * 0.9), rel=0.15)


def test_top_k_moves_the_weights(task: Task) -> None:
    """The gradients of later steps are those at moved weights: with one step the set is another."""
    one, many = (TopK(0.1, 0.5, steps).draw(task.problem, SEED, 0, None) for steps in (1, 30))
    assert not torch.equal(one, many)
    assert torch.equal(many, TopK(0.1, 0.5, 30).draw(task.problem, PublicSeed(9), 5, None))


def test_top_k_takes_the_largest(task: Task) -> None:
    """By hand, for one step: |gradient| of an ordinary backward pass."""
    task.loss(task.model(task.public.inputs), task.public.targets).backward()
    scores = torch.cat([p.grad.abs().flatten() for p in task.model.parameters()])
    chosen = TopK(0.05, 0.1, 1).draw(task.problem, SEED, 0, None)
    others = torch.ones(910, dtype=torch.bool)
    others[chosen] = False
    assert scores[chosen].min() >= scores[others].max() * (1 - 1e-5)


def test_accumulate_is_row_by_row(task: Task) -> None:
    inputs, targets = task.train.inputs[:12].reshape(3, 4, 1, 8, 8), task.train.targets[:12].reshape(3, 4)
    together = accumulate(task.problem, flatten(task.model), inputs, targets, 0.2, 3)
    for row in range(3):
        alone = accumulate(task.problem, flatten(task.model), inputs[row : row + 1], targets[row : row + 1], 0.2, 3)
        torch.testing.assert_close(together[row], alone[0], rtol=1e-4, atol=1e-6)


def test_ballot_has_k_ones(task: Task) -> None:
    secret = SecretSeed.simulated(1)
    votes = Ballot(91, 0.2, 3, 5).fit(task.block(np.arange(12), secret), Plan(0, flatten(task.model)))
    assert set(votes.unique().tolist()) == {0.0, 1.0}
    assert (votes.sum(1) == 91).all()
    assert not torch.equal(votes[0], votes[11])


def test_election(task: Task) -> None:
    """The ballot's exact bound, sqrt(K), and the vote's own noise."""
    trainer, stages = Vote(0.1, 0.2, 3, 5, 1.5).election(task.layout)
    assert trainer == Ballot(91, 0.2, 3, 5)
    assert stages == (Clip(math.sqrt(91)), Noise(1.5))
    for coordinates in (All(), TopK(0.1, 0.1, 1), RandomK(0.1, fresh=True)):
        assert coordinates.election(task.layout) is None


def test_only(task: Task) -> None:
    """The last layer, or the named ones, and nothing else."""
    sizes = [p.numel() for p in task.model.parameters()]
    last = torch.arange(910 - sizes[-1] - sizes[-2], 910)
    name = task.layout.names[-1].partition(".")[0]
    for coordinates in (Only(), Only((name,)), Only(task.layout.names[-2:])):
        assert torch.equal(coordinates.draw(task.problem, SEED, 3, None), last)
        assert coordinates.count(task.layout) == len(last)
    assert torch.equal(Only(task.layout.names[:1]).draw(task.problem, SEED, 0, None), torch.arange(sizes[0]))
    with pytest.raises(Mistake, match=r"layer 'fc' has no weights that train: choose from 1.weight"):
        Scheme(Sgd(0.1, 1, 1), Fixed(1), Only(("fc",))).check(task)


def test_vote_takes_the_most_votes(task: Task) -> None:
    votes = torch.zeros(910, dtype=torch.float64)
    votes[torch.arange(0, 910, 10)] = torch.linspace(1, 2, 91, dtype=torch.float64)
    assert torch.equal(Vote(0.1, 0.2, 3, 5, 1.5).draw(task.problem, SEED, 0, votes), torch.arange(0, 910, 10))
    with pytest.raises(Mistake, match="vote that was not held"):
        Vote(0.1, 0.2, 3, 5, 1.5).draw(task.problem, SEED, 0, None)


def test_all(task: Task) -> None:
    assert All().draw(task.problem, SEED, 1, None) is None
    assert All().fixed


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.5, math.nan])
def test_wrong_ratio(ratio: float) -> None:
    for wrong in (
        lambda: RandomK(ratio, fresh=True),
        lambda: TopK(ratio, 0.1, 1),
        lambda: Vote(ratio, 0.1, 1, 1, 1.0),
    ):
        with pytest.raises(Mistake, match=rf"ratio={ratio} must be in \(0, 1\]"):
            wrong()


def test_less_than_one_weight(task: Task) -> None:
    with pytest.raises(Mistake, match="less than one weight: raise it"):
        RandomK(0.001, fresh=True).draw(task.problem, SEED, 1, None)


def test_names_may_be_patterns(make) -> None:
    """Only("*lora*") are all weights with lora in their names, wherever they lie; it is a value like any other."""
    model = nn.Sequential(OrderedDict(body=nn.Linear(64, 5), lora_a=nn.Linear(5, 2), mix=nn.Linear(2, 5)))
    model.mix.lora_b = nn.Parameter(torch.zeros(3))
    problem = make(nn.Sequential(nn.Flatten(), model)).problem
    names = [name for name in problem.layout.names if "lora" in name]
    assert names == ["1.lora_a.weight", "1.lora_a.bias", "1.mix.lora_b"]
    found = Only("*lora*").draw(problem, SEED, 0, None)
    mask = torch.zeros(problem.layout.size).index_fill(0, found, 1)
    views = problem.layout.views(mask)
    assert {name for name, view in views.items() if bool(view.all())} == set(names)
    assert int(mask.sum()) == Only("*lora*").count(problem.layout) == sum(views[name].numel() for name in names)
    assert Only("1.m?x").count(problem.layout) == 5 * 2 + 5 + 3
    assert Only("*lora*") == Only(("*lora*",))
    scheme = Scheme(Sgd(0.1, 1, 1), Fixed(1), Only("*lora*"))
    assert from_json(scheme.to_json()) == scheme
    with pytest.raises(Mistake, match=r"layer '\*adapter\*' has no weights that train: choose from 1.body.weight, "):
        Only("*adapter*").draw(problem, SEED, 0, None)
