from pathlib import Path
from typing import Literal

import polars as pl
import pytest

from hush.data.records.sources import Source, written
from hush.data.records.tables import FILE, ROW, open_table
from hush.errors import Mistake


def values(path: Path, column: str, **more: str) -> list[str | None]:
    table = open_table(Source(path=str(path), **more))
    return table.lazy.select(table.text(column)).collect().to_series().to_list()


def test_csv_is_the_text_that_stands_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('\ufeffcode,note\n250.830,"a, b"\n007,\n1e5,"two\nlines"\n,x\n', encoding="utf-8")
    assert values(path, "code") == ["250.830", "007", "1e5", None]
    assert values(path, "note") == ["a, b", None, "two\nlines", "x"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,3", r"row 2 of a.csv has 3 fields and the header 2: quote .*separator"),
        ("1", r"row 2 of a.csv has 1 fields and the header 2"),
        ('"1,2', r"row 2 of a.csv has 1 fields"),
    ],
)
def test_a_row_of_another_length_is_refused(tmp_path: Path, row: str, words: str) -> None:
    (tmp_path / "a.csv").write_text(f"x,y\n5,6\n{row}\n")
    with pytest.raises(Mistake, match=words):
        open_table(Source(path=str(tmp_path / "a.csv")))


def test_files_that_cannot_be_tables(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("x\nKöln\n".encode("latin-1"))
    (tmp_path / "twice.csv").write_text("x,x\n1,2\n")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    for name, words in {
        "latin.csv": r"line 2 of latin.csv has the byte 0xf6, which is not UTF-8: say encoding = .cp1252.",
        "twice.csv": r"two columns 'x'",
        "cut.parquet": r"cut.parquet cannot be read as a table",
        "none.csv": r"none.csv is not there",
    }.items():
        with pytest.raises(Mistake, match=words):
            open_table(Source(path=str(tmp_path / name)))


def test_a_folder_and_a_pattern_are_one_table(tmp_path: Path) -> None:
    for number in (2, 1):
        pl.DataFrame({"x": [f"{number}a", f"{number}b"]}).write_parquet(tmp_path / f"part-{number}.parquet")
    assert values(tmp_path, "x") == values(tmp_path / "part-*.parquet", "x") == ["1a", "1b", "2a", "2b"]
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    with pytest.raises(Mistake, match=r"b.csv has other columns than a.csv"):
        open_table(Source(path=str(tmp_path / "*.csv")))


def test_parquet_values_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    frame = {"f": [250.0, 250.83, float("nan"), None], "b": [True, False, None, True], "i": [1, 2, 3, None]}
    pl.DataFrame(frame, strict=False).with_columns(e=pl.col("i").cast(pl.String).cast(pl.Categorical)).write_parquet(
        path
    )
    assert values(path, "f") == ["250", "250.83", None, None]
    assert values(path, "b") == ["true", "false", None, "true"]
    assert values(path, "i") == values(path, "e") == ["1", "2", "3", None]
    assert values(path, "i", missing=("2",)) == ["1", None, "3", None]
    assert [written(value) for value in (True, 250.0, 250.83, 1, "x")] == ["true", "250", "250.83", "1", "x"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_empty_lines_are_no_rows(tmp_path: Path, end: str, engine: Literal["in-memory", "streaming"]) -> None:
    first = ["", "x,y", "", "1,a", "", "", ",", '2,"p', "", 'q"', "", ""]  # the quoted one is within a value
    second = ["x,y", "3,c", "", "4,d", "", "5,"]
    (tmp_path / "a.csv").write_bytes(end.join(first).encode())
    (tmp_path / "b.csv").write_bytes(end.join(second).encode())
    table = open_table(Source(path=str(tmp_path / "*.csv")))
    found = table.lazy.select(ROW, "x", "y").collect(engine=engine)
    assert found.rows() == [
        (1, "1", "a"),
        (2, None, None),  # a row with nothing in it is still a row
        (3, "2", f"p{end}{end}q"),
        (1, "3", "c"),  # of its own file
        (2, "4", "d"),
        (3, "5", None),
    ]
    assert table.lazy.filter(pl.col("x") == "4").select(ROW, FILE).collect(engine=engine).row(0) == (2, "b.csv")
    assert table.lazy.select(pl.len()).collect(engine=engine).item() == 6


def test_empty_lines_are_not_counted_in_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n\n5,6\n\n\n1,2,3\n")
    with pytest.raises(Mistake, match=r"row 2 of a.csv has 3 fields and the header 2"):
        open_table(Source(path=str(tmp_path / "a.csv")))


def test_a_line_ends_at_a_line_feed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x,y\n1,2\r\n3,4\r5,6\n\n7,8\n")  # polars would see a row of three fields
    with pytest.raises(Mistake, match=r"a.csv cannot be read as a table"):
        open_table(Source(path=str(tmp_path / "a.csv")))


def test_the_decimal_sign(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;y\n3,46;a\n-2;b\n 0,5 ;c\n1.200,5;d\n1.200;e\n1,2,3;f\n;g\n")
    table = open_table(Source(path=str(path), separator=";", decimal=","))
    assert table.lazy.select(table.number("x")).collect().to_series().to_list() == [3.46, -2, 0.5, *[None] * 4]
    assert values(path, "x", separator=";", decimal=",")[0] == "3,46"  # text stays as it is written
    point = open_table(Source(path=str(path), separator=";"))
    assert point.lazy.select(point.number("x")).collect().to_series().to_list() == [
        None,
        -2,
        None,
        None,
        1.2,
        None,
        None,
    ]


def test_a_column_of_lists_is_refused_if_it_is_named(tmp_path: Path) -> None:
    pl.DataFrame({"tags": [["a"], []], "x": [1, 2]}).write_parquet(tmp_path / "a.parquet")
    table = open_table(Source(path=str(tmp_path / "a.parquet")))
    assert table.check("x", "client") == "x"
    with pytest.raises(Mistake, match=r"features.codes = 'tags' of a.parquet is of the type List.*one value a row"):
        table.check("tags", "features.codes")
