"""Warnings are on the terminal before and after a run, in its JSON, on its card and on its page."""

import json
from html import unescape

BAD = [
    "run",
    "fl-top-dp",
    "--data",
    "digits",
    "--model",
    "linear",
    "--ratio",
    "0.2",
    "--clients",
    "40",
    "--rounds",
    "2",
]
BAD += ["--cohort", "20", "--epsilon", "30", "--delta", "0.05", "--clip", "1000", "--seed", "3"]
KNOWN = ["40 clients are few", "delta 0.05 is not below 1/40", "epsilon is 30.00 against whoever receives the models"]
FOUND = ["a single upload has epsilon", "accuracy 0.", "the clip bound 1e+03 clips nobody"]


def beginnings(sentences, wanted):
    assert len(sentences) == len(wanted)
    assert [said.startswith(begin) for said, begin in zip(sentences, wanted, strict=True)] == [True] * len(wanted)


def test_terminal_card_and_page_warn(hush, tmp_path):
    status, out, err = hush(*BAD, "--out", "run")
    assert status == 0
    assert "warning" not in out
    said = [line.removeprefix("warning: ") for line in err.splitlines() if line.startswith("warning: ")]
    beginnings(said[:3], KNOWN)
    beginnings(said[3:], [*KNOWN[:2], "epsilon is ", *FOUND])
    card = json.loads((tmp_path / "run" / "privacy.json").read_text())["card"]
    assert card["warnings"] == said[3:]
    page = unescape((tmp_path / "run" / "report.html").read_text())
    assert all(sentence in page for sentence in said[3:])
    status, printed, _ = hush("privacy", "card", "run")
    assert status == 0
    assert printed.splitlines()[2] == "Warnings"
    assert " ".join(said[3].split()) in " ".join(printed.split())
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    status, out, err = hush(*BAD, "--out", "run", "--resume", "--json")  # a finished run says it again
    assert (status, out.count("\n")) == (0, 1)
    assert json.loads(out)["warnings"] == said[3:]
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_a_sound_run_warns_of_nothing(hush, tmp_path):
    words = ["run", "fl-std", "--data", "digits", "--model", "linear", "--rounds", "3", "--rate", "0.5"]
    status, out, err = hush(*words, "--out", "run", "--json")
    assert (status, json.loads(out)["warnings"]) == (0, [])
    assert "warning" not in err
    assert json.loads((tmp_path / "run" / "privacy.json").read_text())["card"]["warnings"] == []
    assert "Warnings" not in hush("privacy", "card", "run")[1]
