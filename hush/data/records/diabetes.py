"""`diabetes130`: 101,766 real hospital stays of patients with diabetes, as a table with virtual hospitals.

UCI's "Diabetes 130-US Hospitals for Years 1999-2008" (Strack et al. 2014) does not name the hospitals, so virtual
ones of nearly equal size are drawn from a public seed: first one patient who died for each, then all other patients in
random order. All stays of a patient are in one hospital. A death is a discharge with disposition 11, 19, 20 or 21.

The features are of the whole stay. Left out: disposition and readmission (they reveal the label), numbers of stay and
patient, weight (97 % missing), payer, specialty and source of the admission. Everything that shapes the features is
public: bounds and levels come from the description of the set, the codes from the books of ICD-9-CM.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from hush.data import files
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

Array = np.ndarray[Any, Any]

FILE = "diabetic_data.csv"
HOSPITALS = 100
VERSION = 1  # another deal of patients, or another table, is another set
DEATHS = ("11", "19", "20", "21")  # expired: in hospital, at home, in a facility, place unknown
_TYPES = {"1": "Emergency", "2": "Urgent", "3": "Elective", "4": "Newborn", "7": "Trauma Center"}
_LEFT_OUT = (
    *("weight", "payer_code", "medical_specialty", "admission_source_id"),
    *("admission_type_id", "discharge_disposition_id", "readmitted"),
)


def write(
    contents: Mapping[str, bytes], folder: Path, say: Callable[[str], None] = print, count: int = HOSPITALS
) -> Path:
    """Put the table, its codes' vocabulary and its schema in the folder, and return the path of the schema.

    What is there already from the same content stays, if it is whole. Each file appears whole or not at all, the
    schema last, with the digests of content and table on its first line.
    """
    schema, table = folder / "schema.toml", folder / "stays.parquet"
    content = contents[FILE]
    words = "".join(f"{code}\n" for code in icd9())
    with contextlib.suppress(OSError, UnicodeDecodeError):
        there = schema.read_text(), (folder / "icd9.txt").read_text()
        if there == (_schema(content, count, table.read_bytes()), words):
            return schema
    say(f"diabetes130: dealing the patients to {count} virtual hospitals")
    buffer = io.BytesIO()
    stays(content, count).write_parquet(buffer)
    schema.unlink(missing_ok=True)
    files.write(table, buffer.getvalue())
    files.write(folder / "icd9.txt", words.encode())
    files.write(schema, _schema(content, count, buffer.getvalue()).encode())
    return schema


def _schema(content: bytes, count: int, table: bytes) -> str:
    known, made = (hashlib.sha256(data).hexdigest() for data in (content, table))
    text = resources("hush.data.records").joinpath("diabetes130.toml").read_text()
    return f"# {FILE} {known}, {count} virtual hospitals, version {VERSION}, stays.parquet {made}\n{text}"


def stays(content: bytes, count: int = HOSPITALS, seed: int = 0) -> pl.DataFrame:
    """The CSV file with an age in years, the type of admission in words, `died`, and a virtual `hospital`."""
    table = pl.read_csv(content, infer_schema=False)
    died = table["discharge_disposition_id"].is_in(DEATHS)
    age = table["age"].str.extract(r"^\[(\d+)-\d+\)$").cast(pl.Int64) + 5  # the middle of ten years
    hospital = _hospitals(table["patient_nbr"].to_numpy().astype(np.str_), died.to_numpy(), count, seed)
    return table.drop(_LEFT_OUT).with_columns(
        age=age,
        admission_type=table["admission_type_id"].replace_strict(_TYPES, default="Unknown"),
        died=died.cast(pl.UInt8),
        hospital=pl.Series([f"V{number:03d}" for number in range(1, count + 1)]).gather(hospital),
    )


def icd9() -> list[str]:
    """The categories of ICD-9-CM (diseases, V and E codes) as the set writes them, and all forms of diabetes (250)."""
    diabetes = {f"250.{form}{kind}".rstrip("0").rstrip(".") for form in range(10) for kind in range(4)}
    plain = [str(number) for number in range(1, 1000)]
    return sorted({*plain, *diabetes, *(f"V{n:02d}" for n in range(1, 92)), *(f"E{n:03d}" for n in range(1000))})


def _hospitals(patient: Array, died: Array, count: int, seed: int) -> Array:
    """The virtual hospital of each stay."""
    _, number, sizes = np.unique(patient, return_inverse=True, return_counts=True)
    rng = PublicSeed(seed).generator("diabetes130", "hospitals")
    dead = np.bincount(number, died, minlength=len(sizes)) > 0
    first = rng.permutation(np.flatnonzero(dead))[:count]
    if len(first) < count:
        raise Mistake(f"{count} virtual hospitals need a patient who died each, but there are {len(first)}: take fewer")
    place = np.full(len(sizes), -1)
    place[first] = np.arange(count)
    rest = rng.permutation(np.flatnonzero(place < 0))
    before = np.cumsum(sizes[rest]) - sizes[rest]
    place[rest] = before * count // max(int(sizes[rest].sum()), 1)
    found: Array = place[number]
    return found
