import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hush.cli
from hush.cli.data import app


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
    assert [one["name"] for one in sets] == ["fashion-mnist", "mnist", "digits"]
    assert [one["ready"] for one in sets][1:] == [False, True]
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
