"""Results by kind of CPU: what a part of the bench leaves alone, and what the page says."""

import json
from pathlib import Path

import stored
from page import page

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def run(tree, others=0.0, **turn):
    """A suite's run of one contender."""
    turns = [{"seconds": [1.5], "cpu": 1.25, "others": others, "rss": 1e8, **turn}]
    one = {"name": "hush fl-std-dp", "key": "hush fl-std-dp, 1 core", "cores": 1, "before": False, "rounds": 1}
    one |= {"setting": "as installed", "environment": "hush", "rss": 1e8, "turns": turns}
    return {"when": "now", "tree": tree, "against": None, "turns": 1, "load": "0.00", "results": [one]}


def test_a_part_leaves_the_others_with_their_own_commit(tmp_path):
    (tmp_path / "records.json").write_text('{"machine": {}}')  # of another benchmark
    for kind, suite, tree in (("a", "linear", "1"), ("b", "linear", "2"), ("a", "medical", "3"), ("a", "linear", "4")):
        stored.keep(tmp_path, kind, {"CPU": kind}, suite, run(tree))
    known = {one["kind"]: {name: each["tree"] for name, each in one["suites"].items()} for one in stored.read(tmp_path)}
    assert known == {"a": {"linear": "4", "medical": "3"}, "b": {"linear": "2"}}
    text = (tmp_path / "README.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")][:2] == ["## a", "## b"]
    assert text.count("now, tree 4, 1 turns") == text.count("now, tree 3, 1 turns") == 1
    assert "tree 1" not in text


def test_every_time_that_others_disturbed_is_marked(tmp_path):
    for others, marks in ((0.1, 0), (0.2, 3)):
        stored.keep(tmp_path, "a", {}, "linear", run("1", others))
        (row,) = [line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| hush fl")]
        assert row.count("not final") == marks
        assert f"| {others:.3f} |" in row


def test_profile_is_a_file_of_its_kind(tmp_path):
    stored.keep(tmp_path, "a", {}, "profile", run("1", profile="a table"))
    assert (tmp_path / "a-profile.txt").read_text() == "a table\n"
    assert "a table" not in (tmp_path / "a.json").read_text()
    assert "[a-profile.txt](a-profile.txt)" in (tmp_path / "README.md").read_text()


def test_before_is_stated_with_its_spread(tmp_path):
    both = run("1")
    both["against"] = "2"
    mine = both["results"][0]
    mine["turns"] = mine["turns"] * 2
    other = json.loads(json.dumps(mine)) | {"before": True}
    for turn, seconds in zip(other["turns"], (3.0, 6.0), strict=True):
        turn["seconds"] = [seconds]
    both["results"].append(other)
    stored.keep(tmp_path, "a", {}, "linear", both)
    text = (tmp_path / "README.md").read_text()
    assert "| hush fl-std-dp | 1 | 0.375 (0.25..0.5) | 1 (1..1) | 1 (1..1) |" in text
    assert "tree 1, before: 2" in text


def test_the_committed_page_is_that_of_the_results():
    assert (RESULTS / "README.md").read_text() == page(stored.read(RESULTS))
