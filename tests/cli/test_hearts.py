"""Four hospitals' files without headers, from a look at them to a privacy card, by a schema and no script."""

import json
import shutil
import sqlite3
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "hearts"
RUN = ("run", "fl-sign-dp", "--model", "linear", "--delta", "1e-3", "--cohort", "4", "--rounds", "2")


@pytest.fixture
def hearts(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "hearts"))


def test_four_files_without_headers_to_a_privacy_card(hush, hearts):
    assert len((hearts / "schema.toml").read_text().splitlines()) <= 25
    assert sorted(path.suffix for path in (hearts / "files").iterdir()) == [".csv", ".data", ".tsv", ".txt"]
    status, out, _ = hush("data", "describe", "hearts/schema.toml", "--json")
    facts = json.loads(out)
    assert status == 0
    rows = {name: client["rows"] for name, client in facts["by_client"].items()}
    assert rows == {"east": 70, "north": 120, "south": 110, "west": 90}
    assert facts["labels"].keys() == {"0", "1"}
    assert facts["features"]["sex"] == 2  # 1.0, 1 and 1,0 are one category
    assert facts["fitted"] == []
    status, out, err = hush(*RUN, "--data", "hearts/schema.toml", "--epsilon", "2", "--out", "run")
    assert (status, "AUROC, best" in out) == (0, True), err
    status, out, _ = hush("privacy", "card", "run")
    assert status == 0
    assert "differential privacy, record level, delta 0.001" in out
    assert "4 of 4 clients a round" in out
    assert "fitted on the records" not in out
    status, out, err = hush("predict", "run", "hearts/files/east.txt")  # whose client is in the name of the file
    assert (status, len(out.splitlines())) == (0, 71), err
    assert "70 rows, accuracy" in err
    status, out, err = hush("predict", "run", "hearts/files")
    assert (status, out) == (2, "")
    assert "hearts/files is a folder" in err


@pytest.mark.parametrize("folder", ["hearts/files", "hearts/files/", "hearts/files/*"])
def test_the_draft_of_them_trains_as_it_is_and_the_card_names_what_it_fitted(hush, hearts, folder):
    status, out, _ = hush("data", "describe", folder)
    assert status == 0
    assert "390 rows of 4 files" in out
    assert "no header: the columns are called c1, c2" in out
    assert hush("data", "describe", folder, "--draft", "--label", "c14", "--out", "first.toml")[0] == 0
    assert tomllib.loads(Path("first.toml").read_text())["table"]["client"] == "file"
    if folder != "hearts/files":
        return
    status, out, err = hush(
        "run", "fl-std", "--model", "linear", "--data", "first.toml", "--rounds", "1", "--out", "run"
    )
    assert status == 0, err
    assert "fitted on the records: c4: its median, for missing values" in " ".join(
        json.loads(hush("privacy", "card", "run", "--json")[1])["unnoised"]
    )


def test_one_label_at_one_hospital_is_named_and_at_all_refused(hush, hearts):
    north = hearts / "files" / "north.data"
    north.write_text("".join(line[:-1] + "0\n" for line in north.read_text().splitlines()))
    status, out, _ = hush("data", "describe", "hearts/schema.toml")
    assert "client north: 120 rows, 0 of a label that is not 0; all have one label" in out
    status, _, err = hush(*RUN, "--data", "hearts/schema.toml", "--noise", "4", "--out", "run")
    assert status == 0, err
    schema = hearts / "schema.toml"
    schema.write_text(schema.read_text().replace("[1, 2, 3, 4]\nnegative = [0]", "[0, 1, 2, 3, 4]"))
    status, _, err = hush(*RUN, "--data", "hearts/schema.toml", "--noise", "4", "--out", "other")
    assert status == 2
    assert "all 390 rows that schema schema.toml keeps have the label 1, so there is nothing to learn" in err


def test_a_table_is_not_a_schema_and_options_of_a_draft_are_for_it(hush, hearts):
    for name in ("hearts/files", "hearts/files/north.data"):
        status, _, err = hush(*RUN, "--noise", "4", "--data", name, "--out", "run")
        assert status == 2
        assert f"{name} is a table, and a schema says what is in it: draft one with `hush data describe {name}" in err
    status, _, err = hush("data", "describe", "hearts/files", "--label", "c14")
    assert (status, "--label c14 is for --draft" in err) == (2, True)


def test_a_database_s_address_is_in_no_file_of_a_run(hush, tmp_path, monkeypatch):
    connection = sqlite3.connect(tmp_path / "keepmesecret.db")
    connection.execute("create table stays (house text, years integer, died integer)")
    rows = [(f"h{n % 2}", 20 + n, int(n % 5 == 0)) for n in range(40)]
    connection.executemany("insert into stays values (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    monkeypatch.setenv("WARD", f"sqlite:///{tmp_path / 'keepmesecret.db'}")
    Path("schema.toml").write_text(
        '[table]\ndatabase = "$WARD"\nquery = "select * from stays"\nclient = "house"\nlabel = "died"\n'
        "[features]\nnumeric.years = { min = 0, max = 100 }\n"
    )
    words = ("run", "fl-std", "--model", "linear", "--data", "schema.toml", "--rounds", "1", "--out", "run")
    status, out, err = hush(*words)
    assert status == 0, err
    kept = [path for path in Path("run").rglob("*") if path.is_file()]
    assert {"config.toml", "rounds.jsonl", "privacy.json", "report.html"} <= {path.name for path in kept}
    assert not any(b"keepmesecret" in path.read_bytes() for path in kept)
    assert "keepmesecret" not in out + err
