"""One training with canaries: the bound is another library's, holds where it must, and finds noise that is missing."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import hush
from hush.audit.canaries import CanaryClients, WithCanaries, _Directed
from hush.audit.onerun import epsilon_of_guesses, one_run, tail
from hush.audit.wrong_labels import CanaryRecords
from hush.core.rounds import loop
from hush.privacy.accountants import gaussian_epsilon

# right guesses, wrong ones, canaries of either kind, delta: epsilon_one_run of jax_privacy 2.0.0, at significance 0.05
# and an explicit threshold.
PUBLISHED = [
    (47, 3, 500, 1e-5, 1.74097),
    (100, 0, 500, 1e-5, 3.465376),
    (80, 20, 500, 1e-5, 0.955319),
    (300, 100, 500, 1e-6, 0.904172),
    (450, 50, 2000, 1e-5, 1.942582),
]


@pytest.mark.parametrize(("right", "wrong", "each", "delta", "epsilon"), PUBLISHED)
def test_the_bound_is_that_of_jax_privacy(right, wrong, each, delta, epsilon):
    assert epsilon_of_guesses(right, right + wrong, 2 * each, delta, 0.05) == pytest.approx(epsilon, abs=1e-5)


def slow_tail(right, guesses, canaries, epsilon, delta):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(guesses, k) * p**k * (1 - p) ** (guesses - k) for k in range(guesses + 1)]
    alpha = max(sum(mass[right - i : right]) / i for i in range(1, right + 1))
    return min(1.0, sum(mass[right:]) + 2 * canaries * delta * alpha)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize(("right", "guesses"), [(20, 20), (15, 20), (41, 60)])
def test_the_tail_is_that_of_the_theorem(right, guesses, delta):
    for epsilon in (0.0, 0.5, 2.0):
        assert tail(right, guesses, 100, epsilon, delta) == pytest.approx(
            slow_tail(right, guesses, 100, epsilon, delta), rel=1e-9
        )


def test_what_canaries_can_show_at_most():
    found = one_run(np.arange(100.0), np.arange(100) >= 50, 1e-5, 0.995)
    assert found.epsilon == found.most == pytest.approx(2.57, abs=0.01)
    assert one_run(np.arange(100.0), np.arange(100) >= 50, 1e-3, 0.995).most == 0


def test_scores_of_a_known_mechanism():
    """Below the truth in nearly all repetitions, and not far below it by the normal fit."""
    mu, beyond = 1.0, 0
    truth = gaussian_epsilon(mu, 1e-5)
    for seed in range(15):
        rng = np.random.default_rng(seed)
        included = rng.random(600) < 0.5
        found = one_run(rng.standard_normal(600) + mu * included, included, 1e-5, 0.95)
        beyond += found.epsilon > truth
        assert found.fitted > truth / 2
        assert 0 < found.epsilon < found.fitted
    assert beyond == 0


def test_randomised_response_is_never_exceeded_by_more_than_its_share():
    """Where (epsilon, 0) is tight: the bound is above it in at most one of twenty."""
    epsilon, beyond = 1.0, 0
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        included = rng.random(400) < 0.5
        answered = np.where(rng.random(400) < p, included, ~included)
        beyond += one_run(answered + 1e-6 * rng.random(400), included, 0.0, 0.95).epsilon > epsilon
    assert beyond <= 7  # 3 expected at most; of 8 the probability is 1 %


def task(clients=60, size=400):
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(clients * 2, size, generator=rng), torch.arange(clients * 2) % 3
    split = [[2 * n, 2 * n + 1] for n in range(clients)]
    return hush.Task(torch.nn.Linear(size, 3), torch.nn.functional.cross_entropy, (x, y), split)


def trained(scheme, made, canaries, rounds=6):
    clients, seen = WithCanaries(hush.Simulated().of(made), canaries), []
    for report in loop(scheme, clients, rounds=rounds, seed=1):
        last = report
        seen.append(clients.seen)
    return canaries.scored(np.stack(seen), last.state.weights), last


def private(noise):
    return hush.scheme("fl-std-dp", clip=0.5, noise=noise, sampling=hush.Poisson(1.0), steps=1, rate=0.1)


def test_canary_clients_show_less_than_is_proven_and_more_without_noise():
    made = task(clients=120)
    canaries = CanaryClients(0, 120, made.clients)
    scored, last = trained(private(3.0), made, canaries)
    found = scored.shown(1e-5)
    assert found.epsilon < last.epsilon["model"]
    bare, _ = trained(private(3.0 / 100), made, canaries)
    assert bare.shown(1e-5).epsilon > 1.5 > found.epsilon


def test_planted_no_noise_is_found():
    """What is stated is epsilon of the noise; none is added."""
    made = task(clients=400, size=2000)
    scheme = private(8.0)

    class Silent(hush.Noise):
        def encode(self, x, ctx):
            return x

        def together(self, x, ctx, clients):
            return x

        def decode(self, total, ctx):
            return total

    planted = replace(scheme, stages=(*scheme.stages[:-1], Silent(8.0)))
    scored, last = trained(planted, made, CanaryClients(0, 400, 400), rounds=2)
    assert scored.shown(1e-5).epsilon > last.epsilon["model"]
    sound, _ = trained(scheme, made, CanaryClients(0, 400, 400), rounds=2)
    assert sound.shown(1e-5).epsilon < last.epsilon["model"]


def test_who_is_no_canary_trains_as_ever_and_a_coin_decides():
    made, canaries = task(), CanaryClients(3, 40, 60)
    assert 0 < canaries.included.sum() < 40
    assert len(set(canaries.members.tolist())) == 40
    scheme = hush.scheme("fl-std", rate=0.1, steps=1, sampling=hush.Poisson(1.0))

    def uploads(wrapped):
        from hush.core.spec import Plan
        from hush.random.seeds import SecretSeed

        trainer = _Directed(scheme, canaries) if wrapped else scheme.trainer
        block = made.block(np.arange(60), SecretSeed.simulated(0))
        return trainer.fit(block, Plan(1, hush.State.first(made).weights))

    with_canaries, without = uploads(True), uploads(False)
    for client in range(60):
        place = np.flatnonzero(canaries.members == client)
        if not len(place):
            assert torch.equal(with_canaries[client], without[client])
        elif not canaries.included[place[0]]:
            assert not with_canaries[client].any()
        else:
            whole = canaries.direction(int(place[0]), with_canaries.shape[1])
            torch.testing.assert_close(with_canaries[client] / with_canaries[client].norm(), whole / whole.norm())


def test_canary_records_have_a_wrong_label_or_are_away():
    made = task()
    canaries = CanaryRecords.of(made, 40, 0)
    held = set(canaries.task.split.rows.tolist())
    for row, label, included in zip(canaries.rows.tolist(), canaries.labels.tolist(), canaries.included, strict=True):
        assert label != int(made.train.targets[row])
        assert (row in held) == included
        if included:
            assert int(canaries.task.train.targets[row]) == label
    assert len(held) == 120 - int((~canaries.included).sum())
    assert int(canaries.task.sizes.min()) >= 1
    assert len(canaries.task.split) == 60


def test_canary_records_of_an_overfitted_model_are_seen():
    made = task(clients=120, size=1200)
    canaries = CanaryRecords.of(made, 120, 0)
    open_scheme = hush.scheme("fl-std", rate=0.5, steps=5, sampling=hush.Poisson(1.0))
    scored, _ = trained(open_scheme, canaries.task, canaries, rounds=10)
    assert scored.shown(1e-5).epsilon > 1
    hidden = hush.scheme("fl-standard-dp", clip=0.1, noise=10.0, sampling=hush.Fixed(120), steps=1, rate=0.1, batch=1)
    scored, _ = trained(hidden, canaries.task, canaries, rounds=2)
    assert scored.shown(1e-5).epsilon < 0.5


def test_mistakes():
    with pytest.raises(hush.Mistake, match="canaries=5"):
        CanaryClients(0, 5, 60)
    with pytest.raises(hush.Mistake, match="canaries=100"):
        CanaryRecords.of(task(), 100, 0)
    with pytest.raises(hush.Mistake, match="one side"):
        one_run(np.arange(20.0), np.ones(20, bool), 1e-5)
    with pytest.raises(hush.Mistake, match="too few"):
        one_run(np.arange(5.0), np.ones(5, bool), 1e-5)


def test_canary_records_are_one_client_s_alone():
    made = task()
    made = replace(made, split=hush.Split(made.split.rows, made.split.starts, shared=True))
    with pytest.raises(hush.Mistake, match="one record of one client"):
        CanaryRecords.of(made, 20, 0)
