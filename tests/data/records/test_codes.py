from pathlib import Path

import polars as pl
import pytest
from data.records.conftest import CODES, MAIN, SCHEMA, Export

from hush.data.records import build, read_schema
from hush.errors import Mistake

LISTED = SCHEMA.replace("[features]", '[features]\nvocabulary = "list.txt"')


def counted(records) -> dict[str, int]:
    return {rule.name: rule.dropped for rule in records.counts if rule.of not in ("rows", "clients", "codes")}


def test_codes_are_text_as_it_is_written(export: Export) -> None:
    records = export()
    assert records.names[3:] == ("0093", "250.83", "250.830", "486", "V58")  # no number is made of them
    assert "codes: the list of the 5 that occur" in records.fitted
    assert counted(records)["codes of other days"] == 1


def test_an_unknown_code_is_refused_with_its_row_or_dropped(export: Export) -> None:
    words = "486\n250.83\n\n0093\n999\n250.830\n"
    with pytest.raises(Mistake, match=r"row 7 of codes.csv: icd = 'V58', which is not in the vocabulary.*'drop'"):
        export(schema=LISTED, list=words)
    lenient = LISTED.replace("[features]", '[features]\nunknown_codes = "drop"')
    records = export(schema=lenient, list=words)
    assert records.names[3:] == ("0093", "250.83", "250.830", "486", "999")  # the width is public, and so is the list
    assert records.fitted == ()
    assert counted(records)["unknown codes"] == 1
    dropped = export('exclude = { case = ["c4"] }', schema=LISTED, list=words)  # what is not kept may hold anything
    assert counted(dropped)["unknown codes"] == 0


def test_a_vocabulary_must_be_a_list(export: Export) -> None:
    with pytest.raises(Mistake, match="'486' twice"):
        export(schema=LISTED, list="486\n486\n")
    with pytest.raises(Mistake, match="cannot be read"):
        export(schema=LISTED.replace("list.txt", "none.txt"))


def test_every_row_of_the_codes_is_accounted_for(export: Export) -> None:
    codes = CODES + "c9,1,486\n,1,486\nc5,1,\nc1,,486\nc1,1,250.83\n"
    records = export('exclude = { case = ["c3"] }', codes=codes)
    assert counted(records) == {
        "codes of admissions that are not there": 2,
        "codes of dropped admissions": 2,
        "codes of other days": 2,
        "missing codes": 1,
        "repeated codes": 1,
    }
    assert 12 - sum(counted(records).values()) == int(records.inputs[:][:, 3:].sum()) == 4


def test_codes_that_point_nowhere_are_refused(export: Export) -> None:
    with pytest.raises(Mistake, match=r"no row of codes.csv names an admission that is there"):
        export(codes="case,day,icd\nx,1,486\n")
    with pytest.raises(Mistake, match=r"row 2 of codes.csv: day = 'first', which is no number of a day"):
        export(codes="case,day,icd\nc1,1,486\nc1,first,486\n")
    with pytest.raises(Mistake, match="no kept row has a code"):
        export(codes="case,day,icd\nc1,2,486\n")


def test_another_day_and_no_day(export: Export) -> None:
    second = export(schema=SCHEMA.replace('day = "day"', 'day = "day"\nday_is = 2'))
    assert second.names[3:] == ("486",)
    every = export(schema=SCHEMA.replace('day = "day"\n', ""))
    assert every.inputs[:][0, every.names.index("486")] == 1


def test_rare_codes_are_cut_by_patients(export: Export) -> None:
    records = export("rare_codes = 2")
    assert records.names[3:] == ("250.83",)
    assert {rule.of: rule.dropped for rule in records.counts if rule.name == "rare_codes"} == {
        "codes": 4,
        "code rows": 4,
    }
    assert any("at least 2 patients" in line for line in records.fitted)
    patients = SCHEMA.replace(MAIN, MAIN + 'patient = "sex"\n')  # c1 and c3, the holders of 250.83, are one patient
    with pytest.raises(Mistake, match="rare_codes = 2: no code is in that many patients"):
        export("rare_codes = 2", schema=patients)


def test_several_tables_with_prefixes(export: Export, tmp_path: Path) -> None:
    pl.DataFrame({"case": ["c2", "c2"], "drug": [486, None]}).write_parquet(tmp_path / "drugs.parquet")
    both = SCHEMA.replace("[codes]", "[[codes]]").replace(
        "[features]",
        '[[codes]]\npath = "drugs.parquet"\nadmission = "case"\ncode = "drug"\nprefix = "drug:"\n[features]',
    )
    records = export(schema=both)
    assert records.names[3:] == ("0093", "250.83", "250.830", "486", "V58", "drug:486")
    assert records.inputs[:][1, -1] == 1
    assert records.inputs[:][1, records.names.index("486")] == 0
    tables = {rule.of: rule.dropped for rule in records.counts if rule.name == "missing codes"}
    assert tables == {"rows of codes.csv": 0, "rows of drugs.parquet": 1}


def test_columns_of_codes_in_a_wide_table(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("site;dx1;dx2;died\nA;250.83;0093;1\nA;486;;0\nB;250.83;250.83;0\nB;;;0\n")
    (tmp_path / "wide.toml").write_text(
        '[table]\npath = "wide.csv"\nseparator = ";"\nclient = "site"\nlabel = "died"\n'
        '[features]\ncodes = ["dx1", "dx2"]\n'
    )
    records = build(read_schema(tmp_path / "wide.toml"))
    assert records.names == ("0093", "250.83", "486")
    assert records.inputs[:].tolist() == [[1, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    (tmp_path / "list.txt").write_text("250.83\n486\n")
    text = (tmp_path / "wide.toml").read_text()
    (tmp_path / "listed.toml").write_text(text.replace("[features]", '[features]\nvocabulary = "list.txt"'))
    with pytest.raises(Mistake, match=r"row 1 of wide.csv: dx2 = '0093', which is not in the vocabulary"):
        build(read_schema(tmp_path / "listed.toml"))


def test_parquet_numbers_are_codes(tmp_path: Path) -> None:
    frame = {"site": ["A", "A"], "dx": [250.83, 250.0], "n": [7, None], "died": [True, False]}
    pl.DataFrame(frame).write_parquet(tmp_path / "wide.parquet")
    (tmp_path / "s.toml").write_text(
        '[table]\npath = "*.parquet"\nclient = "site"\nlabel = "died"\n[features]\ncodes = ["dx", "n"]\n'
    )
    records = build(read_schema(tmp_path / "s.toml"))
    assert records.names == ("250", "250.83", "7")
    assert records.targets.tolist() == [1, 0]
