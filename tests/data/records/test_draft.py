import datetime
import tomllib
from pathlib import Path

import polars as pl
import pytest
from data.records.conftest import ADMISSIONS, CODES

from hush.data.records import build, read_schema
from hush.data.records.draft import draft
from hush.data.records.look import look
from hush.data.records.sources import Source
from hush.data.records.tables import open_table
from hush.errors import Mistake

EXAMPLE = Path(__file__).parents[3] / "examples" / "hospital"


def test_a_look_at_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n;code;day;x;none\n1;007;2024-01-01;a;\n2;11;2024-01-02;b;\n3;;2024-01-03;b;\n")
    found = look(tmp_path / "a.csv")
    assert (found.rows, found.separator) == (3, ";")
    facts = {c.name: (c.kind, c.distinct, c.missing, c.values, c.lowest, c.highest) for c in found.columns}
    assert facts == {
        "n": ("integer", 3, 0, ("1", "2", "3"), 1, 3),
        "code": ("text", 2, 1, ("007", "11"), None, None),  # 007 is no number: its zeros would be lost
        "day": ("date", 3, 0, ("2024-01-01", "2024-01-02", "2024-01-03"), None, None),
        "x": ("text", 2, 0, ("b", "a"), None, None),
        "none": ("empty", 0, 3, (), None, None),
    }


def test_a_look_at_parquet(tmp_path: Path) -> None:
    frame = {"t": [datetime.date(2024, 1, 1), None], "f": [1.5, None], "b": [True, False]}
    pl.DataFrame(frame).write_parquet(tmp_path / "a.parquet")
    kinds = {c.name: (c.kind, c.missing) for c in look(tmp_path / "a.parquet").columns}
    assert kinds == {"t": ("date", 1), "f": ("number", 1), "b": ("integer", 0)}


def written(folder: Path, *tables: Path) -> Path:
    path = folder / "draft.toml"
    path.write_text(draft(list(tables), folder))
    return path


def test_a_draft_of_a_sane_pair_loads_as_it_is(tmp_path: Path) -> None:
    there = tmp_path / "export"
    there.mkdir()
    (there / "stays.csv").write_text(ADMISSIONS.replace("how", "death").replace(",50,", ",,").replace("70,M", "70,"))
    (there / "icd.csv").write_text(CODES)
    for order in (("stays.csv", "icd.csv"), ("icd.csv", "stays.csv")):
        schema = read_schema(written(tmp_path, *(there / name for name in order)))
        assert schema.admissions is not None
        assert (schema.main.id, schema.main.client, schema.main.label) == ("case", "house", "death")
        assert schema.main.positive == ("dead",)
        assert (schema.codes[0].admission, schema.codes[0].code, schema.codes[0].day) == ("case", "icd", "day")
        assert list(schema.features.numeric) == ["years", "score"]
        assert (schema.keep.admitted, schema.keep.discharged) == ("came", "left")
        records = build(schema)
        assert records.groups == (("years", 1), ("score", 1), ("sex", 3), ("codes", 5))
        # What the draft took from the data is not passed off as public.
        assert [line.split(":")[0] for line in records.fitted] == ["years", "years", "score", "sex", "codes"]


def test_a_draft_of_a_wide_table_loads_as_it_is(tmp_path: Path) -> None:
    rows = 240
    frame = pl.DataFrame(
        {
            "encounter_id": range(rows),
            "Hospital name": [f"h{n % 4}" for n in range(rows)],
            "mrn": [n % 200 for n in range(rows)],
            "lab.value": [n / 7 for n in range(rows)],
            "diag_1": [f"{n % 60}.{n % 3}" for n in range(rows)],
            "diag_2": [100 + n % 70 for n in range(rows)],
            "race": [["a", "b", None][n % 3] for n in range(rows)],
            "note": [f"free text {n}" for n in range(rows)],
            "readmitted": [["NO", "YES", "NO"][n % 3] for n in range(rows)],
        }
    )
    frame.write_csv(tmp_path / "wide.csv", separator=";")
    text = draft([tmp_path / "wide.csv"], tmp_path)
    assert "# Not used: note (text, 240 values)" in text
    tables = tomllib.loads(text)
    assert tables["table"] == {
        "path": "wide.csv",
        "separator": ";",
        "id": "encounter_id",
        "patient": "mrn",
        "client": "Hospital name",
        "label": "readmitted",
        "positive": ["YES"],
    }
    assert tables["features"]["codes"] == ["diag_1", "diag_2"]
    records = build(read_schema(written(tmp_path, tmp_path / "wide.csv")))
    assert [name for name, _ in records.groups] == ["lab.value", "race", "codes"]
    assert int(records.targets.sum()) == 80


def test_a_draft_says_what_it_cannot_guess(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,died\n1,0\n2,1\n")
    with pytest.raises(Mistake, match=r"no column of a.csv looks like the client .*there are: x, died"):
        draft([tmp_path / "a.csv"], tmp_path)
    (tmp_path / "b.csv").write_text("hospital,z\nA,0\nA,1\n")
    with pytest.raises(Mistake, match=r"looks like the label"):
        draft([tmp_path / "b.csv"], tmp_path)
    with pytest.raises(Mistake, match="do not look like admissions and their codes"):
        draft([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path)
    with pytest.raises(Mistake, match="3 tables are too many"):
        draft([tmp_path / "a.csv"] * 3, tmp_path)


def test_the_draft_of_the_example_works_as_it_is_and_says_what_it_drops(tmp_path: Path) -> None:
    path = written(tmp_path, EXAMPLE / "admissions.csv", EXAMPLE / "codes.csv")
    assert 'duplicates = "first"  # 1 rows repeat an id' in path.read_text()
    assert 'wrong_dates = "drop"  # 1 rows end before they begin' in path.read_text()
    assert len(build(read_schema(path)).targets) == 399
    path.write_text(path.read_text().replace("duplicates", "# duplicates"))
    with pytest.raises(Mistake, match=r"row 401 of admissions.csv: stay_id = 'A0017'"):
        build(read_schema(path))


def test_empty_lines_and_a_decimal_comma_are_seen(tmp_path: Path) -> None:
    rows = "".join(f"c{n};h{n % 2};{n}0,5;{n % 2};{n}.{n}\n\n" for n in range(1, 7))
    (tmp_path / "a.csv").write_text(f"\ncase;hospital;crea;died;icd\n{rows}")
    found = look(tmp_path / "a.csv")
    assert (found.rows, found.decimal, found.missing) == (6, ",", ())
    crea = found.columns[2]
    assert (crea.kind, crea.missing, crea.lowest, crea.highest) == ("number", 0, 10.5, 60.5)
    assert tomllib.loads(draft([tmp_path / "a.csv"], tmp_path))["table"]["decimal"] == ","
    assert build(read_schema(written(tmp_path, tmp_path / "a.csv"))).groups[0] == ("crea", 1)
    (tmp_path / "b.csv").write_text('x,y\n"1,200",0\n"3,400",1\n')  # thousands, as far as one can tell
    assert look(tmp_path / "b.csv").decimal == "."


def test_marks_for_missing_values_are_seen_and_written(tmp_path: Path) -> None:
    rows = "".join(f"c{n},h{n % 2},{'NaN' if n == 3 else n / 4},{'?' if n < 3 else 'F'},{n % 2}\n" for n in range(9))
    (tmp_path / "a.csv").write_text(f"case,hospital,crea,sex,died\n{rows}")
    found = look(tmp_path / "a.csv")
    assert found.missing == ("?", "NaN")
    assert [(c.kind, c.missing) for c in found.columns[2:4]] == [("number", 1), ("text", 3)]
    tables = tomllib.loads(draft([tmp_path / "a.csv"], tmp_path))
    assert tables["table"]["missing"] == ["?", "NaN"]
    assert tables["features"]["numeric"] == {"crea": {"missing": "median"}}
    records = build(read_schema(written(tmp_path, tmp_path / "a.csv")))
    assert records.groups == (("crea", 1), ("sex", 2))
    assert {rule.name: rule.changed for rule in records.counts if rule.changed} == {"no crea": 1, "sex unknown": 3}


WIDE = {"case": range(8), "hospital": [1, 2] * 4, "died": [0, 0, 0, 1] * 2}


@pytest.mark.parametrize("name", ["admitted", "discharged", "seen"])
def test_a_date_alone_is_named_as_not_used(tmp_path: Path, name: str) -> None:
    days = [f"2024-01-0{n + 1}" for n in range(8)]
    pl.DataFrame(WIDE | {name: days, "age": range(8)}).write_csv(tmp_path / "a.csv")
    text = draft([tmp_path / "a.csv"], tmp_path)
    assert f"# Not used: {name} (date, 8 values)\n" in text
    assert "keep" in tomllib.loads(text)
    assert tomllib.loads(text)["keep"] == {}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_few_numbers_may_be_codes_by_their_name(tmp_path: Path, kind: str) -> None:
    floats = {name: [250.83, 486.0, None, 250.83] * 2 for name in ("code", "icd9", "diag_1", "procalcitonin")}
    whole = {name: [250.0, 486.0, None, 250.0] * 2 for name in ("dx2", "diagnoses")}
    frame = pl.DataFrame(WIDE | floats | whole)
    frame.write_csv(tmp_path / "a.csv") if kind == "csv" else frame.write_parquet(tmp_path / "a.parquet")
    path = written(tmp_path, tmp_path / f"a.{kind}")
    features = tomllib.loads(path.read_text())["features"]
    assert features["codes"] == ["code", "icd9", "diag_1", "dx2"]
    assert list(features["numeric"]) == ["procalcitonin", "diagnoses"]
    assert {"250.83", "486" if kind == "parquet" else "486.0"} <= set(build(read_schema(path)).names)


def test_columns_that_hold_no_single_value_are_named_as_not_used(tmp_path: Path) -> None:
    odd = {
        "client_codes": [["a"], None, [], ["b"]] * 2,  # named like a client, and like codes
        "pair": [{"a": 1}] * 8,
        "scan": [b"\xff\x00"] * 8,
        "took": [datetime.timedelta(days=n) for n in range(8)],
        "at": [datetime.time(n) for n in range(8)],
    }
    pl.DataFrame(odd | WIDE | {"age": range(8)}).write_parquet(tmp_path / "a.parquet")
    found = {c.name: (c.kind, c.missing) for c in look(tmp_path / "a.parquet").columns}
    assert found["client_codes"] == ("list, not used", 2)
    assert found["pair"] == ("list, not used", 0)
    assert found["scan"] == found["took"] == ("bytes or times, not used", 0)
    path = written(tmp_path, tmp_path / "a.parquet")
    assert "# Not used: client_codes (list), pair (list), scan (bytes or times), took (bytes or times)" in (
        path.read_text()
    )
    schema = read_schema(path)
    assert schema.main.client == "hospital"
    assert build(schema).groups[0] == ("age", 1)


def test_a_table_of_words_has_a_header_or_none(tmp_path: Path) -> None:
    words = "".join(f"{'FM'[n % 2]},{'no yes'.split()[n % 3 == 0]},{'abc'[n % 3]}\n" for n in range(12))
    (tmp_path / "bare.csv").write_text(words)
    assert [column.name for column in look(tmp_path / "bare.csv").columns] == ["c1", "c2", "c3"]
    with pytest.raises(Mistake, match=r"bare.csv has no header, as its first row is F, yes, a: name its 3 columns"):
        open_table(Source(path=str(tmp_path / "bare.csv")))
    (tmp_path / "head.csv").write_text("sex,died,ward\n" + words)
    assert [column.name for column in look(tmp_path / "head.csv").columns] == ["sex", "died", "ward"]
    with pytest.raises(Mistake, match=r"row 1 of head.csv seems to be a header \(sex, died, ward\)"):
        open_table(Source(path=str(tmp_path / "head.csv"), columns=("gender", "dead", "house")))
    twice = "sex,died,age\nF,no,40\nM,yes,50\nsex,died,age\nF,no,60\n"  # two files that were put together
    (tmp_path / "twice.csv").write_text(twice)
    assert [column.name for column in look(tmp_path / "twice.csv").columns] == ["sex", "died", "age"]


def test_a_draft_of_a_file_from_windows(tmp_path: Path) -> None:
    rows = "".join(f"c{n};{'Köln Bonn'.split()[n % 2]};{n},5;{n % 2}\n" for n in range(12))
    (tmp_path / "a.csv").write_bytes(f"case;hospital;größe;died\n{rows}".encode("cp1252"))
    text = draft([tmp_path / "a.csv"], tmp_path)
    assert 'encoding = "cp1252"  # guessed, as it is not UTF-8\n' in text
    records = build(read_schema(written(tmp_path, tmp_path / "a.csv")))
    assert (set(records.clients.tolist()), records.names) == ({"Köln", "Bonn"}, ("größe",))
