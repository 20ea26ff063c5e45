"""The audit of a scheme's own code: near what is stated and below it, of the same releases as a run makes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

import hush
from hush.audit.mechanism import mechanism
from hush.audit.records import RecordWorlds
from hush.audit.trials import Given, World
from hush.audit.worlds import Worlds
from hush.catalogue.entries import ENTRIES
from hush.privacy.accountants import gaussian_epsilon
from hush.random.seeds import SecretSeed

NOISE = 1.3
RUNS = 150  # of the loop, beside many trials
SAMPLING, TRAINER, SUM = hush.Poisson(0.01), hush.Sgd(0.1, 1, 1), hush.Sum()
CONTINUOUS = (hush.Clip(1.0), hush.Noise(NOISE))
SKELLAM = (hush.Clip(1.0), hush.Rotate(0), hush.Quantise(16, 12), hush.IntegerNoise(NOISE))


def scheme(*stages, sampling=SAMPLING, trainer=TRAINER, aggregator=SUM):
    return hush.Scheme(trainer, sampling, stages=stages, aggregator=aggregator)


def by_name(found, attack):
    return {one.view: one for one in found.findings if one.attack == attack}


@pytest.mark.parametrize("stages", [CONTINUOUS, SKELLAM, (hush.AdaptiveClip(1.0), hush.Noise(NOISE))], ids=str)
def test_bounds_are_below_what_is_stated_and_near_it(stages):
    """At a large delta few trials come near."""
    found = mechanism(scheme(*stages), delta=0.01, trials=5_000, confidence=0.95)
    assert found.holds
    for view, one in by_name(found, "distinguisher").items():
        assert one.assumes is None
        assert one.stated / 3 < one.shown < one.stated, view
    for view, one in by_name(found, "normal fit").items():
        assert one.assumes
        assert 0.75 * one.stated < one.shown < one.stated, view


def test_what_is_stated_is_what_two_rounds_of_the_ledger_cost():
    found = by_name(mechanism(scheme(*CONTINUOUS), trials=400), "distinguisher")
    two = gaussian_epsilon(math.sqrt(2) / NOISE, 1e-5)
    assert found["model"].stated == pytest.approx(two, abs=0.01)
    share = NOISE / math.sqrt(4)
    alone = gaussian_epsilon(math.sqrt(2) / share, 1e-5)
    assert found["upload"].stated == pytest.approx(alone, abs=0.01)
    assert found["server"].stated > found["model"].stated  # of the second round a client's noise is missing


@pytest.mark.parametrize("name", ["fl-std", "fl-sign", "two-bit", "qsgd", "top-k-ef"])
def test_a_scheme_without_noise_is_seen_through(name):
    found = mechanism(ENTRIES[name].example, trials=1000)
    assert found.holds
    for one in found.findings:
        assert one.stated is None
        assert one.shown > 3.5  # no more can be shown by so few


def test_a_trusted_server_sees_all():
    found = by_name(mechanism(scheme(hush.Clip(1.0), hush.ServerNoise(NOISE)), trials=4000), "distinguisher")
    assert found["server"].stated is None
    assert found["server"].shown > 4
    assert found["model"].shown < found["model"].stated


@pytest.mark.parametrize(
    "stages", [CONTINUOUS, (hush.Clip(1.0), hush.ServerNoise(NOISE)), SKELLAM], ids=["shares", "server", "integers"]
)
def test_released_sums_are_distributed_as_those_of_the_loop(stages):
    """That the trials of a block are one long sum to the source changes nothing: a run of one round is the twin."""
    cohort, size = 4, 4
    made = scheme(*stages, sampling=hush.Poisson(1.0))
    worlds = Worlds(made, size, cohort, cohort)
    fast = worlds.seen(worlds.present, 4000, SecretSeed.simulated(3)).views["model"][:, :size].numpy()
    if len(stages) > 2:  # behind the source are the rotation and the grid
        fast = fast / 16
    rows = torch.cat([worlds.update[None], torch.zeros(cohort - 1, size)])
    task = hush.Task(
        torch.nn.Linear(size, 1, bias=False),
        lambda output, target: output.mean(),
        (torch.zeros(cohort, size), torch.zeros(cohort)),
        [[n] for n in range(cohort)],
    )
    slow = []
    for seed in range(RUNS):
        run = hush.rounds(replace(made, trainer=Given(rows, tuple(range(cohort)))), task, rounds=1, seed=seed)
        start = hush.State.first(task).weights
        slow.append((next(run).state.weights - start).numpy() * cohort)
    slow = np.stack(slow)
    if len(stages) > 2:  # rotate as the clients do, to compare number by number
        plan = worlds.plan(worlds.turns[0], cohort)
        turned = stages[1].encode(torch.tensor(slow), _context(worlds, plan))
        slow = turned.numpy()
    for number in range(size):
        assert ks_2samp(slow[:, number], fast[:, number]).pvalue > 1e-4
    assert ks_2samp(slow[:, 0] + 0.6 * slow[:, 0].std(), fast[:, 0]).pvalue < 1e-4  # it would tell


def _context(worlds, plan):
    from hush.core.spec import ClientContext
    from hush.random.draws import Draws

    names = tuple(range(RUNS))
    return ClientContext(worlds.specs(None)[1], plan, torch.ones(RUNS), Draws(SecretSeed.simulated(0), names))


def test_the_neighbours_are_those_of_each_view():
    poisson, fixed = Worlds(scheme(*CONTINUOUS), 4, 4), Worlds(scheme(*CONTINUOUS, sampling=hush.Fixed(4)), 4, 4)
    assert poisson.absent("model") == World(False, 0.0)
    assert poisson.absent("server") == poisson.absent("upload") == World(True, 0.0)
    assert {fixed.absent(view) for view in fixed.views} == {World(True, -1.0)}


def test_who_sends_zeros_is_not_counted_either():
    """Without the client, the count of an adaptive clip is that of the others: its bound is for that."""
    worlds = Worlds(scheme(hush.AdaptiveClip(1.0), hush.Noise(1e-6)), 4, 4)
    seen = [worlds.seen(world, 3, SecretSeed.simulated(0)).views for world in (worlds.present, worlds.absent("upload"))]
    assert float(seen[1]["upload"].abs().max()) < 1e-4
    assert float((seen[0]["server"] - seen[1]["server"])[:, :5].norm(dim=1).max()) == pytest.approx(
        worlds.specs(None)[1].l2, rel=1e-3
    )


def test_a_secure_sum_has_no_reader_of_uploads():
    made = scheme(*SKELLAM, sampling=hush.Poisson(0.01, floor=3, dropout=0.05), aggregator=hush.SecureSum())
    assert Worlds(made, 32, 8).views == ("model", "server", "colluding")
    assert Worlds(made, 32, 12).turns[1].lost == 4  # a third


def test_records_lose_one_record_and_what_it_brings():
    plain = hush.Dpsgd(rate=1.0, steps=1, batch=12, clip=1.0, noise=1e-6)
    for balance, moved in (("none", 1.0), ("downsample", 2.0)):
        trainer = replace(plain, balance=balance, share=0.3)
        worlds = RecordWorlds(scheme(trainer=trainer), 8)
        seen = [
            worlds.seen(world, 50, SecretSeed.simulated(1)).views["upload"]
            for world in (worlds.present, worlds.absent("upload"))
        ]
        gap = (seen[0][:, :8].mean(0) - seen[1][:, :8].mean(0)).norm() * trainer.expected
        assert float(gap) == pytest.approx(moved, rel=1e-3)


def test_trials_do_not_depend_on_each_other_nor_on_how_many_there_are():
    worlds = Worlds(scheme(*CONTINUOUS), 4, 4)
    few, many = (worlds.seen(worlds.present, n, SecretSeed.simulated(0)).views["upload"] for n in (10, 50))
    assert torch.equal(few, many[:10])
    assert len(torch.unique(many[:, 0])) == 50
    other = worlds.seen(worlds.present, 10, SecretSeed.simulated(1)).views["upload"]
    assert not torch.equal(few, other)


def test_mistakes():
    with pytest.raises(hush.Mistake, match="trials=3"):
        mechanism(scheme(*CONTINUOUS), trials=3)
    with pytest.raises(hush.Mistake, match="confidence=2"):
        mechanism(scheme(*CONTINUOUS), confidence=2)
    with pytest.raises(hush.Mistake, match="nothing travels"):
        mechanism(ENTRIES["standalone"].example)
