"""What a user's program may give in place of what is meant: a sentence, and not an error of Python's or of torch's."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import hush

ROWS = torch.arange(40.0).view(8, 5), torch.arange(8) % 2
SPLIT = [[0, 1, 2, 3], [4, 5, 6, 7]]
SCHEME = hush.scheme("fl-std", sampling=hush.Fixed(1))


def task(model=None, loss=nn.functional.cross_entropy, split=SPLIT):
    return hush.Task(nn.Linear(5, 2) if model is None else model, loss, ROWS, split, ROWS)


def first(scheme, task, **terms):
    return next(hush.rounds(scheme, task, **{"rounds": 1, **terms}))


private = partial(hush.scheme, "fl-std-dp", noise=1.0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: first(SCHEME, task(), delta=None), "delta=None must lie between 0 and 1"),
        (lambda: first(SCHEME, task(), rounds=2.5), "rounds=2.5 must be at least 1, and an integer"),
        (lambda: first("fl-std", task()), "scheme of type str is none: make one by hush.scheme"),
        (lambda: first(task(), SCHEME), "scheme of type Task is none"),
        (lambda: first(SCHEME, SPLIT), "task of type list is none: make one by hush.Task"),
        (lambda: task(lambda x: x), "model of type function has no weights to train"),
        (lambda: task(loss="cross-entropy"), "loss of type str cannot be called"),
        (lambda: task(split={0: [0, 1]}), "a split of type dict names no rows"),
        (lambda: task(split=["ab", "c"]), "client 0 has row numbers of the type <U2: give a list of integers"),
        (
            lambda: task(split=[[0, 1], [2.5, 3.0]]),
            "client 1 has row numbers of the type float64: give a list",
        ),
        (lambda: task(split=[{0, 1}, {2}]), "client 0 has row numbers of the type object: give a list of integers"),
        (lambda: task(split=None), "a split is a list with the row numbers of each client"),
        (lambda: first(SCHEME, task(), delta="a"), "delta=a must lie between 0 and 1"),
        (lambda: first(SCHEME, task(), rounds=None), "rounds=None must be at least 1, and an integer"),
        (lambda: first(SCHEME, task(), rounds=float("nan")), "rounds=nan must be at least 1, and an integer"),
        (lambda: hush.Fixed(True), "cohort=True must be at least 1"),
        (lambda: hush.evaluate(task(), [0.0] * 12), "weights of type list are not the model's 12"),
        (lambda: hush.Fixed(3.5), "cohort=3.5 must be at least 1, and an integer"),
        (lambda: hush.evaluate(task(), torch.zeros(3)), r"weights of the shape \(3,\) are not the model's 12"),
        (lambda: private(clip="1"), "clip = '1' must be a number above 0, 'adaptive' or a Clip"),
        (lambda: private(clip=-1), "clip = -1 must be a number above 0"),
        (lambda: private(clip=float("nan")), "clip = nan must be a number above 0"),
        (
            lambda: private(epsilon=3.0),
            r"fl-std-dp takes noise=... and no epsilon: hush.fit\(..., epsilon=E, delta=D\)",
        ),
    ],
)
def test_a_sentence_for(wrong, sentence):
    with pytest.raises(hush.Mistake, match=sentence):
        wrong()


def test_numbers_of_numpy_are_numbers():
    assert private(clip=np.float32(0.5)) == private(clip=0.5)
    assert len(task(split=[torch.tensor([0.0, 1.0]), [2]]).split) == 2
    assert first(hush.scheme("fl-std", sampling=hush.Fixed(np.int64(1))), task(), rounds=np.int64(1)).round == 1
    assert len(task(split=[np.array([0, 1], np.int32), np.array([2, 3], np.uint8)]).split) == 2
