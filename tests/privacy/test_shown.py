"""A printed epsilon is never below the accounted one."""

import numpy as np
import pytest

from hush.experiment.report import words
from hush.privacy.shown import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0018, "0.0018"),
        (0.00181, "0.0019"),
        (0.681, "0.69"),
        (0.6799999, "0.68"),
        (0.68, "0.68"),
        (1.0, "1.00"),
        (3.0000000001, "3.00"),
        (3.0001, "3.01"),
        (0.0, "0.00"),
        (0.05, "0.05"),
        (0.0999, "0.10"),
        (123.451, "123.46"),
        (2.01e-7, "2.1e-7"),
        ("none", "none"),
    ],
)
def test_rounded_up(value, text):
    assert shown(value) == text


def test_the_page_and_the_tables_round_up_too():
    assert [words.epsilon(value) for value in (None, 0, 0.00181, 5.131, 1234.2)] == [
        "none",
        "0",
        "0.0019",
        "5.14",
        "1,235",
    ]


def test_never_below():
    values = np.exp(np.random.default_rng(0).uniform(-15, 8, 20000))
    for value in values:
        up = float(shown(float(value)))
        assert value * (1 - 2e-9) <= up <= max(value + 0.01, value * 1.1) * (1 + 1e-12)
        assert float(words.epsilon(float(value)).replace(",", "")) >= value * (1 - 2e-9)
