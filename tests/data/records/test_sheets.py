"""Excel workbooks, alone and beside other files."""

import datetime
import sys
from pathlib import Path

import polars as pl
import pytest
import xlsxwriter

from hush.data.records import build, read_schema
from hush.data.records.draft import draft
from hush.data.records.sources import Source
from hush.data.records.tables import FILE, ROW, open_table
from hush.errors import Mistake

ROWS = [
    ["case", "hospital", "crea", "sex", "came", "died"],
    ["007", "North", 1.5, 1, datetime.date(2024, 1, 31), "no"],
    [],
    ["008", "South", 2, 2, datetime.date(2024, 2, 1), "yes"],
    ["009", "South", None, 1, None, "no"],
]


def book(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    with xlsxwriter.Workbook(path) as made:
        days = made.add_format({"num_format": "yyyy-mm-dd"})
        for name, rows in sheets.items():
            sheet = made.add_worksheet(name)
            for at, row in enumerate(rows):
                for column, value in enumerate(row):
                    if isinstance(value, datetime.date):
                        sheet.write_datetime(at, column, datetime.datetime(value.year, value.month, value.day), days)
                    elif value is not None:
                        sheet.write(at, column, value)
    return path


def test_a_sheet_is_a_table(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", {"Sheet1": ROWS})
    table = open_table(Source(path=str(path)))
    found = table.lazy.select(
        ROW, FILE, table.text("case"), table.number("crea"), table.category("sex"), table.date("came", None), "died"
    ).collect()
    assert found.rows() == [
        (1, "a.xlsx", "007", 1.5, "1", datetime.date(2024, 1, 31), "no"),
        (2, "a.xlsx", "008", 2.0, "2", datetime.date(2024, 2, 1), "yes"),  # an empty row is none
        (3, "a.xlsx", "009", None, "1", None, "no"),
    ]


def test_a_sheet_without_a_header_and_the_choice_of_a_sheet(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", {"notes": [["read me"]], "data": [row for row in ROWS[1:] if row]})
    names = tuple(map(str, ROWS[0]))
    with pytest.raises(Mistake, match=r"a.xlsx has the sheets notes, data: choose one with sheet = 'notes'"):
        open_table(Source(path=str(path)))
    with pytest.raises(Mistake, match=r"sheet = 'date' is not in a.xlsx: name one of notes, data"):
        open_table(Source(path=str(path), sheet="date"))
    table = open_table(Source(path=str(path), sheet="data", columns=names))
    assert table.lazy.select("case").collect().to_series().to_list() == ["007", "008", "009"]
    with pytest.raises(Mistake, match=r"row 1 of a.xlsx has 6 fields and columns 5"):
        open_table(Source(path=str(path), sheet="data", columns=names[:5]))


def test_hospitals_with_a_workbook_a_parquet_and_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    book(tmp_path / "files" / "north.xlsx", {"Sheet1": [["sex", "crea", "died"], [1, 1.5, 0], [2, 2, 1]]})
    frame = pl.DataFrame({"sex": [1.0, None], "crea": [3.25, 4.0], "died": [1, 0]})
    frame.write_parquet(tmp_path / "files" / "south.parquet")
    (tmp_path / "files" / "west.txt").write_text("sex;crea;died\n2,0;0,5;1\n1;7;0\n")
    (tmp_path / "schema.toml").write_text(
        '[table]\npath = "files"\nclient = "file"\nlabel = "died"\ndecimal = ","\n[features]\n'
        'numeric.crea = { min = 0, max = 10 }\ncategorical.sex = [1, 2, "Unknown"]\n'
    )
    records = build(read_schema(tmp_path / "schema.toml"))
    assert records.clients.tolist() == ["north", "north", "south", "south", "west", "west"]
    assert records.targets.tolist() == [0, 1, 1, 0, 1, 0]
    dense = records.inputs[:]
    assert dense[:, 0].tolist() == pytest.approx([0.15, 0.2, 0.325, 0.4, 0.05, 0.7])
    assert dense[:, 1:].argmax(1).tolist() == [0, 1, 0, 2, 1, 0]
    (tmp_path / "draft.toml").write_text(draft([tmp_path / "files"], tmp_path))
    assert len(build(read_schema(tmp_path / "draft.toml")).targets) == 6


def test_what_is_no_workbook_and_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.xlsx").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(Mistake, match=r"odd.xlsx cannot be read as a workbook \(.*save it again"):
        open_table(Source(path=str(tmp_path / "odd.xlsx")))
    (tmp_path / "text.xlsx").write_text("a,b\n1,2\n")
    with pytest.raises(Mistake, match=r"text.xlsx is not what its name ends in"):
        open_table(Source(path=str(tmp_path / "text.xlsx")))
    book(tmp_path / "empty.xlsx", {"Sheet1": []})
    with pytest.raises(Mistake, match=r"empty.xlsx is empty"):
        open_table(Source(path=str(tmp_path / "empty.xlsx")))
    path = book(tmp_path / "a.xlsx", {"Sheet1": ROWS})
    monkeypatch.setitem(sys.modules, "fastexcel", None)  # as where it is not installed
    with pytest.raises(Mistake, match=r"a.xlsx is an Excel workbook, .*pip install 'hush-fl\[tables\]'"):
        open_table(Source(path=str(path)))
