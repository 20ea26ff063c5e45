"""Rows from databases by a query, and that no password gets out."""

import json
import sqlite3
import sys
from pathlib import Path

import duckdb
import pytest

from hush.data.records import Records, build, fingerprint, read_schema
from hush.data.registry import dataset
from hush.errors import Mistake

ROWS = [("n", 40.5, "F", 1), ("n", 50.0, None, 0), ("s", 60.0, "M", 0), ("s", 70.0, "F", 1)] * 3
SCHEMA = """\
[table]
database = "ward.db"
query = "select house, years, sex, died from stays"
client = "house"
label = "died"

[features]
numeric.years = { min = 0, max = 100 }
categorical.sex = ["F", "M", "Unknown"]
"""
SECRET = "hunter2-and-more"


def stays(folder: Path, kind: str) -> None:
    connection = sqlite3.connect(folder / "ward.db") if kind == "sqlite" else duckdb.connect(str(folder / "ward.db"))
    connection.execute("create table stays (house text, years double, sex text, died integer)")
    connection.executemany("insert into stays values (?, ?, ?, ?)", ROWS)
    connection.commit()
    connection.close()


def built(folder: Path, schema: str = SCHEMA) -> Records:
    (folder / "schema.toml").write_text(schema)
    return build(read_schema(folder / "schema.toml"))


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_the_answer_to_a_query_is_a_table(tmp_path: Path, kind: str) -> None:
    stays(tmp_path, kind)
    records = built(tmp_path)
    assert sorted(zip(records.clients.tolist(), records.targets.tolist(), strict=True)) == sorted(
        (house, died) for house, _, _, died in ROWS
    )
    assert records.inputs[:].sum(0).tolist() == pytest.approx([3 * (0.405 + 0.5 + 0.6 + 0.7), 6, 3, 3])
    # A database promises no order, and a run must find the same rows in it.
    again = built(tmp_path, SCHEMA.replace("from stays", "from stays order by years desc"))
    assert again.inputs[:].tolist() == records.inputs[:].tolist()
    assert again.digest == records.digest
    with pytest.raises(Mistake, match=r"row 1 of the query's answer, which is sorted: sex is missing"):
        built(tmp_path, SCHEMA.replace(', "Unknown"', "").replace("from stays", "from stays where sex is null"))
    (tmp_path / "stays.sql").write_text("select house, years, sex, died from stays -- all of 100%\n")
    by_file = built(tmp_path, SCHEMA.replace("select house, years, sex, died from stays", "stays.sql"))
    assert by_file.digest == records.digest
    frozen = fingerprint(read_schema(tmp_path / "schema.toml"))
    connection = (
        sqlite3.connect(tmp_path / "ward.db") if kind == "sqlite" else duckdb.connect(str(tmp_path / "ward.db"))
    )
    connection.execute("update stays set died = 1 - died where house = 'n'")
    connection.commit()
    connection.close()
    assert fingerprint(read_schema(tmp_path / "schema.toml")) != frozen


def test_a_query_changes_nothing(tmp_path: Path) -> None:
    stays(tmp_path, "sqlite")
    with pytest.raises(Mistake, match=r"ward.db did not answer the query \(.*readonly"):
        built(tmp_path, SCHEMA.replace("select house, years, sex, died from stays", "delete from stays returning *"))
    assert len(built(tmp_path).targets) == 12


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"ward.db"', '"ward2.db"', r"the database .*ward2.db is not there"),
        ("from stays", "from visits", r"ward.db did not answer the query \(.*visits"),
        ("house, years", "house, house, years", r"the query gives two columns 'house': rename one with AS"),
        ('"ward.db"', '"$NO_SUCH_DB"', r"database = '\$NO_SUCH_DB', and the environment has no NO_SUCH_DB: set it"),
        ('client = "house"', 'client = "file"', r"client = 'file' is about files, and the rows are from a query"),
        ('database = "ward.db"\n', "", r"give the path of a table, or a database and a query"),
        ("[table]\n", '[table]\npath = "a.csv"\n', r"give the path of a table, or a database and a query"),
    ],
)
def test_what_is_wrong_with_a_query(tmp_path: Path, old: str, new: str, words: str) -> None:
    stays(tmp_path, "sqlite")
    with pytest.raises(Mistake, match=words):
        built(tmp_path, SCHEMA.replace(old, new, 1))


@pytest.mark.parametrize(
    "line",
    [
        f'database = "postgresql://reader:{SECRET}@db/ward"',
        f'database = "mssql+pyodbc:///?odbc_connect=UID=reader;PWD={SECRET}"',
        f'path = "postgresql://reader:{SECRET}@db/ward"',
        f'database = "$WARD"\npassword = "{SECRET}"',
    ],
)
def test_a_password_in_the_schema_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    with pytest.raises(Mistake) as found:
        built(tmp_path, SCHEMA.replace('database = "ward.db"', line))
    assert SECRET not in str(found.value)
    assert found.value.__cause__ is None


def test_an_address_from_the_environment_is_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's driver repeats the address that it cannot open, and so do others."""
    schema = SCHEMA.replace("ward.db", "$WARD")
    monkeypatch.setenv("WARD", f"sqlite:////nowhere/{SECRET}/ward.db")
    with pytest.raises(Mistake, match=r"the database \$WARD did not answer the query") as found:
        built(tmp_path, schema)
    assert SECRET not in str(found.value)
    monkeypatch.setenv("WARD", f"nosuchbase://reader:{SECRET}@localhost/ward")
    with pytest.raises(Mistake, match=r"the database \$WARD did not answer the query") as found:
        built(tmp_path, schema)
    assert SECRET not in str(found.value)
    assert found.value.__cause__ is None
    stays(tmp_path, "sqlite")
    monkeypatch.setenv("WARD", f"sqlite:///{tmp_path / 'ward.db'}?timeout=5")
    assert len(built(tmp_path, schema).targets) == 12
    data = dataset(tmp_path / "schema.toml", lambda line: None)
    assert "ward.db" not in json.dumps([data.source, data.digest, *data.notes])


def test_what_a_database_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stays(tmp_path, "duckdb")
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as where it is not installed
    with pytest.raises(Mistake, match=r"ward.db takes duckdb: pip install 'hush-fl\[tables\]', or export the table"):
        built(tmp_path)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.setenv("WARD", "postgresql://reader@localhost/ward")
    with pytest.raises(Mistake, match=r"a database takes SQLAlchemy: pip install 'hush-fl\[tables\]'"):
        built(tmp_path, SCHEMA.replace("ward.db", "$WARD"))
    monkeypatch.undo()
    monkeypatch.setenv("WARD", "postgresql+nosuchdriver://reader@localhost/ward")
    with pytest.raises(Mistake, match=r"the database \$WARD "):
        built(tmp_path, SCHEMA.replace("ward.db", "$WARD"))
