"""hush federation export-flare: a job of three files, for the sites of a roster."""

import json
import tomllib
from pathlib import Path

import pytest

EXPERIMENT = """
[data]
name = "digits"

[scheme]
name = "fl-top-dp"
ratio = 0.1
noise = 1.0
"""
WORDS = ("--experiment", "e.toml", "--kit", "trial/coordinator")


@pytest.fixture
def ready(hush):
    hush(*"federation init trial --host localhost --site a --site b".split())
    Path("e.toml").write_text(EXPERIMENT)
    return hush


def test_three_files_and_no_code(ready):
    status, _, err = ready("federation", "export-flare", "job", *WORDS, "--set", "run.rounds=7", "--deadline", "60")
    assert (status, err) == (0, "")
    folder = Path("job/app/config")
    server, client = folder / "config_fed_server.json", folder / "config_fed_client.json"
    assert {one for one in Path("job").rglob("*") if one.is_file()} == {Path("job/meta.json"), server, client}
    meta = json.loads(Path("job/meta.json").read_text())
    assert meta["deploy_map"] == {"app": ["server", "a", "b"]}
    assert (meta["min_clients"], meta["mandatory_clients"]) == (2, ["a", "b"])
    assert "byoc" not in meta
    (component,) = json.loads(server.read_text())["components"]
    arguments = component["args"]
    asked = tomllib.loads(arguments["experiment"])
    assert asked == {**tomllib.loads(EXPERIMENT), "run": {"rounds": 7}}  # and no default, which a scheme may have
    assert arguments["deadline"] == 60
    known = json.loads(ready("federation", "show", "trial/a", "--json")[1])["federation"]
    assert json.loads(client.read_text())["components"][0]["args"] == {"federation": known}
    assert arguments["federation"] == known


def test_the_allow_list_that_is_printed_is_what_the_job_names(ready):
    _, out, _ = ready("federation", "export-flare", "job", *WORDS)
    for party in ("server", "client"):
        found = json.loads(Path(f"job/app/config/config_fed_{party}.json").read_text())
        parts = [
            *found["components"],
            *found.get("workflows", ()),
            *(one["executor"] for one in found.get("executors", ())),
        ]
        (line,) = [line for line in out.splitlines() if line.startswith(f"class_allow_list of the {party}: ")]
        assert {part["path"] for part in parts} <= set(line.partition(": ")[2].split(", "))


def test_mistakes(ready):
    def sentence(*words):
        status, out, err = ready("federation", "export-flare", *words)
        assert (status, out) == (2, "")
        return err

    assert "hush server" in sentence("job", *WORDS, "--set", "secure.mode=full", "--set", "secure.servers=2")
    assert "brace" in sentence("job", *WORDS, "--set", "data.name={x}.npz")
    Path("{x}.toml").write_text(EXPERIMENT)
    assert "brace" in sentence("job", "--experiment", "{x}.toml", *WORDS[2:])
    assert "the coordinator's has the roster" in sentence("job", *WORDS[:3], "trial/a")
    assert not Path("job").exists()
    ready("federation", "export-flare", "job", *WORDS)
    assert "job exists" in sentence("job", *WORDS)
    ready(*"federation init empty --host localhost".split())
    assert "no site on its roster" in sentence("other", *WORDS[:3], "empty/coordinator")
