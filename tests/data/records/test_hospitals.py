"""Four made-up hospitals that each wrote their records in their own way, none with a header."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hush.data.records import Records, build, fingerprint, read_schema
from hush.data.records.draft import draft
from hush.errors import Mistake

FILES = {
    "basel.data": "63.0,1.0,4.0,233.0,?,2\n41.0,0.0,2.0,204.0,0.0,0\n57.0,1.0,4.0,?,1.0,1\n38.0,1.0,1.0,175.0,0.0,0\n",
    "lyon.csv": "55,1,3,210,-9,0\r\n62,0,4,-9,1,3\r\n\r\n49,1,2,188,0,0\r\n",
    "turin.txt": "\ufeff44;1;4;201,5;0;1\n52;0;3;230,25;?;0\n60;1;1;250;1;0\n",
    "wien.TSV": "66.0\t0.0\t4.0\t-9.0\t-9.0\t4.0\n58.0\t1.0\t4.0\t240.0\t0.0\t0.0\n51.0\t1.0\t2.0\t199.0\t1.0\t0.0\n",
}
TABLE = """\
[table]
path = "files"
columns = ["age", "sex", "pain", "chol", "sugar", "disease"]
client = "file"
label = "disease"
positive = [1, 2, 3, 4]
missing = ["?", -9]
decimal = { "turin.txt" = "," }
"""
REST = """
[features]
numeric.age = { min = 20, max = 90 }
numeric.chol = { min = 100, max = 500, missing = 240 }
categorical.sex = [0, 1]
categorical.pain = [1, 2, 3, 4]
categorical.sugar = [0, 1, "Unknown"]
"""

Hospitals = Callable[..., Records]


@pytest.fixture
def hospitals(tmp_path: Path) -> Hospitals:
    """Build the four; files by name may be others or more, and `table` stands for the first part of the schema."""

    def make(table: str = TABLE, rest: str = REST, **files: bytes | str | None) -> Records:
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        renamed = {name.replace("_", ".", 1): text for name, text in files.items()}
        for name, text in {**FILES, **renamed}.items():
            if text is None:
                (folder / name).unlink(missing_ok=True)
            else:
                (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (tmp_path / "schema.toml").write_text(table + rest)
        return build(read_schema(tmp_path / "schema.toml"))

    return make


def column(records: Records, name: str) -> list[float]:
    return records.inputs[:][:, records.names.index(name)].tolist()


def test_four_files_without_headers_are_one_table(hospitals: Hospitals) -> None:
    records = hospitals()
    assert records.clients.tolist() == ["basel"] * 4 + ["lyon"] * 3 + ["turin"] * 3 + ["wien"] * 3
    assert records.targets.tolist() == [1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0]
    assert column(records, "sex=1") == [1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1]  # 1.0 here, 1 there
    assert column(records, "sugar=Unknown") == [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0]  # ? and -9 and -9.0
    chol = [233, 204, 240, 175, 210, 240, 188, 201.5, 230.25, 250, 240, 240, 199]
    assert column(records, "chol") == pytest.approx([(value - 100) / 400 for value in chol])
    assert records.fitted == ()
    assert {rule.name: rule.changed for rule in records.counts if rule.changed} == {"no chol": 3, "sugar unknown": 4}


@pytest.mark.parametrize("path", ["files", "files/", "./files", "files/*", "files/[!x]*"])
def test_a_folder_with_or_without_a_slash_and_a_pattern(hospitals: Hospitals, path: str) -> None:
    assert len(hospitals(TABLE.replace('"files"', f'"{path}"')).targets) == 13


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("lyon_csv", "55,1,3,210,0,0\n62,X,4,200,1,3\n", r"row 2 of lyon.csv: sex = 'X', which is not in"),
        ("lyon_csv", "55,1,3,210,0,0\n62,,4,200,1,3\n", r"row 2 of lyon.csv: sex is missing, fill it in"),
        ("wien_TSV", "66.0\t0.0\t4.0\told\t1.0\t4.0\n", r"row 1 of wien.TSV: chol = 'old', is no .*missing = \{ "),
        ("wien_TSV", "66\t0\t4\t5\t1\t4\n", r"row 1 of wien.TSV: chol = '5', which is not in 100.*'not known'"),
        ("lyon_csv", "55,1,3,210,0,0\n62,1,4,200,1\n", r"row 2 of lyon.csv has 5 fields and columns 6: correct"),
        ("lyon_csv", "55,1,3,210,0,0\n62,1,4,2,0,1,3\n", r"row 2 of lyon.csv has 7 fields and columns 6: quote what"),
        ("lyon_csv", "55 1 3 210 0 0\n62 1 4 200 1 0\n", r"row 1 of lyon.csv has 1 fields.*separator = "),
        ("lyon_csv", "", r"lyon.csv is empty"),
        ("lyon_csv", "\n\n", r"lyon.csv is empty"),
        ("lyon_csv", "55,1,3,210,0,?\n", r"row 1 of lyon.csv: disease is missing \('\?'\), and every row needs"),
        ("turin_txt", "44;1;4;1.200,5;0;1\n", r"row 1 of turin.txt: chol = '1.200,5', is no .*without a point"),
        ("lyon_csv", "55;1;3;210,5;0;0\n", r"row 1 of lyon.csv: chol = '210,5', is no .*say decimal = \{ \"lyon.csv"),
        ("lyon_csv", "Age,Sex,CP,Chol,FBS,Num\n55,1,3,210,0,0\n", r"row 1 of lyon.csv seems to be a header \(Age, Sex"),
        ("lyon_xls", b"\xd0\xcf\x11\xe0 and more", r"lyon.xls is a workbook of the old form"),
        ("nice_xls", b"\xd0\xcf\x11\xe0 and more", r"nice.xls is a workbook of the old form .xls: save it as .xlsx"),
        ("nice_gz", b"\x1f\x8b and more", r"nice.gz is compressed by gzip: unpack it"),
        ("nice_db", b"SQLite format 3\0", r"nice.db is an SQLite database: name it with database"),
        ("nice_csv", "55,1,3,Köln,0,0\n".encode("latin-1"), r"line 1 of nice.csv has the byte 0xf6.*'cp1252'"),
        ("basel_csv", "55,1,3,210,0,0\n", r"basel.csv and basel.data have one name but for its end"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_and_row(
    hospitals: Hospitals, file: str, text: bytes | str, words: str
) -> None:
    others: dict[str, bytes | str | None] = {"lyon_csv": None} if file == "lyon_xls" else {}
    with pytest.raises(Mistake, match=words):
        hospitals(**{**others, file: text})


def test_a_header_with_the_names_of_the_schema_is_skipped(hospitals: Hospitals) -> None:
    headed = "Age,sex,PAIN,chol,sugar, disease\n55,1,3,210,-9,0\n62,0,4,-9,1,3\n49,1,2,188,0,0\n"
    assert hospitals(lyon_csv=headed).targets.tolist() == hospitals().targets.tolist()
    with pytest.raises(Mistake, match=r"row 2 of lyon.csv: sex = 'X'"):  # the header is no row
        hospitals(lyon_csv=headed.replace("62,0", "62,X"))


def test_files_without_a_header_and_without_columns(hospitals: Hospitals) -> None:
    columns = next(line for line in TABLE.splitlines() if line.startswith("columns"))
    with pytest.raises(
        Mistake, match=r"basel.data has no header, as its first row is 63.0, 1.0, 4.0, 233.0, \.\.\.: .* 6"
    ):
        hospitals(TABLE.replace(columns, ""))
    texts = "a,b,c,d,e,e\nm,n,o,p,q,r\n"
    with pytest.raises(Mistake, match=r"basel.data has two columns 'e': rename one, or name all with columns"):
        hospitals(TABLE.replace(columns, ""), basel_data=texts)


def test_a_given_separator_that_cuts_nothing(hospitals: Hospitals) -> None:
    with pytest.raises(Mistake, match=r"row 1 of basel.data has 1 fields by the separator ';': say separator = ','"):
        hospitals(TABLE + 'separator = ";"\n')


def test_other_encodings(hospitals: Hospitals) -> None:
    rest = REST.replace("[0, 1]\ncategorical.pain", '["männlich", "weiblich", 0, 1]\ncategorical.pain')
    text = "55,männlich,3,210,-9,0\n62,weiblich,4,-9,1,3\n49,1,2,188,0,0\n"
    for code in ("utf-8", "cp1252", "utf-16"):
        records = hospitals(TABLE + 'encoding = "cp1252"\n', rest, lyon_csv=text.encode(code))
        assert column(records, "sex=männlich") == [0] * 4 + [1] + [0] * 8
    with pytest.raises(Mistake, match=r"encoding = 'klingon' is not known"):
        hospitals(TABLE + 'encoding = "klingon"\n')


def test_missing_marks_may_be_for_one_column(hospitals: Hospitals) -> None:
    marks = 'missing = { "*" = ["?"], chol = [-9], sugar = ["-9.0"] }'
    table = TABLE.replace('missing = ["?", -9]', marks)
    assert hospitals(table).targets.tolist() == hospitals().targets.tolist()
    odd = FILES["lyon.csv"].replace("49,1", "49,-9")
    with pytest.raises(Mistake, match=r"row 3 of lyon.csv: sex = '-9', which is not in categorical.sex = 0, 1"):
        hospitals(table, lyon_csv=odd)
    with pytest.raises(Mistake, match=r"missing has 'cholesterol', which is not a column of files: name one of age"):
        hospitals(table.replace("chol =", "cholesterol ="))


def test_labels_that_are_no_label(hospitals: Hospitals) -> None:
    undeclared = TABLE.replace('missing = ["?", -9]', 'missing = ["?"]')
    odd = {"lyon_csv": "55,1,3,210,0,-9\n62,0,4,200,1,3\n", "wien_TSV": "66\t0\t4\t201\t1\t4\n"}
    with pytest.raises(
        Mistake, match=r"row 1 of lyon.csv: disease = '-9', which would count as 0, as it is not positive"
    ):
        hospitals(undeclared, **odd)
    three = {"lyon_csv": "55,1,3,210,0,maybe\n62,0,4,200,1,3\n"}
    counted = [rule for rule in hospitals(**three).counts if rule.name == "disease not positive"]
    assert [(rule.changed, rule.why) for rule in counted] == [(7, "disease is 0, maybe: all are taken as 0")]
    with pytest.raises(Mistake, match=r"row 1 of lyon.csv: disease = 'maybe', which is neither positive nor negative"):
        hospitals(TABLE + "negative = [0]\n", **three)
    with pytest.raises(Mistake, match=r"row 1 of lyon.csv: disease = 'Yes', which is positive but for its capitals"):
        hospitals(TABLE.replace("positive = [1,", 'positive = ["yes", 1,'), lyon_csv="55,1,3,210,0,Yes\n")
    with pytest.raises(Mistake, match=r"'0' is positive and negative: take it out of one"):
        hospitals(TABLE.replace("positive = [1,", 'positive = ["0.0", 1,') + "negative = [0]\n")


def test_hospitals_number_their_own_rows(hospitals: Hospitals) -> None:
    """An id that two hospitals have is no repeat: to drop it would drop another hospital's patient."""
    numbered = TABLE + 'id = "age"\n'
    assert len(hospitals(numbered, lyon_csv=FILES["lyon.csv"].replace("55,", "63,")).targets) == 13
    with pytest.raises(Mistake, match=r"row 2 of lyon.csv: age = '55', an admission that came before"):
        hospitals(numbered, lyon_csv=FILES["lyon.csv"].replace("62,", "55,"))
    by_column = numbered.replace('client = "file"', 'client = "sex"')
    with pytest.raises(Mistake, match=r"row 2 of lyon.csv: age = '55', which another client has too: make their ids"):
        hospitals(by_column, lyon_csv=FILES["lyon.csv"].replace("62,", "55,"))


def test_a_hospital_without_rows_or_of_the_same_name(hospitals: Hospitals, tmp_path: Path) -> None:
    header = "age,sex,pain,chol,sugar,disease\n"
    with pytest.raises(Mistake, match=r"lyon.csv has no rows, and each file is a client"):
        hospitals(lyon_csv=header)
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hearts.csv").write_text(FILES["lyon.csv"])
    nested = TABLE.replace('"files"', '"*th/hearts.csv"')
    with pytest.raises(Mistake, match=r"client = 'file', and two files are called 'hearts.csv'.*client = 'folder'"):
        hospitals(nested)
    records = hospitals(nested.replace('client = "file"', 'client = "folder"'))
    assert records.clients.tolist() == ["north"] * 3 + ["south"] * 3
    (tmp_path / "south" / "hearts.csv").write_text(FILES["lyon.csv"].replace("62,0", "62,X"))
    with pytest.raises(Mistake, match=r"row 2 of south/hearts.csv: sex = 'X'"):
        hospitals(nested.replace('client = "file"', 'client = "folder"'))


def test_a_client_that_is_no_column_and_a_file_that_is_no_table(hospitals: Hospitals) -> None:
    with pytest.raises(
        Mistake, match=r"client = 'house' is not a column of files.*or say 'file' if each file is of one"
    ):
        hospitals(TABLE.replace('client = "file"', 'client = "house"'))
    with pytest.raises(Mistake, match=r"row 1 of README.txt has 1 fields .* by a pattern, if it is no table"):
        hospitals(README_txt="Read me: this is no table\n")


def test_a_column_that_is_called_file_is_a_column(hospitals: Hospitals) -> None:
    records = hospitals(TABLE.replace('"sex"', '"file"'), REST.replace("categorical.sex = [0, 1]\n", ""))
    assert sorted(set(records.clients.tolist())) == ["0", "1"]  # and 1.0 is the client 1


def test_a_draft_of_files_without_headers_works_as_it_is(hospitals: Hospitals, tmp_path: Path) -> None:
    hospitals()
    with pytest.raises(Mistake, match=r"no column of files looks like the label.*c1, c2.*--label COLUMN"):
        draft([tmp_path / "files"], tmp_path)
    with pytest.raises(Mistake, match=r"--label c7 is not a column of files: name one of c1, c2"):
        draft([tmp_path / "files"], tmp_path, "c7")
    with pytest.raises(Mistake, match=r"--label c1 has 13 different values"):
        draft([tmp_path / "files"], tmp_path, "c1")
    text = draft([tmp_path / "files"], tmp_path, "c6")
    for line in (
        'columns = ["c1", "c2", "c3", "c4", "c5", "c6"]  # no file has names for them: give better ones',
        'missing = ["?", "-9"]  # -9: as no other number is below 0; take it out if it is one',
        'decimal = { "turin.txt" = "," }',
        'client = "file"  # the name of each file, without its end',
    ):
        assert line in text.splitlines()
    (tmp_path / "draft.toml").write_text(text)
    records = build(read_schema(tmp_path / "draft.toml"))
    assert records.targets.tolist() == [2, 0, 1, 0, 0, 3, 0, 1, 0, 0, 4, 0, 0]
    assert sorted(set(records.clients.tolist())) == ["basel", "lyon", "turin", "wien"]
    # One file with a header gives the names of all.
    header = "age,sex,pain,chol,sugar,disease\n"
    (tmp_path / "files" / "lyon.csv").write_text(header + FILES["lyon.csv"].replace("\r", ""))
    text = draft([tmp_path / "files"], tmp_path, "disease", "sex")
    assert 'columns = ["age", "sex", "pain", "chol", "sugar", "disease"]\n' in text
    (tmp_path / "draft.toml").write_text(text)
    assert len(build(read_schema(tmp_path / "draft.toml")).targets) == 13


def remedy(hospitals: Hospitals, key: str, **wrong: str) -> str:
    """What the sentence says the line of the schema should be."""
    with pytest.raises(Mistake) as found:
        hospitals(**wrong)
    return re.findall(rf"say ({key} = \{{.*?\}}) if", str(found.value))[0]


@pytest.mark.parametrize(
    ("key", "now", "text", "values"),
    [
        ("missing", 'missing = ["?", -9]', "55,1,3,unmeasured,-9,0\n62,0,4,?,1,3\n", [240, 240]),
        ("missing", 'missing = ["?", -9]', "55,1,3,9999,-9,0\n62,0,4,180,1,3\n", [240, 180]),
        ("decimal", 'decimal = { "turin.txt" = "," }', "55;1;3;180,5;-9;0\n62;0;4;?;1;3\n", [180.5, 240]),
    ],
)
def test_a_remedy_taken_to_the_letter_changes_what_it_is_about_alone(
    hospitals: Hospitals, key: str, now: str, text: str, values: list[float]
) -> None:
    """What was said of other columns and other files before is still said."""
    before = hospitals()
    after = hospitals(TABLE.replace(now, remedy(hospitals, key, lyon_csv=text)), lyon_csv=text)
    chol = [column(records, "chol") for records in (before, after)]
    assert chol[1][4:6] == pytest.approx([(value - 100) / 400 for value in values])
    assert (chol[1][:4], chol[1][6:]) == (chol[0][:4], chol[0][7:])
    assert column(after, "sugar=Unknown")[:5] == [1, 0, 0, 0, 1]


def test_the_records_in_the_cache_are_of_these_files_under_these_names(hospitals: Hospitals, tmp_path: Path) -> None:
    before = hospitals().digest
    (tmp_path / "files" / "basel.data").rename(tmp_path / "files" / "aarau.data")
    schema = read_schema(tmp_path / "schema.toml")
    assert fingerprint(schema) != before
    (tmp_path / "files" / "aarau.data").rename(tmp_path / "files" / "basel.data")
    assert fingerprint(schema) == before
