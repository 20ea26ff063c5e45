"""Sites that bring their tables as they are: without a header, of any ending, as a folder, from a database."""

import sqlite3
from pathlib import Path

import pytest
from network.parties import SEED, federation

from hush.data.records import read_schema
from hush.data.records.tables import open_table

pytestmark = pytest.mark.network
HEARTS = Path(__file__).parents[2] / "examples" / "hearts"


def test_four_hospitals_with_files_of_their_own_kinds(tmp_path: Path) -> None:
    tables = {
        "scheme": {"name": "dp-fedavg", "noise": 1.0, "clip": 1.0},
        "data": {"name": str(HEARTS / "schema.toml")},
        "sampling": {"kind": "fixed", "cohort": 4},
        "run": {"rounds": 2, "seed": SEED},
    }
    schema = read_schema(HEARTS / "schema.toml")
    west = open_table(schema.main.model_copy(update={"path": str(HEARTS / "files" / "west.tsv")}))
    columns = list(west.kinds)
    with sqlite3.connect(tmp_path / "west.db") as ward:
        ward.execute(f"create table west ({', '.join(columns)})")
        ward.executemany(
            f"insert into west values ({', '.join('?' * len(columns))})", west.lazy.select(columns).collect().rows()
        )
    ward.close()
    text = (HEARTS / "schema.toml").read_text().replace('client = "file"', 'client = "sex"')
    asked = text.replace('path = "files"', f'database = "{tmp_path / "west.db"}"\nquery = "select * from west"')
    (tmp_path / "west.toml").write_text(asked)
    (tmp_path / "south").mkdir()
    (tmp_path / "south" / "all.records").write_bytes((HEARTS / "files" / "south.csv").read_bytes())
    data = {
        "east": HEARTS / "files" / "east.txt",
        "north": HEARTS / "files" / "north.data",
        "south": tmp_path / "south",
        "west": tmp_path / "west.toml",
    }
    with federation(tmp_path / "place", tuple(data), tables, seed=None) as place:
        server = place.server()
        sites = {name: place.site(name, data=path) for name, path in data.items()}
        assert server.join() == 0, server.events()
        read = {name: site.events("data")[0]["records"] for name, site in sites.items()}
        assert read == {"east": 70, "north": 120, "south": 110, "west": 90}
        assert all(site.join() == 0 for site in sites.values())
