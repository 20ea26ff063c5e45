"""Membership inference: curves and likelihood ratios equal slow twins, and the attack finds what there is to find."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import norm
from sklearn.datasets import load_digits
from torch import nn

import hush
from hush.audit.curves import Curve
from hush.audit.membership import attacked, halves, likelihood_ratios, membership, record_losses, scaled
from hush.errors import Mistake
from hush.models.weights import flatten, glorot


def rates(positives, negatives):
    """One threshold after the other."""
    points = [(0.0, 0.0)]
    for threshold in sorted({*positives, *negatives}, reverse=True):
        points.append(tuple(sum(one >= threshold for one in kind) / len(kind) for kind in (positives, negatives)))
    return points


def drawn(rng, kind, count):
    return rng.normal(0.4, 1.0, count) if kind == "normal" else rng.integers(4, size=count).astype(float)


@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_the_curve_equals_a_slow_twin(kind):
    rng = np.random.default_rng(0)
    positives, negatives = drawn(rng, kind, 37), drawn(rng, kind, 23)
    curve, points = Curve.of(positives, negatives), rates(positives.tolist(), negatives.tolist())
    np.testing.assert_allclose(np.stack([curve.true, curve.false], 1), points, atol=1e-12)
    wins = [(a > b) + (a == b) / 2 for a in positives for b in negatives]
    assert curve.auc == pytest.approx(np.mean(wins))
    for rate in (0.0, 1 / 23, 0.2, 0.5, 1.0):
        assert curve.at(rate) == pytest.approx(max(true for true, false in points if false <= rate + 1e-12))


def test_true_alarms_at_few_false_ones_of_two_normal_distributions():
    rng, mu, trials = np.random.default_rng(1), 1.5, 400_000
    curve = Curve.of(rng.normal(mu, 1.0, trials), rng.normal(0.0, 1.0, trials))
    assert curve.auc == pytest.approx(norm.cdf(mu / math.sqrt(2)), abs=4 * curve.error)
    for rate in (0.001, 0.01, 0.1):
        wanted = norm.cdf(mu + norm.ppf(rate))
        slope = norm.pdf(mu + norm.ppf(rate)) / norm.pdf(norm.ppf(rate))  # of the curve: false alarms are counted, too
        error = math.sqrt(wanted * (1 - wanted) / trials + slope**2 * rate * (1 - rate) / trials)
        assert abs(curve.at(rate) - wanted) < 4 * error


def test_the_error_is_that_of_an_area_that_says_nothing():
    rng = np.random.default_rng(2)
    areas = [Curve.of(rng.random(30), rng.random(50)).auc for _ in range(2000)]
    assert np.std(areas) == pytest.approx(Curve.of(rng.random(30), rng.random(50)).error, rel=0.06)


def slow_ratio(x, inside, outside, deviations):
    """Of one unit: the two densities."""
    found = [norm.logpdf(x, np.mean(kind), s) for kind, s in zip((inside, outside), deviations, strict=True)]
    return found[0] - found[1]


def test_likelihood_ratios_equal_a_slow_twin():
    rng = np.random.default_rng(3)
    shadows, observed = rng.normal(rng.normal(0, 3, 9), 1.0, (10, 9)), rng.normal(0, 3, 9)
    inside = rng.permuted(np.arange(90).reshape(10, 9) % 2 == 0, axis=0)
    kinds = [[shadows[where[:, u], u] for u in range(9)] for where in (inside, ~inside)]
    deviations = [
        math.sqrt(sum(((one - one.mean()) ** 2).sum() for one in kind) / (sum(map(len, kind)) - 9)) for kind in kinds
    ]
    wanted = [slow_ratio(observed[u], kinds[0][u], kinds[1][u], deviations) for u in range(9)]
    np.testing.assert_allclose(likelihood_ratios(observed, shadows, inside), wanted, rtol=1e-9)


def models(rng, count, units, gap):
    """Losses of models that come in pairs; each unit has a difficulty of its own, and is easier inside."""
    inside = np.empty((count, units), bool)
    inside[::2] = rng.random((count // 2, units)) < 0.5
    inside[1::2] = ~inside[::2]
    logits = rng.normal(0, 3, units) + gap * inside + rng.normal(0, 1, (count, units))
    return np.log1p(np.exp(-logits)), inside


def test_ratios_find_what_the_loss_alone_does_not():
    losses, inside = models(np.random.default_rng(4), 32, 500, 2.0)
    found = attacked(losses, inside)
    assert (found.unit, found.models, found.curve.positives + found.curve.negatives) == ("record", 32, 16000)
    assert found.curve.auc == pytest.approx(norm.cdf(2.0 / math.sqrt(2)), abs=0.02)  # as if both means were known
    assert found.curve.at(0.01) == pytest.approx(norm.cdf(2.0 + norm.ppf(0.01)), abs=0.06)
    assert found.baseline.auc < 0.7
    assert found.baseline.at(0.01) < 0.1


def test_nothing_is_found_where_losses_do_not_depend_on_membership():
    losses, inside = models(np.random.default_rng(5), 12, 500, 0.0)
    found = attacked(losses, inside)
    assert abs(found.curve.auc - 0.5) < 3 * found.curve.error
    assert abs(found.curve.at(0.01) - 0.01) < 0.01


def test_a_target_is_judged_by_all_models_but_itself_and_its_other_half():
    losses, inside = models(np.random.default_rng(6), 8, 40, 1.0)
    statistics = scaled(losses)
    ratios = []
    for target in range(8):
        left = [model for model in range(8) if model // 2 != target // 2]
        ratios.append(likelihood_ratios(statistics[target], statistics[left], inside[left]))
    wanted = Curve.of(np.array(ratios)[inside], np.array(ratios)[~inside])
    np.testing.assert_allclose(attacked(losses, inside).curve.true, wanted.true)


def test_a_client_is_its_rows_together():
    """Four rows say more than one; and of clients of one row each, the client is the record."""
    rng = np.random.default_rng(7)
    losses, inside = models(rng, 16, 100, 1.0)
    alone, starts = attacked(losses, inside), np.arange(100)
    same = attacked(losses, inside, starts)
    assert same.unit == "client"
    np.testing.assert_allclose(same.curve.true, alone.curve.true)
    logits = np.repeat(rng.normal(0, 3, 100) + inside, 4, axis=1) + rng.normal(0, 1, (16, 400))
    found = attacked(np.log1p(np.exp(-logits)), inside, 4 * starts)
    assert found.curve.auc == pytest.approx(norm.cdf(math.sqrt(4 / 2)), abs=0.04)
    assert found.curve.auc > alone.curve.auc + 0.1


def test_the_statistic_is_the_logit_of_the_confidence():
    p = np.array([1e-9, 0.2, 0.5, 0.999])
    np.testing.assert_allclose(scaled(-np.log(p)), np.log(p / (1 - p)), rtol=1e-6, atol=1e-12)
    assert np.isfinite(scaled(np.array([0.0, 1e-300, 800.0]))).all()


@pytest.fixture(scope="module")
def task():
    """Digits with labels at random: whatever is known of a row's label is known from having had it."""
    found, rng = load_digits(), torch.Generator().manual_seed(0)
    x, y = torch.tensor(found.data[:120], dtype=torch.float32) / 16, torch.randint(10, (120,), generator=rng)
    layers = glorot(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), hush.PublicSeed(0))
    return hush.Task(layers, F.cross_entropy, (x, y), [list(range(4 * k, 4 * k + 4)) for k in range(30)])


def test_halves_of_every_client_s_rows_or_of_the_clients(task):
    for unit, units in (("record", 120), ("client", 30)):
        inside, parts = halves(task, 6, 1, unit)
        assert inside.shape == (6, units)
        np.testing.assert_array_equal(inside[::2], ~inside[1::2])
        assert (inside.sum(1) == units // 2).all()
        assert not np.array_equal(inside[0], inside[2])
        for row, part in zip(inside, parts, strict=True):
            rows = np.repeat(row, 4) if unit == "client" else row
            np.testing.assert_array_equal(part.split.rows, np.flatnonzero(rows))
            assert part.clients == (15 if unit == "client" else 30)
            assert set(part.sizes.tolist()) == {4 if unit == "client" else 2}


def test_losses_are_those_of_the_rows_one_by_one(task):
    with torch.no_grad():
        wanted = F.cross_entropy(task.model(task.train.inputs).double(), task.train.targets, reduction="none")
    np.testing.assert_allclose(record_losses(task, flatten(task.model), task.train), wanted, rtol=1e-5)


@pytest.mark.parametrize(("unit", "clients"), [("record", 10), ("client", 30)])
def test_who_was_in_the_training_is_found_and_not_under_strong_noise(task, unit, clients):
    common = {"sampling": hush.Poisson(0.8), "rate": 0.5, "steps": 20, "batch": None}
    alone, size = hush.Simulated(workers=1), 120 // clients
    split = [list(range(size * k, size * (k + 1))) for k in range(clients)]
    task = hush.Task(task.model, task.loss, task.train, split)
    found = membership(hush.scheme("fl-std", **common), task, 15, 6, unit=unit, transport=alone)
    assert found.curve.auc > 0.85
    assert found.curve.at(0.01) > 0.1
    private = hush.scheme("fl-std-dp", clip=0.5, noise=1e3, **{**common, "steps": 1})
    hidden = membership(private, task, 3, 6, unit=unit, transport=alone)
    assert abs(hidden.curve.auc - 0.5) < 3 * hidden.curve.error
    assert hidden.curve.at(0.01) < 0.1


def test_mistakes(task):
    losses, inside = models(np.random.default_rng(8), 6, 10, 1.0)
    with pytest.raises(Mistake, match="inside has the shape"):
        attacked(losses, inside[:, :5])
    with pytest.raises(Mistake, match="from 0 on"):
        attacked(-losses, inside)
    with pytest.raises(Mistake, match="too few shadows"):
        attacked(losses[:4], inside[:4])
    with pytest.raises(Mistake, match="shadows=4"):
        halves(task, 4, 0)
    with pytest.raises(Mistake, match="shadows=7"):
        halves(task, 7, 0)
    lonely = hush.Task(task.model, task.loss, task.train, [[row] for row in range(120)])
    with pytest.raises(Mistake, match="two records"):
        halves(lonely, 6, 0)
    with pytest.raises(Mistake, match="no numbers"):
        Curve.of(np.array([np.nan]), np.zeros(2))
    with pytest.raises(Mistake, match="positives has the shape"):
        Curve.of(np.zeros(0), np.zeros(2))
    with pytest.raises(Mistake, match="rate=2"):
        Curve.of(np.zeros(2), np.zeros(2)).at(2)
