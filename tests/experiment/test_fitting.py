"""hush.fit: a run of the command line in one call of Python, with objects in place of names."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hush
from hush.cli import main
from hush.experiment import config, fitting
from hush.experiment.resolving import build

EXAMPLES = Path(__file__).parents[2] / "examples"
BUDGET = {"epsilon": 8, "delta": 1e-3, "rounds": 3}


def command(monkeypatch, capsys, *words):
    """The last row that `hush run` prints."""
    monkeypatch.setattr(sys, "argv", ["hush", "run", *map(str, words), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code == 0, err
    return json.loads(out)


def timeless(row):
    return {key: value for key, value in row.items() if key not in ("seconds", "path", "warnings")}


@pytest.fixture
def table():
    """(train, test): 500 and 100 rows of 6 numbers, of two classes."""
    x = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + x[:, 1] > 0).long()
    return (x[:500], y[:500]), (x[500:], y[500:])


OWN = """
import torch

def load():
    x = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + x[:, 1] > 0).long()
    return (x[:500], y[:500]), (x[500:], y[500:])

def wide(rows):
    return torch.cat([rows, rows.square(), rows.abs()], dim=1)
"""


def wide(rows):
    return torch.cat([rows, rows.square(), rows.abs()], dim=1)


def test_the_recommended_scheme_is_the_command_lines(table, tmp_path, monkeypatch, capsys):
    """To the last digit, with a head on the rows and no network to give; and nothing is left on the disk."""
    monkeypatch.chdir(tmp_path)
    run = hush.fit(table, "hush", clients=100, **BUDGET)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "own.py").write_text(OWN)
    words = ("--data", "own.py:load", "--clients", 100, "--epsilon", 8, "--delta", 1e-3, "--rounds", 3)
    last = command(monkeypatch, capsys, "hush", *words, "--out", "r")
    assert timeless(run.rounds[-1]) == timeless(last)
    assert run.score.auroc == last["auroc"]
    assert run.epsilon == last["epsilon"]
    assert run.epsilon["model"] <= 8
    assert run.config.model.name == "head"
    found = run.predict(table[1][0])
    assert float((found == table[1][1]).double().mean()) == run.score.accuracy == last["accuracy"]
    assert "differential privacy, client level" in run.statement


def test_features_of_ones_own(table, tmp_path, monkeypatch, capsys):
    """A function in Python or in a file: the same run, the model takes raw rows, the card says on whose word."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    run = hush.fit(table, "hush", clients=100, features=wide, **BUDGET)
    words = ("--data", "own.py:load", "--clients", 100, "--epsilon", 8, "--delta", 1e-3, "--rounds", 3)
    last = command(monkeypatch, capsys, "hush", *words, "--features", "own.py:wide", "--out", "r")
    assert timeless(run.rounds[-1]) == timeless(last)
    assert run.model.network[1].in_features == 3 * 6 + 1
    assert run.model(table[1][0].numpy()).shape == (100, 2)
    assert any("python, public and made without the clients' data on the word of" in note for note in run.notes)
    (said,) = (
        note for note in json.loads((tmp_path / "r/privacy.json").read_text())["card"]["unnoised"] if "wide" in note
    )
    assert "epsilon does not count" in said
    model = hush.load("r")
    assert torch.equal(model.predict(table[1][0]), run.predict(table[1][0]))


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda rows: rows[:, 0], "return one row of numbers for each"),
        (lambda rows: rows / 0, "hold NaN or infinity"),
        (lambda rows: rows.nothing, "fail: AttributeError"),
    ],
)
def test_features_that_are_none(table, function, sentence):
    with pytest.raises(hush.Mistake, match=sentence):
        hush.fit(table, "hush", clients=100, features=function, **BUDGET)


def task(table, **more):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    split = [list(range(n, n + 5)) for n in range(0, 500, 5)]
    return hush.Task(net, nn.functional.cross_entropy, table[0], split, table[1], table[0], **more)


def test_a_task_with_a_network(table, tmp_path):
    """Its own model, loss and split; epsilon becomes noise; a directory that goes on after it was stopped."""
    mine = task(table)
    before = [weight.clone() for weight in mine.model.parameters()]
    given = {"cohort": 20, "clip": 0.5, "ratio": 0.2, **BUDGET}
    run = hush.fit(mine, "fl-top-dp", **given)
    assert all(map(torch.equal, before, mine.model.parameters()))
    assert run.task.split is mine.split
    assert run.config.data.partition == "own"
    assert 7 < run.epsilon["model"] <= 8
    kept = hush.fit(mine, "fl-top-dp", **given, out=tmp_path / "r")
    assert [timeless(row) for row in kept.rounds] == [timeless(row) for row in run.rounds]
    assert kept.card == run.card
    again = hush.fit(mine, "fl-top-dp", **given, out=tmp_path / "r", resume=True)
    assert torch.equal(again.model(table[1][0]), run.model(table[1][0]))
    with pytest.raises(hush.Mistake, match="already holds a run"):
        hush.fit(mine, "fl-top-dp", **given, out=tmp_path / "r")
    with pytest.raises(hush.Mistake, match=r"give it, as in hush\.load\(run, model=network\)"):
        hush.load(tmp_path / "r")
    loaded = hush.load(tmp_path / "r", model=task(table).model)
    assert torch.equal(loaded.predict(table[1][0]), run.predict(table[1][0]))
    with pytest.raises(hush.Mistake, match="given by a Python program"):
        build(config.read(tmp_path / "r" / "config.toml"))


def test_a_scheme_on_features_refuses_a_network(table):
    with pytest.raises(hush.Mistake, match=r"hush trains a linear head .*hush\.fit\(\(task\.train, task\.test\)"):
        hush.fit(task(table), "hush", **BUDGET)
    scheme = hush.scheme("hush", noise=1.0, sampling=hush.Poisson(0.2))
    with pytest.raises(hush.Mistake, match=r"trains a linear head on public features.*take hush\.fit\(\(train, test\)"):
        next(hush.rounds(scheme, task(table), rounds=1))
    mine = task(table, featured=True)
    with pytest.raises(hush.Mistake, match="one trained layer is linear and takes the rows: give steps in its place"):
        next(hush.rounds(scheme, mine, rounds=1))
    steps = hush.scheme("hush", noise=1.0, sampling=hush.Poisson(0.2), steps=5)
    assert next(hush.rounds(steps, mine, rounds=1)).round == 1
    head = hush.Task(nn.Sequential(nn.Linear(6, 2)), mine.loss, mine.train, mine.split, mine.test, featured=True)
    assert next(hush.rounds(scheme, head, rounds=1)).round == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epsilom": 2}, "epsilom=2: there is no such setting: did you mean epsilon"),
        ({"epsilon": -1, "delta": 1e-3}, "scheme.epsilon = -1 must be between"),
        ({"directions": 3}, "it is now features"),
        ({"epsilon": 1}, "needs a delta"),
        ({"name": "x"}, "is a setting of several tables"),
        ({"clients": 3, "split": [[0], [1]]}, "data.clients is given and the split says who holds what"),
        ({"resume": True, **BUDGET}, "resume=True needs out"),
        ({"scheme.name": "hush"}, "scheme.name is an argument of its own"),
        ({"features": "wide", **BUDGET}, "must be how many there are, or file.py:function"),
    ],
)
def test_refused(table, given, sentence):
    with pytest.raises(hush.Mistake, match=sentence):
        hush.fit(table, "hush", **given)


def test_data_that_are_none():
    with pytest.raises(hush.Mistake, match="data of type int is not known"):
        hush.fit(3, "hush", **BUDGET)
    with pytest.raises(hush.Mistake, match="must be a name"):
        hush.fit("digits", hush.scheme("fl-std"))


def test_settings_have_the_names_of_the_options(table):
    """secure=True is --secure, noise is [scheme]'s, and what two tables have goes by both names."""
    given = {"clients": 40, "cohort": 20, "noise": 1.0, "delta": 1e-3, "rounds": 2, "sampling": "fixed"}
    run = hush.fit(table, "hush", secure=True, **given, **{"secure.noise": "gaussian"})
    assert (run.config.secure.mode, run.config.secure.noise, run.config.scheme.noise) == ("simulated", "gaussian", 1.0)
    assert run.config.sampling.kind == "fixed"


def test_the_census_example(tmp_path, monkeypatch, capsys):
    """On a made-up table of its shape."""
    random = np.random.default_rng(0)
    words = ["a", "b", "c"]
    lines = []
    for _ in range(4200):
        row = [str(n) for n in random.integers(0, 50, 14)]
        for place in (1, 3, 5, 6, 7, 8, 9, 13):
            row[place] = str(random.choice(words))
        lines.append(", ".join([*row, ">50K" if row[1] == "a" else "<=50K"]))
    (tmp_path / "adult.data").write_text("\n".join(lines) + "\n\n")
    monkeypatch.setattr(sys, "argv", ["adult.py", str(tmp_path / "adult.data")])
    runpy.run_path(str(EXAMPLES / "adult.py"))
    said = capsys.readouterr().out
    assert float(said.split()[1].rstrip(",")) > 0.95
    code = [line for line in (EXAMPLES / "adult.py").read_text().splitlines()[1:] if line]
    assert len(code) <= 15


def test_features_that_mix_rows_are_refused(table):
    """A row's features would be made of other clients' rows."""
    with pytest.raises(hush.Mistake, match="make one row of several"):
        hush.fit(table, "hush", clients=100, features=lambda x: x - x.mean(0), **BUDGET)


def test_another_loss_does_not_go_on_with_a_run(table, tmp_path):
    """It would release a round twice under the same noise."""
    mine, given = task(table), {"cohort": 20, "clip": 0.5, "ratio": 0.2, **BUDGET}
    hush.fit(mine, "fl-top-dp", **given, out=tmp_path / "r")
    (tmp_path / "r" / "model.safetensors").unlink()

    def other(output, target):
        return nn.functional.cross_entropy(output, target) / 2

    changed = hush.Task(task(table).model, other, mine.train, mine.split, mine.test, mine.public)
    with pytest.raises(hush.Mistake, match="a file of your own changed since the run began"):
        hush.fit(changed, "fl-top-dp", **given, out=tmp_path / "r", resume=True)


def test_a_finished_run_is_not_that_of_other_data(table, tmp_path):
    train, test = table[:2]
    given = {"clients": 100, **BUDGET, "model": "linear", "cohort": 20, "clip": 0.5, "out": tmp_path / "r"}
    run = hush.fit((train, test), "fl-std-dp", **given)
    assert hush.fit((train, test), "fl-std-dp", **given, resume=True).score == run.score
    other = train[0] + 1, 1 - train[1]
    with pytest.raises(hush.Mistake, match="the data, the model or a file of your own changed"):
        hush.fit((other, test), "fl-std-dp", **given, resume=True)


def test_a_finished_run_is_not_that_of_another_split(tmp_path):
    given = {**BUDGET, "model": "linear", "cohort": 2, "clip": 0.5, "out": tmp_path / "r"}
    one, other = ([list(range(n, 1000, 10)) for n in order] for order in (range(10), range(9, -1, -1)))
    hush.fit("digits", "fl-std-dp", split=one, **given)
    with pytest.raises(hush.Mistake, match="the data, the model or a file of your own changed"):
        hush.fit("digits", "fl-std-dp", split=other, **given, resume=True)


def test_a_finished_run_is_that_of_a_network_that_is_made_anew(table, tmp_path):
    """A cell of a notebook that is run again: its first weights are of no use any more."""
    split = [list(range(n, len(table[0][0]), 50)) for n in range(50)]

    def once(resume):
        network = nn.Linear(table[0][0].shape[1], 2)
        mine = hush.Task(network, nn.functional.cross_entropy, table[0], split, table[1])
        terms = {"cohort": 20, "clip": 0.5, **BUDGET, "out": tmp_path / "r", "resume": resume}
        return hush.fit(mine, "fl-std-dp", **terms)

    assert once(False).score == once(True).score


def test_a_run_shows_no_rows(table):
    """Notebooks keep what stands in their last line."""
    run = hush.fit(table, "hush", clients=100, **BUDGET)
    shown = repr(run)
    assert len(shown) < 200
    assert shown.startswith(f"Run(hush, {len(run.rounds)} rounds, {run.rounds[-1]['measure']} ")
    assert f"epsilon {run.epsilon['model']:.3g} (model)" in shown


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epsilon": 1.0}, "add delta=1e-5"),
        ({}, "give epsilon=E delta=D, or noise=SIGMA"),
        ({"epsilon": 2.0, "delta": 1e-3, "model": nn.Linear(8, 2)}, r"give hush.fit\(hush.Task\(model, loss"),
    ],
)
def test_remedies_are_those_of_python(table, given, sentence):
    with pytest.raises(hush.Mistake, match=sentence):
        hush.fit(table, "hush", clients=100, rounds=2, **given)


@pytest.mark.parametrize(
    "kept",
    ["my--data/x--v2.npz", "`hush run --resume --out runs/a`", "'a --out b'", "add --packages", "columns age--years"],
)
def test_names_and_commands_stay_as_they_are(kept):
    assert fitting._in_python(f"{kept} is there: add --resume, or choose another --out") == (
        f"{kept} is there: add resume=True, or choose another out"
    )


def test_a_directory_that_holds_a_run_names_the_keyword(table, tmp_path):
    hush.fit(table, "hush", clients=100, **BUDGET, out=tmp_path / "r")
    with pytest.raises(hush.Mistake, match="add resume=True to go on with it, or choose another out"):
        hush.fit(table, "hush", clients=100, **BUDGET, out=tmp_path / "r")


def test_labels_that_are_counted_from_one_are_warned_of(table):
    (x, y), (u, v) = table[:2]
    with pytest.warns(UserWarning, match="no training row has the label 0"):
        run = hush.fit(
            ((x, y + 1), (u, v + 1)), "fl-std-dp", model="linear", clients=100, cohort=20, clip=0.5, **BUDGET
        )
    assert run.task.model[-1].out_features == 3  # it trains all the same, with a class that nobody has
