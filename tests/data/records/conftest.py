"""A hospital's own export, with its own column names: five admissions, two hospitals."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hush.data.records import Records, build, read_schema

ADMISSIONS = """\
case,house,years,sex,came,left,score,how
c1,North,40,F,2024-01-01,2024-01-09,5,dead
c2,North,50,M,2024-01-02,2024-01-05,10,alive
c3,South,60,F,2024-02-01,2024-02-04,20,alive
c4,South,70,M,2024-02-03,2024-02-20,30,dead
c5,South,80,F,2024-03-01,2024-03-02,40,alive
"""
CODES = """\
case,day,icd
c1,1,250.83
c1,1,0093
c1,2,486
c2,1,250.830
c3,1,486
c3,1,250.83
c4,1,V58
"""
MAIN = """\
[admissions]
path = "admissions.csv"
id = "case"
client = "house"
label = "how"
positive = ["dead"]
"""
REST = """
[codes]
path = "codes.csv"
admission = "case"
code = "icd"
day = "day"

[features]
numeric = { years = { min = 0, max = 100 } }
categorical = { sex = ["F", "M"] }
"""
SCHEMA = MAIN + REST

Export = Callable[..., Records]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Build the export; each file may be given otherwise, and `keep` is added to the schema."""

    def make(
        keep: str = "", admissions: str = ADMISSIONS, codes: str = CODES, schema: str = SCHEMA, **more: str
    ) -> Records:
        (tmp_path / "admissions.csv").write_text(admissions)
        (tmp_path / "codes.csv").write_text(codes)
        for name, text in more.items():
            (tmp_path / f"{name}.txt").write_text(text)
        (tmp_path / "schema.toml").write_text(f"{schema}\n[keep]\n{keep}\n")
        return build(read_schema(tmp_path / "schema.toml"))

    return make
