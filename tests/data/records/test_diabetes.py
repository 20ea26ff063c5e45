"""The loader of diabetes130 on a made-up file with the columns of the real one."""

import dataclasses
import hashlib
import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hush.data import store
from hush.data.fetch import obtain, ready
from hush.data.known import DIABETES, File, Known
from hush.data.records import build, diabetes, read_schema, split
from hush.errors import Mistake

DRUGS = (
    "metformin repaglinide nateglinide chlorpropamide glimepiride acetohexamide glipizide glyburide tolbutamide "
    "pioglitazone rosiglitazone acarbose miglitol troglitazone tolazamide examide citoglipton insulin "
    "glyburide-metformin glipizide-metformin glimepiride-pioglitazone metformin-rosiglitazone metformin-pioglitazone"
).split()
COLUMNS = (
    "encounter_id patient_nbr race gender age weight admission_type_id discharge_disposition_id admission_source_id "
    "time_in_hospital payer_code medical_specialty num_lab_procedures num_procedures num_medications "
    "number_outpatient number_emergency number_inpatient diag_1 diag_2 diag_3 number_diagnoses max_glu_serum A1Cresult"
).split()
HEADER = [*COLUMNS, *DRUGS, "change", "diabetesMed", "readmitted"]


def row(number: int, patient: int, **given: str) -> dict[str, str]:
    plain = dict.fromkeys(HEADER, "No") | {
        "encounter_id": str(number),
        "patient_nbr": str(patient),
        "race": "Caucasian",
        "gender": "Female",
        "age": "[70-80)",
        "weight": "?",
        "admission_type_id": "1",
        "discharge_disposition_id": "1",
        "admission_source_id": "7",
        "diag_1": "428",
        "diag_2": "250.83",
        "diag_3": "V45",
        "max_glu_serum": "None",
        "A1Cresult": ">7",
        "diabetesMed": "Yes",
        "readmitted": "NO",
    }
    plain |= {name: "1" for name in HEADER if name.startswith(("num", "time"))}
    return plain | given


def csv(rows: list[dict[str, str]]) -> bytes:
    return "\n".join([",".join(HEADER), *(",".join(one[name] for name in HEADER) for one in rows)]).encode() + b"\n"


@pytest.fixture
def many() -> bytes:
    """400 stays of 200 patients; every tenth patient died in the last of two stays."""
    ends = {p: "20" if p % 20 else "11" for p in range(0, 200, 10)}
    return csv([row(k, k // 2, discharge_disposition_id=ends.get(k // 2, "1") if k % 2 else "3") for k in range(400)])


def quiet(line: str) -> None:
    pass


def test_hospitals_are_equal_keep_patients_together_and_have_a_death(many: bytes) -> None:
    table = diabetes.stays(many, count=10)
    sizes = table.group_by("hospital").len()["len"]
    assert len(sizes) == 10
    assert sizes.min() >= 38
    assert sizes.max() <= 42
    assert table.group_by("patient_nbr").agg(pl.col("hospital").n_unique())["hospital"].max() == 1
    assert table.group_by("hospital").agg(pl.col("died").sum())["died"].min() >= 1
    assert table["died"].sum() == 20
    assert table.equals(diabetes.stays(many, count=10))
    assert not table.equals(diabetes.stays(many, count=10, seed=1))


def test_each_hospital_gets_one_of_few_deaths(many: bytes) -> None:
    table = diabetes.stays(many, count=20)
    assert table.group_by("hospital").agg(pl.col("died").sum())["died"].to_list() == [1] * 20
    with pytest.raises(
        Mistake, match="21 virtual hospitals need a patient who died each, but there are 20: take fewer"
    ):
        diabetes.stays(many, count=21)


def test_what_becomes_of_the_columns(tmp_path: Path) -> None:
    rows = [
        row(1, 1, discharge_disposition_id="11", age="[0-10)", race="?", insulin="Up"),
        row(2, 2, discharge_disposition_id="19", gender="Unknown/Invalid", admission_type_id="7"),
        row(3, 3, discharge_disposition_id="13", diag_3="?", num_lab_procedures="132"),
        row(4, 4, discharge_disposition_id="21", diag_1="365.44", diag_2="428", admission_type_id="6"),
    ]
    found = build(read_schema(diabetes.write({diabetes.FILE: csv(rows)}, tmp_path / "set", quiet, count=2)))
    assert found.targets.tolist() == [1, 1, 0, 1]
    assert found.fitted == ()
    assert found.patients is not None
    dense = found.inputs[:]
    assert len(found.names) == dense.shape[1] == 2257
    by = dict(zip(found.groups, np.cumsum([0, *(count for _, count in found.groups)]), strict=False))
    first = {name: int(start) for (name, _), start in by.items()}

    def levels(name: str, row: int) -> list[int]:
        count = dict(found.groups)[name]
        return dense[row, first[name] : first[name] + count].int().tolist()

    assert dense[0, first["age"]] == pytest.approx(0.05)
    assert dense[1, first["age"]] == pytest.approx(0.75)
    assert dense[2, first["num_lab_procedures"]] == 1
    assert levels("race", 0) == [0, 0, 0, 0, 0, 1]
    assert levels("gender", 1) == [0, 0, 1]
    assert levels("admission_type", 1) == [0, 0, 0, 0, 1, 0]
    assert levels("admission_type", 3) == [0, 0, 0, 0, 0, 1]
    assert levels("insulin", 0) == [0, 0, 1, 0]
    assert levels("A1Cresult", 0) == [0, 0, 1, 0]
    words = sorted(diabetes.icd9())
    codes = [{words[at] for at in dense[k, first["codes"] :].nonzero()[:, 0].tolist()} for k in range(4)]
    assert codes == [{"428", "250.83", "V45"}, {"428", "250.83", "V45"}, {"428", "250.83"}, {"428", "V45"}]
    counts = {rule.name: (rule.dropped, rule.changed) for rule in found.counts}
    assert counts["unknown codes"] == (1, 0)
    assert counts["num_lab_procedures outside"] == (0, 1)
    assert counts["race unknown"] == (0, 1)


def test_nothing_that_tells_the_label_is_a_feature(tmp_path: Path, many: bytes) -> None:
    schema = diabetes.write({diabetes.FILE: many}, tmp_path / "set", quiet, count=5)
    found = build(read_schema(schema))
    sources = {name for name, _ in found.groups}
    assert sources.isdisjoint({"discharge_disposition_id", "readmitted", "encounter_id", "patient_nbr", "hospital"})
    assert set(DRUGS) < sources
    train, test = split(found)
    patient = np.arange(400) // 2
    assert set(patient[train.numpy()]).isdisjoint(patient[test.numpy()])
    # A label that is swapped changes no feature.
    swapped = many.replace(b",11,7,", b",3,7,", 5)
    assert swapped != many
    other = build(read_schema(diabetes.write({diabetes.FILE: swapped}, tmp_path / "other", quiet, count=5)))
    assert other.targets.sum() < found.targets.sum()
    assert (other.inputs[:] == found.inputs[:]).all()


def test_the_table_is_made_once_for_one_content(tmp_path: Path, many: bytes) -> None:
    lines: list[str] = []
    schema = diabetes.write({diabetes.FILE: many}, tmp_path / "set", lines.append, count=5)
    before = schema.read_bytes()
    assert diabetes.write({diabetes.FILE: many}, tmp_path / "set", lines.append, count=5) == schema
    assert len(lines) == 1
    diabetes.write({diabetes.FILE: many}, tmp_path / "set", lines.append, count=4)
    assert len(lines) == 2
    assert schema.read_bytes() != before
    assert len(set(build(read_schema(schema)).clients)) == 4


@pytest.mark.parametrize("name", ["stays.parquet", "icd9.txt", "schema.toml"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, many: bytes, name: str, damage: str) -> None:
    schema = diabetes.write({diabetes.FILE: many}, tmp_path / "set", quiet, count=5)
    path = schema.parent / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    if damage == "gone":
        path.unlink()
    diabetes.write({diabetes.FILE: many}, tmp_path / "set", quiet, count=5)
    assert path.read_bytes() == whole


def test_the_vocabulary_is_that_of_the_books() -> None:
    words = diabetes.icd9()
    assert len(words) == len(set(words)) == 999 + 91 + 1000 + 39
    assert {"1", "999", "V01", "V91", "E000", "E999", "250", "250.01", "250.1", "250.93"} <= set(words)
    assert "250.00" not in words


@pytest.fixture
def archive(many: bytes) -> bytes:
    return zipped({"folder/diabetic_data.csv": many, "folder/notes.txt": b"-"})


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def wanted(many: bytes) -> Known:
    """The known set with the made-up content."""
    file = File(diabetes.FILE, len(many), hashlib.sha256(many).hexdigest())
    return dataclasses.replace(DIABETES, files=(file,), archives=("http://127.0.0.1:9/x.zip",))


@pytest.mark.parametrize("nested", [False, True])
def test_it_is_read_from_a_folder_with_the_archive(
    archive: bytes, wanted: Known, many: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "any.zip").write_bytes(zipped({"a.zip": zipped({"b": b"-"}), "in.zip": archive}) if nested else archive)
    got = obtain(wanted, folder, quiet)
    assert got.contents == {diabetes.FILE: many}
    assert (store.cache() / "diabetes130" / diabetes.FILE).read_bytes() == many
    assert obtain(wanted, say=quiet).source == "cache"
    monkeypatch.setenv("HUSH_DATA", str(folder))
    assert ready(wanted)
    assert obtain(wanted, say=quiet).source == "HUSH_DATA"


def test_a_damaged_or_wrong_archive_is_refused(archive: bytes, wanted: Known, many: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    place = folder / "any.zip"
    place.write_bytes(zipped({"diabetic_data.csv": many.replace(b"Female", b"Male", 1)}))
    with pytest.raises(Mistake, match=r"any.zip.*(differs|cut off)"):
        obtain(wanted, folder, quiet)
    place.write_bytes(zipped({"other.csv": many}))
    with pytest.raises(Mistake, match=r"does not hold the files.*plain as .gz or in its .zip"):
        obtain(wanted, folder, quiet)
    spoilt = bytearray(archive)
    spoilt[200] ^= 255  # in the compressed bytes; the list of members at the end is whole
    place.write_bytes(spoilt)
    with pytest.raises(Mistake, match=r"any.zip (is not a whole zip|is not the known|is cut off)"):
        obtain(wanted, folder, quiet)
    place.write_bytes(zipped({"diabetic_data.csv": many + b"x" * 10**7}))
    with pytest.raises(Mistake, match="differs"):
        obtain(wanted, folder, quiet)


def test_a_small_archive_cannot_fill_the_memory(wanted: Known, many: bytes, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "any.zip").write_bytes(zipped({"diabetic_data.csv": many + bytes(60_000_000)}))
    tracemalloc.start()
    with pytest.raises(Mistake, match="differs"):
        obtain(wanted, tmp_path / "mine", quiet)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_the_archive_is_downloaded(
    archive: bytes, wanted: Known, many: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set.zip").write_bytes(archive)
    url = (tmp_path / "set.zip").as_uri()
    got = obtain(dataclasses.replace(wanted, archives=(*wanted.archives, url)), say=quiet)
    assert got.contents == {diabetes.FILE: many}
    assert got.source == f"official download {url}"


def test_the_known_file_is_that_of_the_archive() -> None:
    (file,) = DIABETES.files
    assert (file.name, file.size) == (diabetes.FILE, 19_159_383)
    assert "1,652" in DIABETES.about
