import pytest

from hush.experiment.report import words


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0"), (0.342, "0.34"), (110.88, "110.9"), (999.94, "999.9"), (22178, "22,178")]
)
def test_kilobytes(value, text):
    assert words.kB(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "none"), (0.0, "0"), (0.0123, "0.013"), (0.675, "0.68"), (31.0, "31.00"), (1234.5, "1,235")],
)
def test_epsilon(value, text):
    assert words.epsilon(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1e-5, "1e-5"), (1.3e-5, "1.3e-5"), (0.001, "0.001"), (None, "not stated")]
)
def test_delta(value, text):
    assert words.delta(value) == text


def test_accuracy():
    assert words.accuracy(0.81249) == "0.812"
    assert words.accuracy(None) == words.accuracy(float("nan")) == "–"
