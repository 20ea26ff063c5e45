from pathlib import Path

import pytest

from hush.errors import Mistake
from hush.experiment.report import runs


def test_reads_what_a_run_leaves(make):
    run = runs.read(make(total=5))
    assert (run.name, run.scheme, run.data, run.total, run.delta) == ("trial", "fl-top-dp", "digits", 5, 1e-5)
    assert [row["round"] for row in run.rounds] == [1, 2, 3]
    assert run.last["round"] == 3


def test_name_of_the_current_directory(make, monkeypatch):
    monkeypatch.chdir(make())
    assert runs.read(Path(".")).name == "trial"


@pytest.mark.parametrize("keep", [1, 40, -2])
def test_a_cut_last_line_is_left_out(make, keep):
    path = make()
    file = path / "rounds.jsonl"
    first, second, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + second + third[:keep])
    assert [row["round"] for row in runs.read(path).rounds] == [1, 2]


def test_a_last_line_cut_inside_a_character_is_left_out(make):
    path = make()
    with (path / "rounds.jsonl").open("ab") as file:
        file.write('{"note": "é'.encode()[:-1])
    assert len(runs.read(path).rounds) == 3


def test_a_whole_last_line_without_its_newline_counts(make):
    path = make()
    file = path / "rounds.jsonl"
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert len(runs.read(path).rounds) == 3


@pytest.mark.parametrize("bad", ["{", "[]", "3", '{"round": 2}', '{"round": 2, "bytes": 7}', ""])
def test_a_damaged_line_in_the_middle_is_refused_by_number(make, bad):
    path = make()
    file = path / "rounds.jsonl"
    first, _, third = file.read_text().splitlines()
    file.write_text(f"{first}\n{bad}\n{third}\n")
    with pytest.raises(Mistake, match=r"line 2 of .*rounds\.jsonl"):
        runs.read(path)


def test_missing_directory_and_files_are_refused(make, tmp_path):
    with pytest.raises(Mistake, match=r"nowhere.* is not a directory"):
        runs.read(tmp_path / "nowhere")
    path = make()
    (path / "rounds.jsonl").unlink()
    with pytest.raises(Mistake, match=r"no readable rounds\.jsonl"):
        runs.read(path)
    (path / "config.toml").unlink()
    with pytest.raises(Mistake, match=r"no readable config\.toml"):
        runs.read(path)


@pytest.mark.parametrize("text", ["", "= 3", "data = 1", "[data]\n[model]\n[scheme]\n[run]\n", "\udcff"])
def test_a_bad_configuration_is_refused(make, text):
    path = make()
    (path / "config.toml").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(Mistake, match=r"config\.toml.* is not a run's configuration"):
        runs.read(path)


def test_a_run_without_rounds_has_no_last(make):
    with pytest.raises(Mistake, match="no finished round"):
        _ = runs.read(make(rows=0)).last


def test_kilobytes_are_thousands_and_add_payload_and_protocol(line):
    row = line(10)
    assert runs.kilobytes(row, "up") == 5.6
    assert runs.kilobytes(row, "down", "payload") == 11.0
    assert runs.kilobytes(row, "up", "protocol", "max") == 0.4


def test_phases_are_in_thousands_and_none_where_there_are_none(make, line, secure):
    assert runs.phases(line(1)) == {}
    found = runs.phases(runs.read(make(rows=[line(1), secure])).last)
    assert list(found) == ["advertise", "share", "mask"]
    assert found["mask"] == {"up": {"mean": 12.5555, "max": 25.111}, "down": {"mean": 83.33, "max": 166.66}}


@pytest.mark.parametrize("bad", [["mask"], {"mask": {"up": {"mean": 1.0, "max": 2}}}, {"mask": 3}])
def test_damaged_phases_are_refused(make, line, secure, bad):
    secure["bytes"]["phases"] = bad
    with pytest.raises(Mistake, match=r"line 2 of .*rounds\.jsonl"):
        runs.read(make(rows=[line(1), secure]))


def test_no_guarantee_is_none_never_a_number(line):
    row = line(1, private=False)
    assert {runs.epsilon(row, view) for view in runs.VIEWS} == {None}
    row = line(1, epsilon={"model": 0.5, "upload": float("inf")})
    assert runs.views(row) == ("model", "upload")
    assert (runs.epsilon(row, "model"), runs.epsilon(row, "upload")) == (0.5, None)


def test_rounds_without_evaluation_are_skipped(make, line):
    rows = [line(1, accuracy=None), line(2), line(3, accuracy=float("nan"))]
    assert runs.accuracies(runs.read(make(rows=rows))) == [(2, 0.502)]
