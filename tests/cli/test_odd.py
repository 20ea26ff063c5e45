"""Recommended schemes on images of odd sizes, channels and contents: they learn, or say in one sentence why not."""

import json
from pathlib import Path

import numpy as np
import pytest

from hush.models.features import front

BUDGET = ["--clients", "100", "--epsilon", "8", "--delta", "1e-3"]


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and few procedural images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(front, "MANY", 500)
    monkeypatch.setattr(front, "FEW", 300)


def halves(shape: tuple[int, ...], flat: float = 0.0) -> None:
    """own.npz: bright on the left (0) or on the right (1); the part `flat` of the images is of one colour."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 1200)
    x = 0.3 * random.random((1200, *shape), np.float32)
    half = shape[-1] // 2
    x[y == 0, ..., :half] += 0.6
    x[y == 1, ..., shape[-1] - half :] += 0.6
    x[: round(1200 * flat)] = 0.5
    np.savez("own.npz", x_train=x[:1000], y_train=y[:1000], x_test=x[1000:], y_test=y[1000:])


@pytest.mark.parametrize("scheme", ["hush", "hush-tiny", "hush-once"])
@pytest.mark.parametrize("shape", [(2, 5, 5), (1, 9, 13), (4, 16, 16), (1, 3, 20), (3, 1, 50), (40, 30), (1, 2, 2)])
def test_any_size_and_channels(hush, scheme, shape):
    halves(shape)
    status, out, err = hush("run", scheme, "--data", "own.npz", *BUDGET, "--rounds", "8", "--out", "r", "--json")
    assert status == 0, err
    assert json.loads(out)["accuracy"] > 0.85


@pytest.mark.parametrize("flat", [0.3, 1.0])
def test_images_of_one_colour(hush, flat):
    """They reveal nothing, and spoil nothing."""
    halves((1, 8, 8), flat)
    status, out, err = hush("run", "hush-once", "--data", "own.npz", *BUDGET, "--rounds", "8", "--out", "r", "--json")
    assert status == 0, err
    last = json.loads(out)
    assert np.isfinite(last["loss"])
    assert last["accuracy"] > (0.85 if flat < 1 else 0.3)


@pytest.mark.parametrize("scheme", ["hush", "hush-tiny", "hush-once"])
def test_one_pixel(hush, scheme):
    halves((3, 1, 1))
    status, _, err = hush("run", scheme, "--data", "own.npz", *BUDGET, "--rounds", "8", "--out", "r")
    assert status == 2
    assert err == "hush: images of one pixel show nothing: give them as a table of shape (rows, 3)\n"


@pytest.mark.parametrize("scheme", ["hush", "fl-top-dp"])
def test_channels_last(hush, scheme):
    """They would train, as so many channels of narrow images."""
    halves((16, 16, 3))
    status, _, err = hush("run", scheme, "--data", "own.npz", *BUDGET, "--out", "r")
    assert status == 2
    assert err == (
        "hush: own has images of shape (16, 16, 3), with the channels last: put them first, as in"
        " x.transpose(0, 3, 1, 2)\n"
    )
    assert not Path("r").exists()


@pytest.mark.parametrize("name", ["own.npz", "own.py:load"])
def test_one_class(hush, name):
    x, y = np.random.default_rng(0).random((60, 5), np.float32), np.zeros(60, np.int64)
    np.savez("own.npz", x_train=x[:50], y_train=y[:50], x_test=x[50:], y_test=y[50:])
    Path("own.py").write_text(
        "import numpy as np, torch\n"
        "def load():\n"
        "    a = {k: torch.from_numpy(v) for k, v in np.load('own.npz').items()}\n"
        "    return (a['x_train'], a['y_train']), (a['x_test'], a['y_test'])\n"
    )
    status, _, err = hush("run", "fl-std", "--data", name, "--model", "linear", "--clients", "10", "--out", "r")
    assert status == 2
    assert err.startswith("hush: all labels of ")
    assert err.endswith(" are 0, so there is nothing to learn: give two classes or more\n")
    assert err.count("\n") == 1
