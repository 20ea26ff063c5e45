"""about.json, and the norms of a round: what the page says beside accuracy, bytes and epsilon."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from hush.core.rounds import loop
from hush.experiment import about
from hush.experiment.resolving import build
from hush.experiment.settings import Config
from hush.experiment.statement import facts
from hush.federation.simulated import Simulated
from hush.models.metrics import evaluate
from hush.privacy.card import card

SCHEMA = Path(__file__).parents[2] / "examples" / "hospital" / "schema.toml"


def tables(**given):
    return Config.model_validate(given)


@pytest.fixture(scope="module")
def hospitals():
    wanted = {"data": {"name": str(SCHEMA)}, "model": {"name": "linear"}, "scheme": {"name": "fl-std"}}
    return build(tables(**wanted, run={"rounds": 2}))


@pytest.fixture(scope="module")
def digits():
    wanted = {"data": {"name": "digits", "clients": 40}, "model": {"name": "linear"}}
    scheme = {"name": "fl-top-dp", "ratio": 0.3, "noise": 0.5, "clip": 0.4}
    return build(tables(**wanted, scheme=scheme, sampling={"cohort": 20}, run={"rounds": 2}))


def rounds(experiment, number):
    clients = Simulated(engine=experiment.engine).of(experiment.task)
    return list(loop(experiment.scheme, clients, rounds=number))


def test_results_by_hospital_are_those_of_its_own_test_rows(hospitals):
    *_, last = rounds(hospitals, 2)
    found = about.results(hospitals, last.state)
    holders = hospitals.data.holders
    assert [one["name"] for one in found["clients"]] == ["East", "North", "South", "West"]
    for one in found["clients"]:
        rows = hospitals.task.test.rows(torch.from_numpy(np.flatnonzero(holders == one["name"])))
        assert one["rows"] == len(rows)
        assert one["ones"] == int(rows.targets.sum())
        assert one["value"] == evaluate(hospitals.task, last.state.released, rows).auroc
        assert one["low"] <= one["value"] <= one["high"]
    assert sum(one["rows"] for one in found["classes"]) == len(hospitals.task.test)
    right = sum(one["rows"] * one["value"] for one in found["classes"]) / len(hospitals.task.test)
    assert right == pytest.approx(evaluate(hospitals.task, last.state.released).accuracy)


def test_rows_that_rules_dropped_are_counted_and_the_card_says_so(hospitals):
    *_, last = rounds(hospitals, 1)
    found = about.about(hospitals, last.state)["data"]
    assert found["rows"] == {"training": 168, "test": 42, "public": 0}
    first = found["rules"][0]["before"]
    assert first - sum(rule["dropped"] for rule in found["rules"] if rule["of"] == "rows") == 168 + 42
    unnoised = card(facts(hospitals, last.state, ()))["unnoised"]
    assert any("how many each rule of the schema dropped" in line for line in unnoised)
    assert any("results by client" in line for line in unnoised)


def test_live_weights_are_counted_by_tensor(digits):
    *_, last = rounds(digits, 1)
    found = about.about(digits, last.state)["coordinates"]
    live, start = set(last.state.live.tolist()), 0
    for layer in found["layers"]:
        assert layer["live"] == len(live & set(range(start, start + layer["weights"])))
        start += layer["weights"]
    assert sum(layer["live"] for layer in found["layers"]) == len(live) == math.floor(0.3 * start)


def test_of_a_set_without_rules_or_holders_the_card_names_the_rows_alone(digits):
    *_, last = rounds(digits, 1)
    lines = [line for line in card(facts(digits, last.state, ()))["unnoised"] if "page" in line or "by client" in line]
    assert lines == ["how many rows there are: counted for the page"]
    assert "clients" not in about.results(digits, last.state)


def test_the_length_is_that_of_what_moved_the_model(digits):
    first, second = (report.state.weights.clone() for report in rounds(digits, 2))
    length = rounds(digits, 2)[-1].length
    assert length.mean == pytest.approx(float((second - first).norm()), rel=1e-4)
    assert length.bound == 0.4
    live = digits.scheme.coordinates.count(digits.task.layout)
    assert length.noise == pytest.approx(0.5 * 0.4 * math.sqrt(live) / 20)
    # 20 of 40 clients, each of norm 0.4 at most, under a noise that is longer than their mean.
    assert length.noise * 0.8 < length.mean < length.noise * 1.3 + 0.4


@pytest.mark.parametrize("secure", [None, "simulated"])
def test_the_length_is_in_units_of_the_bound_whatever_stands_behind_it(secure):
    wanted = {"data": {"name": "digits", "clients": 40}, "model": {"name": "linear"}}
    scheme = {"name": "fl-cs-dp", "ratio": 0.3, "noise": 0.05, "clip": 0.4, "chunks": 10}
    given = {"secure": {"mode": secure}} if secure else {}
    found = build(tables(**wanted, scheme=scheme, sampling={"cohort": 30}, run={"rounds": 1}, **given))
    (report,) = rounds(found, 1)
    assert report.length.bound == pytest.approx(0.4)
    assert 0 < report.length.mean < 0.4 + 1.5 * report.length.noise


def test_uploads_without_a_bound_have_no_length(hospitals):
    assert rounds(hospitals, 1)[0].length is None


def test_the_file_is_written_once(tmp_path, digits):
    *_, last = rounds(digits, 1)
    found = about.about(digits, last.state)
    about.write(tmp_path, found)
    before = (tmp_path / "about.json").stat()
    about.write(tmp_path, found)
    assert (tmp_path / "about.json").stat().st_ino == before.st_ino
    assert json.loads((tmp_path / "about.json").read_text()) == found
