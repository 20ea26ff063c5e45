"""A scheme of one's own, file.py:function: all that works for one of the catalogue, and one sentence for a mistake."""

import json
from pathlib import Path

import pytest

from hush.experiment import config

FEDPROX = Path(__file__).parents[2] / "examples" / "fedprox.py"
QUICK = ["--data", "digits", "--model", "linear", "--clients", "40", "--set", "scheme.accountant=rdp"]
SMALL = [*QUICK, "--rounds", "2"]
BUDGET = ["--epsilon", "8", "--delta", "1e-3"]
OWN = """
from __future__ import annotations
from dataclasses import dataclass, replace
import hush

def plain(k):
    return hush.Scheme(k.sgd(), k.cohorts())

def fixed(k):
    return hush.Scheme(hush.Sgd(0.1, 1, 5), hush.Poisson(0.25), stages=(hush.Clip(0.5), hush.Noise(3.0)))

def half(k):
    return replace(plain(k), stages=(k.clip, hush.ServerNoise(k.multiplier() / 2)))

def records(k):
    return hush.Scheme(k.dpsgd(), k.cohorts())

def root(k):
    return replace(plain(k), stages=(k.clip, hush.Noise(k.multiplier() ** 0.5)))

def nothing(k):
    return k

def fails(k):
    return k.mu

@dataclass
class Lazy:
    rate: float

number = 3
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def last(hush, *words):
    status, out, err = hush("run", *words, "--json")
    assert status == 0, err
    return json.loads(out)


def test_fedprox(hush):
    assert last(hush, f"{FEDPROX}:scheme", *SMALL)["epsilon"]["model"] == "none"
    assert last(hush, f"{FEDPROX}:private", *SMALL, *BUDGET, "--secure", "--clip", "0.5")["epsilon"]["model"] <= 8
    assert Path("runs/fedprox-scheme-digits/report.html").exists()
    status, out, _ = hush("compare", "runs/fedprox-scheme-digits", "runs/fedprox-private-digits", "--json")
    assert status == 0
    assert [run["scheme"] for run in json.loads(out)["runs"]] == [
        f"examples/fedprox.py:{s}" for s in ("scheme", "private")
    ]


def test_the_card_runs_no_code(hush, own):
    last(hush, f"{own}:half", *SMALL, *BUDGET, "--out", "r")
    own.write_text("raise SystemExit('this was run')")
    status, out, err = hush("privacy", "card", "r", "--json")
    assert (status, "own.py:half is code, which is not run for this" in err) == (0, True)
    printed, card = json.loads(out), json.loads(Path("r/privacy.json").read_text())["card"]
    assert {**printed, **card} == printed
    assert set(printed) - set(card) == {"versions", "files"}
    stored = Path("r/privacy.json")
    stored.write_text(stored.read_text().replace('"epsilon": 7.', '"epsilon": 0.'))
    assert hush("privacy", "card", "r")[0] == 2


def test_a_run_goes_on_with_the_same_file_alone(hush, own):
    last(hush, f"{own}:fixed", *QUICK, "--rounds", "2", "--out", "r")
    assert last(hush, "--resume", "--out", "r")["round"] == 2
    own.write_text(OWN + "\n")
    Path("r/model.safetensors").unlink()
    status, _, err = hush("run", "--resume", "--out", "r")
    assert (status, "a file of your own changed" in err) == (2, True)


def test_beside_a_toml_file(hush, own, monkeypatch):
    own.with_suffix(".toml").write_text('[scheme]\nname = "own.py:plain"\n[data]\nname = "digits"\nclients = 40\n')
    (own.parent / "elsewhere").mkdir()
    monkeypatch.chdir(own.parent / "elsewhere")
    assert last(hush, "../own.toml", "--rounds", "1", "--set", "scheme.average=0.5", "--out", "r")["round"] == 1
    found = config.read(Path("r/config.toml"))
    assert (found.scheme.name, found.scheme.average) == (f"{own.resolve()}:plain", 0.5)


@pytest.mark.parametrize("name", ["half", "records"])
def test_a_budget_is_kept_whatever_the_function_makes_of_the_noise(hush, own, name):
    spent = last(hush, f"{own}:{name}", *SMALL, *BUDGET, "--clip", "0.5", "--out", "r")["epsilon"]["model"]
    assert 7.5 < spent <= 8
    assert last(hush, f"{own}:{name}", *SMALL, "--noise", "1", "--clip", "0.5", "--out", "s")["epsilon"]["model"] > 0


def test_a_scheme_with_numbers_of_its_own(hush, own):
    """It takes no setting that it does not read, and its cohorts are its own."""
    assert last(hush, f"{own}:fixed", *SMALL, "--out", "r")["epsilon"]["model"] > 0
    found = config.read(Path("r/config.toml"))
    assert (found.train.rate, found.train.batch, found.scheme.clip, found.scheme.noise) == (None, None, None, None)
    assert (found.sampling.kind, found.sampling.cohort) == ("poisson", None)
    (event,) = {(e["rate"], e["noise"]) for e in json.loads(Path("r/privacy.json").read_text())["events"]}
    assert event == (0.25, 3.0)


def test_it_is_listed(hush, own):
    status, out, _ = hush("schemes", f"{own}:half", "--json")
    assert (status, json.loads(out)["guarantee"]) == (0, "client")
    status, out, _ = hush("settings", f"{own}:half", "--json")
    keys = {row["key"] for row in json.loads(out)}
    assert {"scheme.epsilon", "scheme.clip", "train.rate", "scheme.momentum"} <= keys
    assert not {"scheme.ratio", "scheme.gamma"} & keys


MISTAKES = {
    "no file": ("gone.py:plain", [], "gone.py is not there"),
    "no function": ("own.py:gone", [], "has no function 'gone'"),
    "no callable": ("own.py:number", [], "has no function 'number'"),
    "no name": ("own.py", [], "own.py:function"),
    "something else": ("own.py:nothing", [], "own.py:nothing returned a Settings: it must return a hush.Scheme"),
    "an error": ("own.py:fails", [], "own.py:fails fails: AttributeError"),
    "epsilon": ("own.py:plain", BUDGET, "own.py:plain has no noise to set"),
    "noise": ("own.py:fixed", ["--noise", "1"], "own.py:fixed has no noise to set"),
    "no budget": ("own.py:half", [], "needs its privacy: give --epsilon"),
    "clip": ("own.py:fixed", ["--clip", "1"], "has no clip to set"),
    "the paper's clip": ("own.py:half", [*BUDGET, "--clip", "paper"], "clip='paper' has no value for"),
    "rate": ("own.py:fixed", ["--rate", "1"], "has no rate to set: leave train.rate out"),
    "cohort": ("own.py:fixed", ["--cohort", "3"], "draws its cohorts itself, by poisson sampling"),
    "bits": ("own.py:plain", ["--bits", "4"], "has no bits to set"),
    "balance": ("own.py:fixed", ["--set", "train.balance=downsample"], "trains without balance='downsample'"),
    "noise of another scale": ("own.py:root", BUDGET, "twice the noise is not worth twice as much"),
    "clip of records": ("own.py:records", BUDGET, "give clip as a number"),
}


@pytest.mark.parametrize(("name", "words", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence(name, words, sentence, hush, own):
    status, out, err = hush("run", name, *SMALL, *words)
    assert (status, out, sentence in err, "Traceback" in err) == (2, "", True, False), err
    assert err.count("\n") == 1
