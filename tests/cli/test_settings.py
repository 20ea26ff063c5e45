"""Settings from their declarations: the list, --set, old names, and the keywords of hush.scheme."""

import inspect
import json
from dataclasses import fields
from pathlib import Path

import pytest

from hush.catalogue.entries import ENTRIES, scheme
from hush.catalogue.secure_form import secured
from hush.catalogue.settings import OWN, RENAMED, SchemeTable, TrainTable
from hush.catalogue.values import Settings
from hush.errors import Mistake
from hush.experiment import config
from hush.experiment.settings import SETTINGS

SMALL = ["--data", "digits", "--model", "linear", "--clients", "20", "--cohort", "4", "--rounds", "1"]


def listed(hush, *words):
    status, out, _ = hush("settings", *words, "--json")
    assert status == 0
    return {row["key"]: row for row in json.loads(out)}


def test_every_setting_is_listed_with_its_meaning(hush):
    found = listed(hush)
    assert list(found) == list(SETTINGS)
    assert all(row["help"].endswith(".") and row["type"] for row in found.values())
    assert found["scheme.ratio"]["type"] == "number > 0, <= 1"
    assert found["train.batch"]["type"] == "integer >= 1 | all"
    assert found["secure.rounding"]["default"] == 0.05


def test_a_scheme_lists_what_it_listens_to(hush):
    top, plain, signs = listed(hush, "fl-top-dp"), listed(hush, "fl-std"), listed(hush, "fl-sign-dp")
    assert {"scheme.ratio", "scheme.epsilon", "train.probe", "scheme.bits"} <= set(top)
    assert not {"scheme.ratio", "scheme.epsilon", "scheme.precision", "scheme.features"} & set(plain)
    assert (signs["scheme.gamma"]["default"], signs["scheme.clip"]["default"]) == (0.005, 2.0)
    sensed = listed(hush, "fl-cs")
    assert (sensed["scheme.momentum"]["default"], sensed["scheme.server_rate"]["default"]) == (0.9, 0.35)
    assert listed(hush, "qsgd")["scheme.bits"]["default"] == 4
    assert listed(hush, "hush")["run.rounds"]["default"] == 60


@pytest.mark.parametrize("name", ENTRIES)
def test_own_defaults_are_settings(name, hush):
    assert set(listed(hush, name)) <= set(SETTINGS)


def test_values_of_any_kind(hush):
    words = ["--set", "train.batch=all", "--set", "train.steps=2", "--set", "run.engine='lockstep'"]
    assert hush("run", "two-bit", *SMALL, *words, "--set", "scheme.precision=4", "--out", "r")[0] == 0
    found = config.read(Path("r/config.toml"))
    assert (found.train.batch, found.train.steps, found.run.engine, found.scheme.precision) == ("all", 2, "lockstep", 4)
    assert config.given(["scheme.follow=true", "scheme.clip=1e-1", "data.name=a b"]) == {
        "scheme.follow": True,
        "scheme.clip": 0.1,
        "data.name": "a b",
    }
    assert config.given(["data.public=x.npz"])["data.public"] == str(Path("x.npz").resolve())


MISTAKES = {
    "no value": (["--set", "train.rate"], "table.key=value"),
    "no table": (["--set", "batch=3"], "did you mean train.batch?"),
    "misspelt": (["--set", "train.bach=3"], "did you mean train.batch?"),
    "old": (["--set", "scheme.places=4"], "it is now scheme.precision"),
    "type": (["--set", "train.steps=few"], "train.steps = 'few' must be an integer"),
    "range": (["--set", "scheme.momentum=1"], "scheme.momentum = 1 must be less than 1"),
    "an option that went": (["--batch", "3"], "write --set train.batch=VALUE"),
    "an old option": (["--down", "8"], "write --set scheme.downlink_bits=VALUE"),
    "an option of two meanings": (["--loss", "0.1"], "--set secure.rounding=VALUE or --set model.loss=VALUE"),
    "option and --set": (["--rate", "0.1", "--set", "train.rate=0.2"], "train.rate is given by an option and by --set"),
}


@pytest.mark.parametrize(("words", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_end_with_one_sentence(words, sentence, hush):
    status, out, err = hush("run", "fl-std", *SMALL, *words)
    assert (status, out, err.count("\n"), sentence in err) == (2, "", 1, True), err


def test_a_ratio_that_is_not_used_is_said(hush):
    """One gives it to many schemes at once, to compare them."""
    status, _, err = hush("run", "fl-std", *SMALL, "--ratio", "0.1", "--out", "r")
    assert (status, "fl-std has no ratio: it is not used" in err) == (0, True)


def test_resume_where_there_is_no_run_yet_is_said(hush):
    status, _, err = hush("run", "fl-std", *SMALL, "--resume", "--out", "r")
    assert (status, "r holds no run yet: a new one begins there" in err) == (0, True)
    assert "no run yet" not in hush("run", "fl-std", *SMALL, "--resume", "--out", "r")[2]


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_key_is_refused_with_the_new_one(old, new, tmp_path):
    table, _, key = old.partition(".")
    (tmp_path / "old.toml").write_text(f"[{table}]\n{key} = 1\n")
    with pytest.raises(Mistake, match=f"{old} is now {new}"):
        config.read(tmp_path / "old.toml")
    assert new in SETTINGS
    assert old not in SETTINGS


def test_values_have_the_declared_names():
    named = {field.name for field in fields(Settings)} - {"sampling", "vote", "seed"}
    assert named <= set(SchemeTable.model_fields) | set(TrainTable.model_fields)
    assert set(OWN) <= named
    known = {name: value.default for name, value in inspect.signature(secured).parameters.items()}
    for name, key in (("rounding", "rounding"), ("servers", "servers"), ("corrupt", "corrupt"), ("kind", "noise")):
        assert known[name] == SETTINGS[f"secure.{key}"].default


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ratio": 2}, "ratio = 2 must be at most 1"),
        ({"steps": 1.5}, "steps = 1.5 must be an integer"),
        ({"follow": 1}, "follow = 1 must be true or false"),
        ({"ratio": None}, "ratio = None must be a value"),
        ({"places": 4}, "it is now precision"),
        ({"ration": 0.1}, "did you mean ratio?"),
        ({"seed": "x"}, "seed = 'x' must be an integer"),
        ({"noise": 3.0}, "fl-top has no noise to set: take fl-top-dp"),
        ({"clip": 3.0}, "fl-top has no clip to set: take fl-top-dp"),
        ({"gamma": 0.1}, "fl-top has no gamma to set: leave it out"),
        ({"sampling": 0.3}, "sampling = 0.3 must be"),
        ({"vote": -1}, "vote = -1 must be a positive number"),
    ],
)
def test_keywords_are_checked_as_a_file_is(given, sentence):
    with pytest.raises(Mistake) as told:
        scheme("fl-top", **given)
    assert sentence in str(told.value)
