import json
import shutil
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
    pictures, records = ["fashion-mnist", "mnist", "cifar10", "cifar100", "digits"], ["diabetes130", "premier-like"]
    assert [one["name"] for one in sets] == [*pictures, *records]
    assert [one["ready"] for one in sets][1:] == [False, False, False, True, False, False]
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
        (["fetch", "mnist"], "data set 'mnist' could not be had from any source:"),
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
