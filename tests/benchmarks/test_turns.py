"""Turns of real processes: disturbed ones again, short ones longer, a failure without harm to the others."""

import sys
from pathlib import Path

import pytest
import turns
from contenders import SUITES, Contender, paired

WORKER = """
import json, os, sys
options, asked = json.loads(os.environ["BENCH_OPTIONS"]), 0
if options.get("broken"):
    sys.exit("no such library")
print(json.dumps({"first": [], "versions": {"tree": os.environ["BENCH_TREE"]}, "rss": 1}), flush=True)
for line in sys.stdin:
    rounds, noise = json.loads(line)["rounds"], options["others"]
    others = noise[min(asked, len(noise) - 1)]
    asked += 1
    print(json.dumps({"seconds": [options["each"]] * rounds, "cpu": 1.0, "others": others, "rss": 1}), flush=True)
"""


@pytest.fixture
def contender(tmp_path, monkeypatch):
    """Makes contenders whose worker says what it is told."""
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "fake.py").write_text(WORKER)
    monkeypatch.setattr(turns, "HERE", tmp_path)
    monkeypatch.setattr(turns, "FOLDER", tmp_path)
    monkeypatch.setattr(turns, "binaries", lambda name: Path(sys.executable).parent)
    return lambda name="one", each=3.0, others=(0.0,), **more: Contender(
        name, "fake", "hush", 1, {"each": each, "others": others, **more.pop("options", {})}, "", **more
    )


def test_a_disturbed_turn_is_repeated(contender, tmp_path):
    (found,) = turns.run("suite", [contender(others=(0.5, 0.2, 0.05, 0.3, 0.0))], 2, tmp_path, repeats=3)
    assert [(turn["others"], turn["attempts"]) for turn in found["turns"]] == [(0.05, 3), (0.0, 2)]


def test_up_to_a_limit_and_the_quietest_stays(contender, tmp_path):
    (found,) = turns.run("suite", [contender(others=(0.5, 0.2, 0.3, 0.0))], 1, tmp_path, repeats=2)
    assert [(turn["others"], turn["attempts"]) for turn in found["turns"]] == [(0.2, 3)]


def test_a_short_turn_gets_more_rounds(contender, tmp_path):
    (found,) = turns.run("suite", [contender(each=0.25, rounds=3)], 2, tmp_path)
    assert found["rounds"] == 9
    assert [len(turn["seconds"]) for turn in found["turns"]] == [9, 9]


def test_but_for_one_whose_rounds_are_not_alike(contender, tmp_path):
    (found,) = turns.run("suite", [contender(each=0.25, rounds=3, longer=False)], 2, tmp_path)
    assert [len(turn["seconds"]) for turn in found["turns"]] == [3, 3]


def test_a_missing_peer_stops_nobody(contender, tmp_path):
    peer = contender("peer", options={"broken": True})
    found = turns.run("suite", [contender(), peer, contender("last")], 1, tmp_path)
    assert [len(one["turns"]) for one in found] == [1, 0, 1]
    assert found[1]["error"] == "no such library"


def test_before_has_the_other_tree(contender, tmp_path):
    both = [contender(before=True), contender()]
    found = turns.run("suite", both, 1, tmp_path, before=tmp_path / "other")
    assert [one["versions"]["tree"] for one in found] == [str(tmp_path / "other"), str(turns.ROOT)]
    assert [one["before"] for one in found] == [True, False]


@pytest.mark.parametrize("suite", SUITES)
def test_each_of_hush_has_its_pair(suite):
    found = paired(suite)
    mine = [one for one in found if one.name.startswith("hush") and not one.before and not one.request]
    assert [one.key for one in found if one.before] == [f"{one.key}, before" for one in mine]
    assert [one for one in found if not one.before] == SUITES[suite]
