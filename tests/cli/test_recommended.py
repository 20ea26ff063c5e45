"""The recommended schemes as a person runs them: on images and tables, with their own rounds, refused in a sentence."""

import json
import tomllib

import pytest

from hush.catalogue.entries import ENTRIES
from hush.models.helmert import helmert

BUDGET = ["--epsilon", "8", "--delta", "1e-3"]
OWN = """
import torch

def load():
    x = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    return (x[:500], y[:500]), (x[500:], y[500:])
"""


@pytest.fixture
def ran(hush, tmp_path):
    """Calls `hush run`: (status, the last row or the sentence, the configuration)."""

    def call(*words, out="r"):
        status, said, err = hush("run", *words, "--out", out, "--json")
        if status != 0:
            return status, err, None
        return 0, json.loads(said), tomllib.loads((tmp_path / out / "config.toml").read_text())

    return call


def test_clients_in_their_turns(ran, tmp_path):
    """Rounds decide the cohorts; the model and the server are worth the same; the card says whose turns are public."""
    status, last, config = ran("hush-once", "--data", "digits", *BUDGET, "--rounds", "4")
    assert status == 0, last
    assert config["sampling"] == {"kind": "once", "passes": 1, "floor": 0, "dropout": 0.0}
    assert "knows whose turn it was" in (tmp_path / "r" / "report.html").read_text()
    more = ran(str(tmp_path / "r" / "config.toml"), "--rounds", "6", out="more")
    assert (more[0], more[1]["round"]) == (0, 6)
    assert last["epsilon"]["model"] == pytest.approx(last["epsilon"]["server"])
    assert 7.9 < last["epsilon"]["model"] <= 8
    assert last["accuracy"] > 0.7
    card = json.loads((tmp_path / "r" / "privacy.json").read_text())["card"]
    assert any("procedural images" in line for line in card["unnoised"])
    assert card["participation"]["worst"] == 1


@pytest.mark.parametrize("secure", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("passes", [1, 2])
def test_a_trusted_aggregator(ran, tmp_path, passes, secure):
    """Epsilon as asked for against readers of the models, none against the server, and a card that says who is who."""
    words = ["--rounds", "6", "--set", f"sampling.passes={passes}", *(["--secure"] if secure else [])]
    status, last, config = ran("hush-trusted", "--data", "digits", *BUDGET, *words)
    assert status == 0, last
    assert (config["sampling"]["kind"], config["sampling"]["passes"]) == ("once", passes)
    assert 7.9 < last["epsilon"]["model"] <= 8
    assert {last["epsilon"][view] for view in ("server", "upload")} == {"none"}
    assert last["accuracy"] > 0.8
    card = json.loads((tmp_path / "r" / "privacy.json").read_text())["card"]
    assert {row["name"]: row["epsilon"] == "none" for row in card["adversaries"]} == {
        "model": False,
        "server": True,
        "upload": True,
    }
    said = " ".join(card["assumptions"])
    assert "releases no round twice" in said
    seen = "the sum of the clipped updates" if secure else "every client's clipped update"
    assert f"the server is trusted. It sees {seen}" in said
    assert card["participation"]["worst"] == passes
    again = ran(str(tmp_path / "r" / "config.toml"), out="again")
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("r", "again")]
    assert again[0] == 0
    assert models[0] == models[1]


def test_its_own_rounds_and_a_resume(ran, tmp_path):
    """30 rounds unless others are asked for, and as many features as small images have.

    What the configuration says runs again to the same model.
    """
    status, last, config = ran("hush-tiny", "--data", "digits", *BUDGET, "--cohort", "20")
    assert (status, last["round"]) == (0, 30), last
    assert (config["run"]["rounds"], config["scheme"]["features"], config["model"]["name"]) == (30, 62, "head")
    again = ran(str(tmp_path / "r" / "config.toml"), out="again")
    assert again[1]["accuracy"] == last["accuracy"]
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("r", "again")]
    assert models[0] == models[1]


def test_what_is_off_stays_off(ran, tmp_path):
    """A run's configuration alone is the same run, also where what is usual for the scheme was set off."""
    off = ["--set", "scheme.blocks=1", "--set", "scheme.average=0", "--set", "train.steps=2"]
    status, _, config = ran("hush", "--data", "digits", *BUDGET, "--rounds", "24", *off)
    assert status == 0
    assert (config["scheme"]["blocks"], config["scheme"]["average"], config["train"]["steps"]) == (1, 0.0, 2)
    assert "ridge" not in config["train"]
    assert ran(str(tmp_path / "r" / "config.toml"), out="again")[0] == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("r", "again")]
    assert models[0] == models[1]


def test_rows_of_a_table(ran, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    status, last, config = ran("hush", "--data", "own.py:load", "--clients", "100", *BUDGET, "--rounds", "3")
    assert status == 0, last
    assert last["bytes"]["up"]["payload"]["max"] % (4 * 2 * 7) == 0  # (3 classes - 1) x (6 numbers + the constant)
    assert config["model"]["name"] == "head"
    assert not {"features", "scattering_order"} & set(config["scheme"])
    assert config["scheme"]["blocks"] == 1  # columns may say the same: they move together
    assert config["scheme"]["server_rate"] == ENTRIES["hush"].tables["server_rate"]
    assert "clips everybody" not in (tmp_path / "r" / "report.html").read_text()  # as was chosen
    given = ran("hush", "--data", "own.py:load", "--clients", "100", *BUDGET, "--set", "scheme.features=5", out="given")
    assert given[0] == 2
    assert "features and scattering_order are for images" in given[1]
    assert helmert(3).shape == (3, 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["hush", "--model", "cnn"], "hush trains on features: leave model out"),
        (["hush", "--set", "train.ridge=1", "--set", "train.steps=5"], "ridge is one solve in place of steps"),
        (["hush", "--clip", "public"], "hush has a bound of its own"),
        (["hush-once", "--cohort", "7"], "cohort=7 does not follow from the rounds"),
        (["hush-once", "--rounds", "5", "--set", "sampling.passes=2"], "rounds=5 are not 2 equal passes"),
        (["hush-trusted", "--sampling", "poisson"], "sampling=poisson has no turns"),
        (["hush-trusted", "--sampling", "fixed"], "sampling=fixed has no turns"),
        (["hush-trusted", "--clip", "adaptive"], "give clip as a number"),
        (["fl-standard-dp", "--sampling", "once"], "take sampling fixed or poisson"),
        (["hush-tiny", "--set", "sampling.passes=3"], "passes belongs to sampling once"),
        (["hush-trusted", "--rounds", "5", "--set", "sampling.passes=2"], "rounds=5 are not 2 equal passes"),
        (["hush", "--sampling", "poisson", "--set", "sampling.passes=2"], "passes belongs to sampling once"),
        (["fl-top-dp", "--set", "scheme.features=9"], "fl-top-dp trains on the data itself"),
        (["hush", "--set", "scheme.scattering_order=3"], "order"),
        (["hush", "--set", "scheme.average=1"], "average"),
    ],
)
def test_refused(ran, words, sentence):
    status, said, _ = ran(words[0], "--data", "digits", *BUDGET, *words[1:])
    assert status == 2
    assert sentence in said
    assert said.count("\n") == 1


def test_blocks_that_would_never_travel_are_refused(hush):
    words = ["--data", "digits", "--epsilon", "1", "--delta", "1e-4", "--rounds", "2"]
    status, _, err = hush("run", "hush", *words, "--set", "scheme.blocks=7", "--out", "out")
    assert status == 2
    assert "blocks=7 take turns" in err
    status, _, err = hush("run", "hush-trusted", *words, "--set", "scheme.blocks=2", "--out", "out")
    assert status == 2
    assert "leave blocks out" in err
