"""Property inference: it finds what plain updates tell, nothing where nothing is, and never sees a row of a target."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import hush
from hush.audit import properties
from hush.audit.dealing import Deal
from hush.audit.linear import RIDGES, Linear
from hush.audit.properties import Inference, infer, judged, repeated
from hush.core.task import Block, Enrolled, Problem
from hush.data.samples import Samples
from hush.errors import Mistake
from hush.models.weights import glorot
from hush.random.draws import Draws
from hush.random.seeds import PublicSeed, SecretSeed

LOCAL = {"rate": 0.3, "steps": 2, "batch": None, "sampling": hush.Poisson(0.1, floor=3)}
DEAL = Deal(clients=120, size=5, present=1, others=20)
FOUND = load_digits()
DATA = Samples(torch.tensor(FOUND.data, dtype=torch.float32) / 16, torch.tensor(FOUND.target))
TRAIT = FOUND.target == 3
NAMES = ("fl-standard", "fl-top", "fl-sign", "two-bit")


@pytest.fixture(scope="module")
def problem():
    layers = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    public = Samples(DATA.inputs[:10], DATA.targets[:10])
    return Problem(glorot(layers, PublicSeed(0)), F.cross_entropy, public=public)


def made(name, **more):
    own = {"two-bit": {"bound": 1.0}, "fl-top": {"ratio": 0.3}}.get(name, {})
    return hush.scheme(name, **{**LOCAL, **own, **more})


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_without_noise_tells_it(name, problem):
    for found in repeated(made(name), problem, DATA, TRAIT, DEAL, repetitions=2):
        assert found.auc > 0.8
        assert found.accuracy > 0.7
        assert found.chance == 0.5


def test_a_classifier_of_plain_updates_reads_nothing_from_signs_and_an_adapted_one_does(problem):
    """The paper's 50 %: it is the attacker's, not the scheme's."""
    signs, plain = made("fl-sign"), made("fl-standard")
    naive = repeated(signs, problem, DATA, TRAIT, DEAL, repetitions=3, learned=plain)
    adapted = repeated(signs, problem, DATA, TRAIT, DEAL, repetitions=3)
    assert abs(np.mean([found.accuracy for found in naive]) - 0.5) < 3 * 0.5 / np.sqrt(3 * 120)
    assert min(found.auc for found in adapted) > max(found.auc for found in naive) + 0.2


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_where_the_property_is_independent_of_what_is_sent(name, problem):
    """Who is said to hold it is permuted, of both groups."""
    rng = PublicSeed(1).generator("mixed")
    attacker, targets = (replace(one, holds=rng.permutation(one.holds)) for one in DEAL.groups(DATA, TRAIT))
    found = infer(made(name), problem, attacker, targets)
    assert abs(found.auc - 0.5) < 3 * found.error


@pytest.mark.parametrize(
    ("name", "view"),
    [
        *((name, "upload") for name in ("fl-std-dp", "fl-top-dp", "two-bit-dp", "fl-sign-dp")),
        *(("two-bit-dp", view) for view in ("sum", "model")),
        ("dp-fedavg", "model"),  # its noise is the server's, and there is a new one for each round that is watched
    ],
)
def test_nothing_is_found_under_strong_noise(name, view, problem):
    steps = {"steps": 1, "batch": 5} if name == "fl-sign-dp" else {}
    scheme = made(name, noise=1e3, clip=0.3, **steps)
    found = infer(scheme, problem, *DEAL.groups(DATA, TRAIT), view=view, cohort=3)
    assert abs(found.auc - 0.5) < 3 * found.error


def test_noise_of_the_server_is_in_the_model_and_not_in_the_sum(problem):
    scheme = made("dp-fedavg", noise=1e3, clip=0.3)
    assert infer(scheme, problem, *DEAL.groups(DATA, TRAIT), view="sum", cohort=1).auc > 0.9


def test_a_cohort_hides_a_client_in_its_sum_and_integers_tell_what_floats_do(problem):
    clients = Enrolled(problem, torch.full((50,), 5))
    private = hush.secured(made("fl-std-dp", noise=1.0, clip=0.3), clients)
    bare = replace(private, stages=private.stages[:-1])
    for scheme in (made("fl-standard"), bare):
        alone = infer(scheme, problem, *DEAL.groups(DATA, TRAIT), cohort=5)
        assert alone.auc > 0.9
        assert infer(scheme, problem, *DEAL.groups(DATA, TRAIT), cohort=5, view="sum").auc < alone.auc - 0.15
    noisy = infer(private, problem, *DEAL.groups(DATA, TRAIT), cohort=5)
    assert noisy.auc < infer(bare, problem, *DEAL.groups(DATA, TRAIT), cohort=5).auc - 0.2


@pytest.mark.parametrize("name", ["fl-standard", "fl-sign", "two-bit-dp"])
def test_a_sum_over_one_client_is_its_upload(name, problem):
    more = {"noise": 0.5, "clip": 0.3} if name == "two-bit-dp" else {}
    groups = DEAL.groups(DATA, TRAIT)
    one, other = (infer(made(name, **more), problem, *groups, cohort=1, view=view) for view in ("upload", "sum"))
    assert one == other


@pytest.fixture
def lessons(monkeypatch):
    """All that classifiers learned from, while a test runs."""
    found, fit = [], Linear.fit

    def kept(rows, holds):
        found.append((rows.copy(), holds.copy()))
        return fit(rows, holds)

    monkeypatch.setattr(Linear, "fit", kept)
    return found


def test_the_attacker_never_sees_a_row_of_the_targets(problem, lessons):
    attacker, targets = DEAL.groups(DATA, TRAIT)
    assert not set(attacker.rows) & set(targets.rows)
    for group in (attacker, targets):
        torch.testing.assert_close(group.population.data.inputs, DATA.inputs[torch.from_numpy(group.rows)])
    other = DEAL.groups(DATA, TRAIT, seed=5)[1]  # rows of the attacker's too: it learns nothing of them
    scheme = made("fl-std-dp", noise=0.1, clip=0.3)
    for group in (targets, other):
        infer(scheme, problem, attacker, group)
    (first, known), (second, same) = lessons
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(known, same)
    np.testing.assert_array_equal(known, attacker.holds)


def test_it_learns_from_the_scheme_s_own_client_code(problem, lessons):
    """One client after the other, each in a block of its own, at the first round's plan."""
    attacker, targets = Deal(clients=8, size=5, present=1).groups(DATA, TRAIT)
    scheme = made("fl-std-dp", noise=0.1, clip=0.3)
    infer(scheme, problem, attacker, targets, cohort=7)
    plan = properties._plan(scheme, problem, 7, None, 0)
    assert (plan.round, plan.cohort, plan.floor, plan.live) == (1, 7, 7, None)
    secret = SecretSeed.simulated(properties._number(0, "attacker"))
    for client in range(8):
        block = Block(problem, attacker.population, np.array([client]), Draws(secret, (client,)))
        np.testing.assert_allclose(lessons[0][0][client], scheme.client(block, plan)[0].numpy(), atol=1e-6)


def test_the_seat_is_known_and_all_take_the_target_s(problem, lessons):
    attacker, targets = Deal(clients=8, size=5, present=1).groups(DATA, TRAIT)
    scheme = made("two-bit")
    infer(scheme, problem, attacker, targets, cohort=40)
    seat = properties._plan(scheme, problem, 40, None, 0).seats[:1]
    plan = replace(properties._plan(scheme, problem, 40, None, 0), seats=np.repeat(seat, 8))
    block = Block(problem, attacker.population, np.arange(8), Draws(SecretSeed.simulated(0), tuple(range(8))))
    sent = scheme.client(block, plan).numpy()
    np.testing.assert_array_equal(lessons[0][0], np.hstack([np.sign(sent), sent]))


def test_rows_are_dealt_as_said():
    deal = Deal(clients=32, size=6, present=3, absent=1, others=10)
    for group in deal.groups(DATA, TRAIT):
        split, trait = group.population.split, TRAIT[group.rows]
        counts = np.array([trait[split.rows_of(client)].sum() for client in range(32)])
        np.testing.assert_array_equal(counts, np.where(group.holds, 3, 1))
        assert group.holds.sum() == 16
        assert len(split) == 42
        assert group.others == 10
        assert set(split.sizes.tolist()) == {6}
        assert len(set(split.rows.tolist())) == len(split.rows)
        np.testing.assert_array_equal(group.population.data.targets, DATA.targets[torch.from_numpy(group.rows)])


def test_matched_labels_say_nothing_of_the_property():
    """Odd digits against even ones: threes are odd, and where they are missing others stand that are."""
    odd, gaps = Samples(DATA.inputs, DATA.targets % 2), {}
    for matched in (True, False):
        for seed in range(10):
            group = Deal(clients=60, size=5, present=2, matched=matched).groups(odd, TRAIT, seed)[0]
            split, labels = group.population.split, group.population.data.targets
            count = np.array([int(labels[split.rows_of(client)].sum()) for client in range(60)])
            gaps.setdefault(matched, []).append(count[group.holds].mean() - count[~group.holds].mean())
    assert abs(np.mean(gaps[True])) < 3 * np.sqrt(3 / 4 * 2 / 30 / 10)
    assert np.mean(gaps[False]) > 0.9


def slow(rows, holds, ridge):
    """Ridge regression as the books have it, in as many unknowns as there are numbers."""
    z, y = (rows - rows.mean(0)) / rows.std(0), np.where(holds, 1.0, -1.0)
    centre = y.mean()

    def weights(where):
        a = z[where].T @ z[where] + ridge * np.eye(z.shape[1])
        return np.linalg.solve(a, z[where].T @ (y[where] - centre))

    everybody = np.arange(len(y))
    errors = sum((z[n] @ weights(everybody != n) + centre - y[n]) ** 2 for n in everybody)
    return errors, weights(everybody), centre


def test_the_classifier_equals_a_slow_twin():
    rng = np.random.default_rng(0)
    rows, holds = rng.normal(3.0, 2.0, (30, 12)), rng.random(30) < 0.4
    rows[holds, 0] += 2.0
    z = (rows - rows.mean(0)) / rows.std(0)
    ridges = RIDGES * np.linalg.eigvalsh(z @ z.T).mean()
    _, weights, centre = min((slow(rows, holds, ridge) for ridge in ridges), key=lambda found: found[0])
    found = Linear.fit(rows, holds)
    np.testing.assert_allclose(found.weights, weights, atol=1e-9)
    np.testing.assert_allclose(found.scores(rows[:3]), z[:3] @ weights + centre, atol=1e-9)
    with pytest.raises(Mistake, match="one kind"):
        Linear.fit(rows, np.ones(30, bool))


def test_what_never_changes_says_nothing():
    rows, holds = np.ones((6, 2)), np.arange(6) % 2 == 0
    rows[:, 1] = holds
    assert (Linear.fit(rows, holds).scores(np.array([[7.0, 1.0], [-7.0, 0.0]])) > 0).tolist() == [True, False]


def test_judged_by_accuracy_and_order():
    found = judged(np.array([2.0, -1.0, -3.0, 1.0]), np.array([True, True, False, False]))
    assert found == Inference(0.5, 0.75, 0.5, pytest.approx(np.sqrt(5 / 48)))
    assert judged(np.arange(4.0), np.array([False, True, True, True])).chance == 0.75


def test_repetitions_are_of_other_rows_and_repeat(problem):
    first = repeated(made("fl-standard"), problem, DATA, TRAIT, DEAL, repetitions=2)
    assert first == repeated(made("fl-standard"), problem, DATA, TRAIT, DEAL, repetitions=2)
    groups = [DEAL.groups(DATA, TRAIT, seed)[0].rows for seed in range(3)]
    assert all(len(set(a) & set(b)) < 0.7 * len(a) for a, b in pairwise(groups))


def test_mistakes(problem):
    groups = DEAL.groups(DATA, TRAIT)
    with pytest.raises(Mistake, match="cohort=0"):
        infer(made("fl-standard"), problem, *groups, cohort=0)
    with pytest.raises(Mistake, match="20 others do not fill a cohort of 30"):
        infer(made("fl-standard"), problem, *groups, cohort=30, view="sum")
    with pytest.raises(Mistake, match="learned sends"):
        infer(made("fl-sign"), problem, *groups, learned=made("fl-top"))
    with pytest.raises(Mistake, match="too few rows with the trait"):
        Deal(clients=200, size=2, present=2).groups(DATA, TRAIT)
    with pytest.raises(Mistake, match="trait has the shape"):
        DEAL.groups(DATA, TRAIT[:-1])
    with pytest.raises(Mistake, match="nothing to infer"):
        DEAL.groups(DATA, TRAIT | True)
    with pytest.raises(Mistake, match="must differ"):
        Deal(present=3, absent=3)
    with pytest.raises(Mistake, match="vote"):
        infer(made("fl-top", vote=1.0, batch=5), problem, *groups)
