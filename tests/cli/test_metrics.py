"""A run's own metrics from rounds.jsonl to the page: a regression never speaks of accuracy; its best is its least."""

import json
from pathlib import Path

import numpy as np
import pytest

from hush.experiment.sweep.shown import _spread
from hush.experiment.sweep.summary import Spread

OWN = """
import torch
import hush

def gain(outputs, targets):
    return {"gain": float((outputs[:, 0] * targets).mean()), "spread": float(outputs.std())}

def cost(outputs, targets):
    return float((outputs[:, 0] - targets).abs().max())

dear = hush.OwnMetrics(cost, larger=False)
"""
RUN = ["run", "fl-std", "--clients", "10", "--cohort", "5", "--rounds", "4"]


@pytest.fixture
def numbers(tmp_path: Path) -> None:
    """own.npz: rows of numbers, and a number for each."""
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 6)).astype(np.float32)
    y = (40 * x[:, 0] + random.normal(size=240)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:])
    (tmp_path / "own.py").write_text(OWN)


def lines(folder: str) -> list[dict]:
    return [json.loads(line) for line in (Path(folder) / "rounds.jsonl").read_text().splitlines()]


def test_a_regression(hush, numbers) -> None:
    words = [*RUN, "--data", "own.npz", "--model", "linear"]
    status, out, err = hush(*words, "--rate", "0.1", "--out", "good")
    assert status == 0, err
    assert "RMSE, last" in out
    assert "MAE, best" in out
    said = out + err
    # A rate at which it goes away from the minimum after the first round: the best is the first.
    status, out, err = hush(*words, "--rate", "1.2", "--out", "bad")
    assert status == 0, err
    good, bad = lines("good"), lines("bad")
    assert (good[-1]["measure"], good[-1]["larger"]) == ("rmse", False)
    assert [row["rmse"] for row in good] == sorted((row["rmse"] for row in good), reverse=True)
    assert (good[-1]["best_round"], good[-1]["best_rmse"]) == (4, good[-1]["rmse"])
    assert bad[-1]["rmse"] > bad[0]["rmse"]
    assert (bad[-1]["best_round"], bad[-1]["best_rmse"], bad[-1]["best_mae"]) == (1, bad[0]["rmse"], bad[0]["mae"])
    page = Path("bad/report.html").read_text()
    assert "RMSE, best" in page
    assert "The ring marks the best round, 1." in page
    status, table, err = hush("compare", "good", "bad", "--out", "both.svg")
    assert status == 0, err
    assert "RMSE (smaller is better)" in table
    status, found, err = hush("compare", "good", "bad", "--out", "both.svg", "--json")
    rows = json.loads(found)["runs"]
    assert [row["measure"] for row in rows] == ["rmse", "rmse"]
    assert rows[1]["best_rmse"] == bad[0]["rmse"]
    assert not rows[1]["larger"]
    texts = (said, out, page, table, found, Path("bad/rounds.jsonl").read_text(), Path("both.svg").read_text())
    assert not [text for text in texts if "accuracy" in text.lower()]


def test_repeated(hush, numbers) -> None:
    """The worst of several is the largest."""
    words = [*RUN[:-1], "2", "--data", "own.npz", "--model", "linear", "--rate", "0.1"]
    status, out, err = hush(*words, "--repeat", "2", "--out", "twice")
    assert status == 0, err
    ends = sorted(lines(f"twice/seed-{seed}")[-1]["rmse"] for seed in (0, 1))
    row = next(line for line in out.splitlines() if "RMSE, last" in line)
    assert [float(word) for word in row.split()[-2:]] == pytest.approx(ends[::-1], abs=1e-3)
    assert "accuracy" not in out


def test_a_function_of_ones_own(hush, numbers) -> None:
    words = [*RUN, "--data", "own.npz", "--model", "linear", "--rate", "0.1"]
    status, out, err = hush(*words, "--set", "model.metrics=own.py:gain", "--out", "gain", "--json")
    assert status == 0, err
    last = json.loads(out)
    assert (last["measure"], last["larger"], last["best_round"]) == ("gain", True, 4)
    assert "spread" in last
    assert "rmse" not in last
    status, out, err = hush(*words, "--set", "model.metrics=own.py:dear", "--out", "cost")
    assert status == 0, err
    assert "cost, best" in out
    assert lines("cost")[-1]["larger"] is False
    status, out, err = hush("run", "--resume", "--out", "cost")  # the function is found by the run's own configuration
    assert status == 0, err


def test_metrics_that_are_not_there(hush, numbers) -> None:
    words = [*RUN, "--data", "own.npz", "--model", "linear", "--out", "r"]
    status, _, err = hush(*words, "--set", "model.metrics=accurate")
    assert status == 2
    assert err.startswith("hush: metrics='accurate' is not known: choose classification, regression, multi-label, lan")
    status, _, err = hush(*words, "--set", "model.metrics=own.py:none")
    assert status == 2
    assert "has no function 'none'" in err
    assert not Path("r").exists()


def test_labels(hush, tmp_path) -> None:
    """Several columns of 0.0 and 1.0 have a loss and metrics of their own; rounds between evaluations have none."""
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 6)).astype(np.float32)
    y = (x[:, :3] > 0).astype(np.float32)
    np.savez(tmp_path / "own.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:])
    words = ["--data", "own.npz", "--model", "linear", "--rate", "1", "--set", "run.eval_every=2"]
    status, out, err = hush(*RUN[:-1], "3", *words, "--out", "r")
    assert status == 0, err
    assert "macro AUROC, last" in out
    first, second, third = lines("r")
    assert (first["measure"], first["best_round"], first["loss"]) == (None, None, None)
    assert second["macro_auroc"] == second["best_macro_auroc"] > 0.7
    assert third["measure"] == "macro_auroc"


def test_a_sweep_goes_from_the_worst_to_the_best() -> None:
    found = Spread(2.0, 1.0, 3.0)
    assert _spread(found, larger=False) == "2.000 (3.000 to 1.000)"
    assert _spread(found, larger=True) == "2.000 (1.000 to 3.000)"
