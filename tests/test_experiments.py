"""Every experiment file runs: two rounds of it, with bundled digits or made-up hospitals in place of fetched data."""

import csv
import json
import re
import sys
from pathlib import Path

import pytest

from hush.catalogue.clipping import paper_clip
from hush.catalogue.entries import ENTRIES, entry
from hush.cli import main
from hush.experiment import config

FILES = sorted(
    path for path in (Path(__file__).parents[1] / "experiments").rglob("*.toml") if path.name != "tables.toml"
)
SMALL = ["--data", "digits", "--set", "data.public=digits", "--clients", "100", "--cohort", "8", "--rounds", "2"]


HOSPITAL = str(Path(__file__).parents[1] / "examples" / "hospital" / "schema.toml")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_two_rounds(path, tmp_path, monkeypatch, capsys):
    wanted = config.read(path)
    clip = []
    if wanted.scheme.clip == "paper":  # the tables do not know the data that stand in
        clip = ["--clip", str(paper_clip(wanted.scheme.name, wanted.data.name, wanted.scheme.ratio))]
    small = ["--data", HOSPITAL, "--rounds", "2"] if wanted.data.name == "premier-like" else SMALL
    if wanted.data.name in ("premier-virtual", "diabetes130-virtual"):
        small = ["--data", "premier-virtual:0.001", "--cohort", "2", "--rounds", "2"]
    if wanted.data.clients == 31:  # the third paper's nodes, all of them in every round
        small = ["--data", "digits", "--model", "mlp", "--rounds", "2"]
    if (
        path.parent.name == "frontier" or path.stem == "demo"
    ):  # a secure sum of small cohorts would abort too often; turns follow from rounds
        small = [
            "--data",
            "digits",
            "--set",
            "data.public=digits",
            "--clients",
            "100",
            "--cohort",
            "50",
            "--rounds",
            "2",
        ]
    if wanted.data.name == "diabetes130":
        small = ["--data", HOSPITAL, "--clients", "100", "--cohort", "50", "--rounds", "2"]
    if wanted.model.name == "cnn-color":  # which asks for larger images
        small += ["--model", "mlp"]
    if (wanted.train.probe or 0) > 20:  # each is a step of training
        small += ["--set", "train.probe=20"]
    if (wanted.data.public_size or 0) > 64 and "digits" in small:  # the public rows of the digits
        smaller = tmp_path / path.name
        smaller.write_text(re.sub(r"(?m)^public_size = \d+$", "public_size = 64", path.read_text()))
        path = smaller
    monkeypatch.setattr(sys, "argv", ["hush", "run", str(path), *small, *clip, "--out", str(tmp_path / "r"), "--json"])
    with pytest.raises(SystemExit) as stopped:
        main()
    out = capsys.readouterr()
    assert stopped.value.code == 0, out.err
    last = json.loads(out.out)
    assert last["round"] == 2
    assert (last["epsilon"]["model"] == "none") == (not entry(wanted.scheme.name).private)


@pytest.mark.parametrize("name", ["hush", "hush-tiny", "hush-once"])
def test_the_catalogue_has_what_was_chosen(name):
    """Its settings are a row of choices.csv, and of as many rounds none is better for clients of all kinds."""
    with (Path(__file__).parents[1] / "experiments" / "frontier" / "choices.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["scheme"], row["data"]) == (name, "fashion-mnist")]
    usual = ENTRIES[name].usual
    keys = ("features", "rounds", "blocks", "ridge", "rate", "server_rate", "momentum")
    wanted = {key: f"{usual[key]:g}" for key in keys} | {"average": f"{usual.get('average', 0):g}", "epsilon": "1"}
    (mine,) = [row for row in rows if wanted.items() <= row.items()]
    others = [row for row in rows if (row["rounds"], row["epsilon"]) == (mine["rounds"], "1") and row["blocks"] != "1"]
    assert len(others) > 10

    def worth(row):
        return float(row["iid"]) + float(row["shards"])

    assert worth(mine) > max(map(worth, others)) - 0.001
