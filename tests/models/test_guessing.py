"""What a constant answer has, against the measures themselves."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, mean_absolute_error, root_mean_squared_error

from hush.models.guessing import guesses


def test_of_classes_the_most_frequent_one():
    targets = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    found = guesses(targets)
    always = np.zeros(100)
    assert found["accuracy"].guess == 0.6
    assert found["balanced"].guess == pytest.approx(balanced_accuracy_score(targets, always))
    shares = np.array([0.6, 0.3, 0.1])
    assert found["perplexity"].guess == pytest.approx(math.exp(-(shares * np.log(shares)).sum()))
    assert not found["perplexity"].larger
    assert "auroc" not in found


def test_answers_at_random_are_seldom_better_than_what_is_needed():
    """Of random scores 1 in 40 is above two standard errors; here 1 to 4 of 100 are."""
    rng = np.random.default_rng(0)
    targets = torch.from_numpy(rng.integers(0, 2, 300))
    found = guesses(targets)
    from sklearn.metrics import roc_auc_score

    areas = np.array([roc_auc_score(targets, rng.random(300)) for _ in range(400)])
    assert 0.01 <= (areas > found["auroc"].needed).mean() <= 0.04
    recalls = np.array([balanced_accuracy_score(targets, rng.integers(0, 2, 300)) for _ in range(400)])
    assert 0.01 <= (recalls > found["balanced"].needed).mean() <= 0.04


def test_of_numbers_the_mean_or_the_median():
    targets = torch.tensor([[0.0], [0.0], [1.0], [7.0], [2.0]])
    found = guesses(targets)
    assert found["rmse"].guess == pytest.approx(root_mean_squared_error(targets, np.full((5, 1), 2.0)))
    assert found["mae"].guess == pytest.approx(mean_absolute_error(targets, np.full((5, 1), 1.0)))
    assert found["r2"].guess == 0
    assert (found["r2"].larger, found["rmse"].larger, found["mae"].larger) == (True, False, False)


def test_of_several_numbers_each_by_itself():
    targets = torch.tensor([[0.0, 10.0], [2.0, 30.0], [4.0, 50.0]])
    constant = np.tile([2.0, 30.0], (3, 1))
    assert guesses(targets)["rmse"].guess == pytest.approx(root_mean_squared_error(targets, constant))
    assert "macro_f1" not in guesses(targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_of_labels_always_yes(dtype):
    targets = torch.tensor([[1, 0], [1, 1], [0, 0], [1, 0]], dtype=dtype)
    found = guesses(targets)
    assert found["macro_f1"].guess == pytest.approx(f1_score(targets, np.ones((4, 2)), average="macro"))
    assert found["macro_auroc"].guess == 0.5


def test_rows_of_no_class_do_not_count():
    assert guesses(torch.tensor([[0, 1, -100], [1, 1, -100]]))["accuracy"].guess == 0.75
    assert guesses(torch.tensor([-100, -100])) == {}
    assert guesses(torch.empty(0)) == {}
