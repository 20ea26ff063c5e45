from pathlib import Path

import pytest
from pydantic import ValidationError

from hush.data.records import read_schema
from hush.errors import Mistake

WIDE = """
[table]
path = "mine.csv"
client = "site"
label = "died"
[features]
numeric = { age = {} }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "schema.toml"
    path.write_text(text)
    return path


def test_paths_are_read_from_the_folder_of_the_schema(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE + 'codes = ["dx"]\nvocabulary = "list.txt"\n')
    schema = read_schema(path)
    assert schema.main.path == str(tmp_path / "mine.csv")
    assert schema.features.vocabulary == str(tmp_path / "list.txt")
    assert read_schema(path, tmp_path / "else").main.path == str(tmp_path / "else" / "mine.csv")


def test_a_schema_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        read_schema(written(tmp_path, WIDE)).main.label = "other"


def test_one_codes_table_or_several(tmp_path: Path) -> None:
    base = WIDE.replace("[table]", '[admissions]\nid = "n"')
    one = base + '[codes]\npath = "c.csv"\nadmission = "n"\ncode = "icd"\n'
    two = base + one.split("\n[codes]")[1].join(["[[codes]]", "[[codes]]", ""])
    assert len(read_schema(written(tmp_path, one)).codes) == 1
    assert len(read_schema(written(tmp_path, two)).codes) == 2


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("label", "lable", r"key 'table\.(label|lable)'"),
        ('label = "died"', "", "key 'table.label' is missing"),
        ("[features]", "[keep]\nminage = 3\n[features]", "key 'keep.minage' is not known"),
        ("[features]", '[keep]\nmin_age = "old"\n[features]', "keep.min_age = 'old' is wrong"),
        ("[features]", "[keep]\nmin_days = 3\n[features]", "min_days needs the column stay"),
        ("[features]", '[keep]\nadmitted = "in"\n[features]', "admitted and discharged go together"),
        ("[features]", '[keep]\nduplicates = "first"\n[features]', "duplicates needs the column id"),
        ("[features]", "[keep]\nrare_codes = 100\n[features]", "are about codes, and there are none"),
        ("[features]", "[keep]\nrare_codes = 0\n[features]", "keep.rare_codes = 0 is wrong"),
        ("age = {}", "age = {min = 9, max = 2}", "features.numeric.age: min = 9 must be less than max = 2"),
        ("age = {}", 'age = {missing = "mean"}', "features.numeric.age.missing = 'mean' is wrong"),
        ("age = {}", "age = {max = 5, missing = 7}", "missing = 7.0 must lie between min and max"),
        ("numeric = { age = {} }", "", "names no column"),
        ("age = {}", "died = {}", "'died' is the label and a feature"),
        ("numeric = { age = {} }", 'categorical = { sex = ["1", 1] }', "categorical.sex has a level twice"),
        ("[table]", "[admissions]", "needs id"),
        ("[table]", "[other]", "key 'other' is not known"),
        ("[table]", "[table", "is not TOML"),
    ],
)
def test_a_mistake_in_the_schema_is_one_sentence(tmp_path: Path, before: str, after: str, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence) as told:
        read_schema(written(tmp_path, WIDE.replace(before, after)))
    assert "\n" not in str(told.value)


def test_a_schema_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="is not there"):
        read_schema(tmp_path / "none.toml")
