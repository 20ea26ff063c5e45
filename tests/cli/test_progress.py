"""What a person hears while the features of images are made: a real run, with few images and no patience."""

import re
from pathlib import Path

import numpy as np
import pytest

from hush.cli import bars
from hush.models.features import front

WORDS = ["hush-tiny", "--data", "own.npz", "--clients", "60", "--noise", "1", "--delta", "1e-3", "--rounds", "2"]


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """700 images of their own, an empty cache, few procedural images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(front, "MANY", 300)
    random = np.random.default_rng(0)
    x, y = random.random((700, 1, 6, 7), np.float32), random.integers(0, 3, 700)
    np.savez(tmp_path / "own.npz", x_train=x[:600], y_train=y[:600], x_test=x[600:], y_test=y[600:])


@pytest.mark.usefixtures("few")
def test_features_are_told_and_the_cache_is_silent(hush, monkeypatch):
    """Counted over all parts of the set; on standard error, with --json as well."""
    monkeypatch.setattr(bars, "SOON", 0.0)
    monkeypatch.setattr(bars, "EVERY", 0.0)
    status, out, err = hush("run", *WORDS, "--out", "a", "--json")
    assert status == 0, err
    assert out.count("\n") == 1
    told = re.findall(r"^(basis for features|features) of own: (\d+) of (\d+) (procedural images|images)$", err, re.M)
    assert told == [
        *(("basis for features", str(done), "300", "procedural images") for done in (256, 300)),
        *(("features", str(done), "700", "images") for done in (256, 512, 600, 700)),
    ]
    status, _, err = hush("run", *WORDS, "--out", "b", "--json")
    assert status == 0, err
    assert "of own:" not in err
    assert "round 1 of 2" in err


@pytest.mark.usefixtures("few")
def test_what_is_quick_is_silent(hush, monkeypatch):
    monkeypatch.setattr(bars, "SOON", 3600.0)
    status, _, err = hush("run", *WORDS, "--out", "a")
    assert status == 0, err
    assert "of own:" not in err


def test_what_the_first_round_waits_for(hush):
    """Choosing the weights on public data may take minutes: the notes name the steps before they are taken."""
    words = ["fl-top", "--data", "digits", "--clients", "50", "--cohort", "2", "--rounds", "1", "--model", "mlp"]
    status, _, err = hush("run", *words)
    assert status == 0, err
    assert "; steps on it that choose the weights: 5\n" in err
    assert err.index("steps on it") < err.index("1/1")
    status, _, err = hush("run", "fl-basic", *words[1:])
    assert status == 0, err
    assert "public batch" not in err
