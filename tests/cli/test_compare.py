import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hush import cli
from hush.core.state import Books, State
from hush.experiment.checkpoint import save_state
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, views

EVENT = Event(1, 20.0, 2.0, 0.5, "poisson", 0.0, "update")


def ledger(path: Path, rounds: int) -> list[dict[str, object]]:
    """So many releases of one client, in a ledger and a checkpoint; the epsilons after each of them."""
    kept, joined, given = Ledger(path / "privacy.json"), Participation(1), []
    for number in range(1, rounds + 1):
        kept.record(replace(EVENT, round=number))
        joined.add(EVENT, [0])
        given.append(views(kept.events, joined, 1e-5))
    books = Books(rounds, Books.first(1).traffic, joined)
    save_state(path / "checkpoint" / "state.safetensors", State(rounds, torch.zeros(1), None, None, books), {})
    return given


def write(path: Path, epsilon: object, accuracies: list[float | None]) -> Path:
    path.mkdir()
    same = [{"model": epsilon, "server": epsilon}] * len(accuracies)
    given = same if epsilon != "private" else ledger(path, len(accuracies))
    (path / "config.toml").write_text(
        '[data]\nname = "digits"\n[model]\nname = "cnn"\n[scheme]\nname = "fl-top-dp"\n[run]\nrounds = 9\n'
    )
    lines = []
    for number, accuracy in enumerate(accuracies, 1):
        size = {"payload": {"mean": 500.0 * number, "max": 900 * number}, "protocol": {"mean": 8.0, "max": 9}}
        lines.append(
            {
                "round": number,
                "cohort": 5,
                "aborted": False,
                "accuracy": accuracy,
                "best_accuracy": 0.6,
                "best_round": 1,
                "bytes": {"up": size, "down": size},
                "epsilon": given[number - 1],
                "seconds": 0.1,
            }
        )
    (path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def hush(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["hush", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_json_is_one_object_with_every_run(tmp_path, monkeypatch, capsys):
    first = write(tmp_path / "first", "private", [0.6, 0.5, None])
    second = write(tmp_path / "second", "none", [None])
    out = tmp_path / "compare.svg"
    assert hush(monkeypatch, "compare", first, second, "--out", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["figure"] == str(out)
    assert out.stat().st_size > 1000
    assert said["runs"][0] == {
        "name": "first",
        "scheme": "fl-top-dp",
        "data": "digits",
        "level": "client",
        "relation": "add or remove one client",
        "secure": False,
        "round": 3,
        "measure": "accuracy",
        "larger": True,
        "accuracy": 0.5,
        "balanced": None,
        "auroc": None,
        "best_accuracy": 0.6,
        "best_round": 1,
        "bytes": json.loads((first / "rounds.jsonl").read_text().splitlines()[-1])["bytes"],
        "epsilon": json.loads((first / "rounds.jsonl").read_text().splitlines()[-1])["epsilon"],
    }
    assert said["runs"][1]["epsilon"] == {"model": "none", "server": "none"}
    assert said["runs"][1]["accuracy"] is None
    assert said["runs"][1]["level"] is said["runs"][1]["relation"] is None


def test_runs_are_compared_after_equal_rounds(tmp_path, monkeypatch, capsys):
    first, second = (
        write(tmp_path / name, "private", [0.4, 0.5, 0.6][:n]) for name, n in (("first", 3), ("second", 2))
    )
    assert hush(monkeypatch, "compare", first, second, "--at-round", 2, "--out", tmp_path / "x.svg", "--json") == 0
    said = json.loads(capsys.readouterr().out)["runs"]
    assert [run["round"] for run in said] == [2, 2]
    assert [run["accuracy"] for run in said] == [0.5, 0.5]
    assert [run["bytes"]["up"]["payload"]["mean"] for run in said] == [1000.0, 1000.0]
    assert hush(monkeypatch, "compare", first, second, "--at-round", 3, "--out", tmp_path / "x.svg") == 2
    assert capsys.readouterr().err == (
        "hush: at-round=3 is not among the 2 rounds of run 'second': give a number from 1 to 2\n"
    )


def test_an_infinite_epsilon_stays_valid_json(tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "first", float("inf"), [0.5])
    assert hush(monkeypatch, "compare", path, "--out", tmp_path / "compare.svg", "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["epsilon"] == {"model": "none", "server": "none"}


def test_table_and_default_figure(tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "first", "private", [0.6, 0.5])
    monkeypatch.chdir(tmp_path)
    assert hush(monkeypatch, "compare", path) == 0
    text = capsys.readouterr().out
    assert "0.500" in text
    assert "figure: compare.png" in text
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_sentence_and_status_2(tmp_path, monkeypatch, capsys):
    path, empty = write(tmp_path / "first", "private", [0.5]), write(tmp_path / "empty", "none", [])
    for words, sentence in (
        ((tmp_path / "nowhere",), "is not a directory"),
        ((path, empty), "no finished round"),
        ((path, "--out", tmp_path / "x.gif"), "must end in"),
        ((path, "--view", "everybody"), "view='everybody' is not known"),
        ((), "Missing argument"),
    ):
        assert hush(monkeypatch, "compare", *words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("hush: ")
        assert sentence in said.err
        assert said.err.count("\n") == 1


def test_an_epsilon_that_the_ledger_does_not_give_is_refused(tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "first", "private", [0.5, 0.6])
    log = path / "rounds.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for view in ("model", "server"):
        forged = {**rows[-1], "epsilon": {**rows[-1]["epsilon"], view: rows[-1]["epsilon"][view] / 10}}
        log.write_text("".join(json.dumps(row) + "\n" for row in (*rows[:-1], forged)))
        assert hush(monkeypatch, "compare", path, "--out", tmp_path / "x.svg") == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert f"rounds.jsonl says {view}" in said.err
        assert said.err.count("\n") == 1
    (path / "privacy.json").unlink()
    assert hush(monkeypatch, "compare", path, "--out", tmp_path / "x.svg") == 2
    assert "has no privacy.json" in capsys.readouterr().err
