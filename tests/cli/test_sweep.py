"""hush sweep on small grids: what is run, what is left, and what a kill changes: nothing."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hush.errors import Mistake
from hush.experiment.sweep import plan
from hush.models import processes

HUSH = Path(sys.executable).parent / "hush"
BASE = """\
[data]
name = "digits"
clients = 40

[model]
name = "linear"

[scheme]
name = "fl-top-dp"
ratio = 0.1
delta = 1e-3
clip = 0.5
noise = 1.0

[sampling]
kind = "fixed"
cohort = 10

[run]
rounds = 3
"""
TWELVE = """
[grid]
scheme.noise = [0.5, 1.0]
"scheme.ratio" = [0.1, 0.2]
"run.seed" = [0, 1, 2]
"""


@pytest.fixture
def here(monkeypatch):
    """Runs one after the other in this process: to start one takes seconds."""
    begun = []

    def inline(orders, steps, number, hear):
        for place, order in enumerate(orders):
            begun.append(str(order[1]))
            try:
                for message in steps(order, 1):
                    hear(place, message)
            except Mistake as mistake:
                hear(place, ("failed", str(mistake)))
            hear(place, ("gone",))

    monkeypatch.setattr(processes, "stream", inline)
    return begun


@pytest.fixture
def sweep(hush, tmp_path):
    """A file of this text, and the command on it."""

    def call(text, *words, out="out"):
        (tmp_path / "s.toml").write_text(text)
        return hush("sweep", tmp_path / "s.toml", "--out", tmp_path / out, *words)

    return call


def rows(folder):
    with (folder / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def test_killed_at_any_moment_the_table_is_the_same(here, sweep, tmp_path):
    """12 runs, killed with SIGKILL once two of them have come to their end, beside an undisturbed sweep."""
    text = BASE.replace("rounds = 3", "rounds = 6") + TWELVE
    status, _, err = sweep(text, out="whole")
    assert (status, len(here)) == (0, 12), err
    out = tmp_path / "out"
    began = subprocess.Popen(
        [HUSH, "sweep", tmp_path / "s.toml", "--out", out, "--workers", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while len(list(out.glob("*/*/model.safetensors"))) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(began.pid, signal.SIGKILL)
    began.wait()
    assert not (out / "sweep.csv").exists()
    here.clear()
    status, shown, err = sweep(text)
    assert status == 0, err
    assert 1 <= len(here) <= 10  # what was finished is not run again
    assert (out / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()
    for model in (tmp_path / "whole").glob("*/*/model.safetensors"):
        assert (out / model.relative_to(tmp_path / "whole")).read_bytes() == model.read_bytes()
    here.clear()
    assert sweep(text)[:2] == (0, shown)
    assert here == []


def test_the_table_is_that_of_the_runs(here, sweep, tmp_path):
    status, shown, err = sweep(BASE + TWELVE)
    assert status == 0, err
    found = rows(tmp_path / "out")
    assert [(row["scheme.noise"], row["scheme.ratio"], row["seeds"]) for row in found] == [
        (noise, ratio, "3") for noise in ("0.5", "1.0") for ratio in ("0.1", "0.2")
    ]
    for row in found:
        folder = tmp_path / "out" / f"noise-{float(row['scheme.noise']):g},ratio-{row['scheme.ratio']}"
        ends = [json.loads((folder / f"seed-{n}/rounds.jsonl").read_text().splitlines()[-1]) for n in range(3)]
        values = [end["accuracy"] for end in ends]
        assert float(row["last"]) == pytest.approx(sum(values) / 3)
        assert [float(row["last_min"]), float(row["last_max"])] == [min(values), max(values)]
        assert float(row["epsilon_model"]) == max(end["epsilon"]["model"] for end in ends)
        sent = [sum(end["bytes"]["up"][kind]["mean"] for kind in ("payload", "protocol")) / 1000 for end in ends]
        assert float(row["up_kB"]) == pytest.approx(sum(sent) / 3)
        assert f"{sum(values) / 3:.3f} ({min(values):.3f} to {max(values):.3f})" in shown
    assert (tmp_path / "out" / "sweep.png").stat().st_size > 10_000


def test_a_file_that_grew_runs_what_is_new(here, sweep):
    text = BASE + '[grid]\n"run.seed" = [0]\n"scheme.name" = ["fl-top-dp"]\n'
    assert sweep(text)[0] == 0
    status, out, _ = sweep(text.replace('["fl-top-dp"]', '["fl-top-dp", "fl-std-dp"]'), "--json")
    assert status == 0
    assert [Path(run).parts[-2:] for run in here] == [("scheme-fl-top-dp", "seed-0"), ("scheme-fl-std-dp", "seed-0")]
    found = json.loads(out)
    assert [row["scheme.name"] for row in found["rows"]] == ["fl-top-dp", "fl-std-dp"]
    assert found["failed"] == {}
    status, _, err = sweep(text.replace("rounds = 3", "rounds = 4"))
    assert status == 2
    assert "scheme-fl-top-dp/seed-0 holds a run with another configuration, [run] rounds was 3 and is now 4" in err
    assert len(here) == 2


def test_a_run_that_fails_leaves_the_others(here, sweep, tmp_path):
    text = BASE + '[[runs]]\n"train.rate" = 0.1\n[[runs]]\n"data.clients" = 100000\n'
    status, shown, err = sweep(text)
    assert status == 2
    assert err.splitlines()[-1].startswith("hush: clients-100000: ")
    assert "Traceback" not in err
    assert len(rows(tmp_path / "out")) == 1
    assert "rate" in shown


def test_runs_and_a_grid_are_combined(tmp_path):
    (tmp_path / "base.toml").write_text(BASE)
    text = 'experiment = "base.toml"\n[run]\nrounds = 9\n[grid]\nrun.seed = [3, 4]\n'
    text += '[[runs]]\nscheme.epsilon = 2\n[[runs]]\nscheme.name = "fl-top"\ndata.name = "own.npz"\n'
    (tmp_path / "s.toml").write_text(text.replace('scheme.name = "fl-top"', "scheme.noise = 2.0"))
    found = plan.read(tmp_path / "s.toml")
    names = ["epsilon-2/seed-3", "epsilon-2/seed-4", "noise-2,data-own.npz/seed-3", "noise-2,data-own.npz/seed-4"]
    assert [point.name for point in found.points] == names
    first, last = found.points[0].config, found.points[-1].config
    assert (first.run.rounds, first.run.seed, first.scheme.epsilon, first.scheme.noise) == (9, 3, 2.0, None)
    assert last.data.name == str(tmp_path / "own.npz")  # beside the file
    assert found.varying == ("scheme.epsilon", "scheme.noise", "data.name")


def test_a_run_without_a_seed_is_beside_those_that_have_one(tmp_path):
    """Not around them: a run's directory is its own."""
    text = f"{BASE}[[runs]]\nscheme.noise = 2.0\n[[runs]]\nscheme.noise = 2.0\nrun.seed = 7\n"
    (tmp_path / "s.toml").write_text(text)
    assert [point.name for point in plan.read(tmp_path / "s.toml").points] == ["noise-2/seed-0", "noise-2/seed-7"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "asks for one run: add [grid] or [[runs]]"),
        ("[grid]\nepsilon = [1]\n", "grid epsilon: there is no such setting: did you mean scheme.epsilon?"),
        ("[grid]\nscheme.epsilan = [1]\n", "grid scheme.epsilan: there is no such setting: did you mean"),
        ("[grid]\nscheme.noise = 1\n", "grid scheme.noise = 1 must be a list of values: write [1]"),
        ("[grid]\nscheme.noise = [1, -1]\n", "noise--1: scheme.noise = -1 must be at least 0.01"),
        ("[grid]\nscheme.gamma = [2.0]\n", "gamma-2: fl-top-dp has no gamma to set"),
        ("[grid]\nrun.seed = [1, 1]\n", "two runs are seed-1: leave one of them out"),
        ("[grid]\nrun.seed = [1]\n[[runs]]\nrun.seed = 2\n", "run.seed is in [grid] and in [[runs]]"),
        ("[runs]\nrun.seed = 2\n", "write [[runs]] above each"),
        ("[grids]\nrun.seed = [2]\n", "grids"),
    ],
)
def test_mistakes_come_before_anything_is_run(here, sweep, tmp_path, text, sentence):
    status, out, err = sweep(BASE + text)
    assert (status, out, err.count("\n"), here) == (2, "", 1, [])
    assert sentence in err
    assert not (tmp_path / "out").exists()
