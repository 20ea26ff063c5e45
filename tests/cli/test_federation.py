"""`hush federation`, as a coordinator and a site use it, with their mistakes."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys

import pytest


def fingerprint(text):
    return re.search("[0-9a-f]{64}", text)[0]


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def ask(hush):
    """A coordinator and a site that asked; the command line, and the fingerprints of request and federation."""
    _, founded, _ = hush("federation", "init", "real", "--host", "fl.example.org")
    _, asked, _ = hush("federation", "request", "mine", "--out", "site")
    return hush, fingerprint(asked), fingerprint(founded)


def test_a_trial_in_one_command(hush):
    words = "federation init trial --host localhost --port 9000 --site a --site b".split()
    status, out, err = hush(*words)
    assert (status, err) == (0, "")
    assert "server at localhost:9000" in out
    _, shown, _ = hush("federation", "show", "trial/coordinator", "--json")
    facts = json.loads(shown)
    assert [one["name"] for one in facts["roster"]] == ["a", "b"]
    assert (facts["name"], facts["state"], facts["port"]) == ("server", "valid", 9000)
    assert facts["federation"] == fingerprint(out)
    _, page, _ = hush("federation", "show", "trial/a")
    assert facts["federation"] in page
    assert facts["roster"][0]["identity"] in page
    assert facts["valid_until"] in page
    _, page, _ = hush("federation", "show", "trial/coordinator")
    assert facts["roster"][1]["identity"] in page
    assert hush(*words)[::2] == (2, "hush: trial/coordinator exists: choose another\n")


def test_a_site_asks_and_is_admitted(ask):
    hush, theirs, ours = ask
    status, page, _ = hush("federation", "show", "site")
    assert (status, fingerprint(page)) == (0, theirs)
    spaced = " ".join(theirs[at : at + 4] for at in range(0, 64, 4)).upper()
    status, out, _ = hush("federation", "approve", "real/coordinator", "site/request.json", "--fingerprint", spaced)
    assert status == 0
    assert ours in out
    answer = "real/coordinator/sites/mine.kit.json"
    assert answer in out
    status, out, _ = hush("federation", "accept", "site", answer, "--fingerprint", ours)
    assert (status, out) == (0, "site: the kit of mine, complete; the server is at fl.example.org:8900\n")
    assert json.loads(hush("federation", "show", "site", "--json")[1])["federation"] == ours
    assert hush("federation", "renew", "real/coordinator", "mine", "--days", "10")[0] == 0
    assert hush("federation", "accept", "site", answer)[0] == 0  # of the federation that the kit knows
    assert hush("federation", "accept", "site", answer, "--fingerprint", "0" * 64)[0] == 2
    assert hush("federation", "renew", "real/coordinator")[0] == 0
    assert hush("federation", "revoke", "real/coordinator", "mine")[0] == 0
    assert json.loads(hush("federation", "show", "real/coordinator", "--json")[1])["roster"] == []


def test_without_the_right_fingerprint_nothing_is_written(ask, tmp_path):
    hush, theirs, ours = ask
    before = files_of(tmp_path)
    approve = ("federation", "approve", "real/coordinator", "site/request.json")
    status, out, err = hush(*approve, "--fingerprint", ours)
    assert (status, out) == (2, "")
    assert "another fingerprint" in err
    assert theirs not in err  # which would be copied from there
    for wrong in ("", theirs[:16], theirs + "0"):
        assert hush(*approve, "--fingerprint", wrong)[0] == 2
    status, out, err = hush(*approve)
    assert (status, out) == (2, "")
    assert "no terminal to ask on" in err
    assert files_of(tmp_path) == before
    assert hush(*approve, "--fingerprint", theirs)[0] == 0
    accept = ("federation", "accept", "site", "real/coordinator/sites/mine.kit.json")
    site = files_of(tmp_path / "site")
    assert hush(*accept)[0] == hush(*accept, "--fingerprint", theirs)[0] == 2
    assert files_of(tmp_path / "site") == site


@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"n\n", 2)])
def test_on_a_terminal_it_asks(ask, tmp_path, answer, status):
    _, theirs, _ = ask
    ours, others = pty.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(
            [sys.executable, "-m", "hush", "federation", "approve", "real/coordinator", "site/request.json"],
            stdin=others,
            stdout=subprocess.PIPE,
            stderr=others,
            timeout=60,
            check=False,
        )
        os.close(others)
        said = b""
        with contextlib.suppress(OSError):  # the terminal's end, on Linux
            while part := os.read(ours, 4096):
                said += part
    finally:
        os.close(ours)
    assert done.returncode == status
    assert theirs in said.decode()
    assert (tmp_path / "real/coordinator/sites/mine.pem").exists() == (status == 0)


def test_a_rehearsal_says_that_it_protects_nobody(hush):
    hush(*"federation init trial --host localhost --site a --simulation 7".split())
    for folder in ("trial/a", "trial/coordinator"):
        assert "repeats from the seed 7, and nobody is protected" in hush("federation", "show", folder)[1]
        assert json.loads(hush("federation", "show", folder, "--json")[1])["simulation"] == 7


MISTAKES = [
    "init new --host http://fl.example.org",
    "init new --host localhost --port 70000",
    "init new --host localhost --days 0",
    "init new --host localhost --site Upper",
    "init new --host localhost --site server",
    "init new --host localhost --site coordinator",
    "init new --host localhost --site a --site a",
    "init new --host localhost --simulation 1",
    "init /proc/new --host localhost",
    "init site/key.pem --host localhost",
    "request a_b",
    "request site",
    "request other --out /proc/new",
    "approve site site/request.json",
    "approve real site/request.json",
    "approve real/coordinator nothing.json",
    "approve real/coordinator real/coordinator/kit.json",
    "accept site site/request.json",
    "accept real/coordinator site/request.json",
    "show nowhere",
    "show real",
    "revoke real/coordinator nobody",
    "revoke real/coordinator ../cert",
    "revoke site mine",
    "renew real/coordinator nobody",
    "renew real/coordinator --days 9999",
]


def test_a_mistake_is_one_sentence_and_changes_nothing(ask, tmp_path):
    (tmp_path / "real/coordinator/roster.lock").touch()
    before = files_of(tmp_path)
    for words in MISTAKES:
        status, out, err = ask[0]("federation", *words.split())
        assert (status, out) == (2, ""), words
        assert re.fullmatch(r"hush: [^\n]+: [^\n]+\n", err), words
        assert files_of(tmp_path) == before, words
