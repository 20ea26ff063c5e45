"""A site's tables under a charter's schema: the same sources as a simulation's, and nothing of a server's choosing."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hush.data.records import build, read_schema
from hush.errors import Mistake, Refused
from hush.experiment.brief import Brief, _digest, _schema, is_table
from hush.experiment.client import Office
from hush.experiment.rules import Rules
from hush.federation.kit import Kit

HEARTS = Path(__file__).parents[2] / "examples" / "hearts"


@pytest.fixture
def hearts() -> Brief:
    records = build(read_schema(HEARTS / "schema.toml"))
    schema, words = _schema(str(HEARTS / "schema.toml"))
    width = records.inputs.width
    return Brief(
        data="hearts",
        shape=[width],
        inputs=[width],
        classes=2,
        model="linear",
        loss="binary-cross-entropy",
        outputs=1,
        seed=0,
        engine="lockstep",
        columns=_digest(records.names),
        schema=schema,
        vocabulary=words,
    )


def test_a_site_gives_its_file_without_a_header_whatever_it_ends_in(hearts: Brief, tmp_path: Path) -> None:
    sent = Brief.read(hearts.json)
    for name, rows in {"north.data": 120, "south.csv": 110, "east.txt": 70, "west.tsv": 90}.items():
        assert len(sent.rows(HEARTS / "files" / name, tmp_path)) == rows
    assert len(sent.rows(HEARTS / "files", tmp_path)) == 390
    assert is_table(HEARTS / "files" / "north.data")
    with pytest.raises(Mistake, match=r"none.data is not there: give the table with this site's rows"):
        sent.rows(tmp_path / "none.data", tmp_path)


def test_where_the_server_has_its_own_rows_is_not_in_the_charter(tmp_path: Path) -> None:
    text = (HEARTS / "schema.toml").read_text()
    asked = text.replace(
        'path = "files"', 'database = "postgresql://reader@inside/ward"\nquery = "select * from secrets"'
    )
    (tmp_path / "schema.toml").write_text(asked.replace('client = "file"', 'client = "ecg"'))
    schema, _ = _schema(str(tmp_path / "schema.toml"))
    assert schema is not None
    assert not {"database", "query"} & schema["table"].keys()
    assert "secrets" not in str(schema)


def test_a_query_of_a_charter_is_never_run(hearts: Brief, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("a,b\n1,2\n")
    sqlite3.connect(tmp_path / "own.db").close()
    schema = dict(hearts.schema or {})
    table = {**schema["table"], "database": str(tmp_path / "own.db"), "query": "select 1"}
    del table["path"]
    asking = replace(hearts, schema={**schema, "table": table})
    with pytest.raises(Refused, match="a query, which a site does not run for a server"):
        asking.rows(tmp_path / "own.csv", tmp_path)


def test_a_site_that_offers_columns_by_name_names_them_itself(hearts: Brief, tmp_path: Path) -> None:
    """Without a header the charter could call any column by a name that the site offers."""
    own = cast(Kit, SimpleNamespace(state=tmp_path))
    mine = HEARTS / "files" / "north.data"
    offered = Rules(columns=hearts.used)
    assert len(Office(own, mine, Rules(), print)._own(hearts)) == 120
    with pytest.raises(Refused, match=r"offers columns by name: give a schema.toml of your own"):
        Office(own, mine, offered, print)._own(hearts)
    text = (HEARTS / "schema.toml").read_text().replace('"files"', f'"{mine}"')
    (tmp_path / "mine.toml").write_text(text)
    assert len(Office(own, tmp_path / "mine.toml", offered, print)._own(hearts)) == 120
