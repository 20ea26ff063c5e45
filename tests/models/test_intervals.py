"""Intervals of shares and of areas: against published values, and how often they hold what they should."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from hush.models import intervals


def test_wilson_s_interval_is_the_published_one():
    # Newcombe 1998, table I: 81 of 263, and 0 of 20.
    assert intervals.share(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert intervals.share(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert intervals.share(20, 20) == pytest.approx((0.8389, 1.0), abs=5e-5)


def test_an_auroc_solves_its_equation_and_stays_within_0_and_1():
    low, high = intervals.auroc(0.8, 20, 60)
    for edge in (low, high):
        q = 1 + (40 - 1) * ((1 - edge) / (2 - edge) + edge / (1 + edge))
        assert abs(edge - 0.8) == pytest.approx(1.959964 * (edge * (1 - edge) * q / 1200) ** 0.5, rel=1e-9)
    assert intervals.auroc(1.0, 3, 9)[1] == 1.0
    assert 0.5 < intervals.auroc(1.0, 3, 9)[0] < 0.8
    assert intervals.auroc(0.0, 3, 9)[0] == 0.0


@pytest.mark.parametrize(("shift", "ones", "zeros"), [(0.5, 10, 40), (1.2, 8, 30), (2.0, 15, 15)])
def test_an_auroc_s_interval_holds_the_true_one_about_95_times_in_100(shift, ones, zeros):
    truth, draws, held = norm.cdf(shift / 2**0.5), np.random.default_rng(1), 0
    labels = np.repeat([1, 0], [ones, zeros])
    for _ in range(400):
        scores = np.concatenate([draws.normal(shift, 1, ones), draws.normal(0, 1, zeros)])
        low, high = intervals.auroc(roc_auc_score(labels, scores), ones, zeros)
        held += low <= truth <= high
    assert 0.93 <= held / 400 <= 0.995  # on the safe side where classes are small and far apart
