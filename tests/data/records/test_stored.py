import os
import stat
from pathlib import Path

import pytest
import torch
from data.records.conftest import ADMISSIONS, MAIN, SCHEMA, Export

from hush.data import store
from hush.data.records import Records, Schema, read_schema, stored
from hush.data.records.stored import KEPT
from hush.data.records.stored import stored as load


@pytest.fixture
def schema(export: Export, tmp_path: Path) -> Schema:
    export("min_rows_per_client = 2", schema=SCHEMA.replace(MAIN, MAIN + 'patient = "sex"\n'))
    return read_schema(tmp_path / "schema.toml")


def kept() -> list[Path]:
    return sorted((store.cache() / "records").iterdir())


def same(one: Records, other: Records) -> bool:
    tensors = [
        (one.inputs.starts, other.inputs.starts),
        (one.inputs.columns, other.inputs.columns),
        (one.inputs.values, other.inputs.values),
        (one.targets, other.targets),
    ]
    facts = ("names", "counts", "fitted", "digest", "groups")
    return (
        all(torch.equal(mine, theirs) for mine, theirs in tensors)
        and one.clients.tolist() == other.clients.tolist()
        and one.patients is not None
        and other.patients is not None
        and one.patients.tolist() == other.patients.tolist()
        and all(getattr(one, fact) == getattr(other, fact) for fact in facts)
    )


def test_what_was_built_is_kept_for_its_user_alone(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(schema, print)
    (path,) = kept()
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    monkeypatch.setattr(stored, "build", None)  # a second build would fail
    assert same(load(schema, print), first)


def test_a_changed_file_is_built_anew(schema: Schema, tmp_path: Path) -> None:
    before = load(schema, print)
    (tmp_path / "admissions.csv").write_text(ADMISSIONS.replace("c1,North,40", "c1,North,45"))
    after = load(schema, print)
    assert (float(before.inputs[:][0, 0]), float(after.inputs[:][0, 0])) == pytest.approx((0.4, 0.45))
    assert len(kept()) == 2


@pytest.mark.parametrize("where", [0, 40, -1])
def test_a_damaged_file_is_built_anew(schema: Schema, where: int) -> None:
    first, said = load(schema, print), []
    (path,) = kept()
    raw = bytearray(path.read_bytes())
    raw[where] ^= 1
    path.write_bytes(raw)
    assert same(load(schema, said.append), first)
    assert "damaged" in said[0]
    assert same(load(schema, said.append), first)
    assert sum("damaged" in line for line in said) == 1


@pytest.mark.parametrize("size", [0, 10, 32, 500])
def test_a_file_cut_short_is_built_anew(schema: Schema, size: int) -> None:
    first = load(schema, print)
    (path,) = kept()
    path.write_bytes(path.read_bytes()[:size])
    assert same(load(schema, print), first)


def test_the_records_of_other_files_are_not_taken(schema: Schema, tmp_path: Path) -> None:
    first = load(schema, print)
    (path,) = kept()
    (tmp_path / "admissions.csv").write_text(ADMISSIONS.replace("c1,North,40", "c1,North,45"))
    second = load(schema, print)
    other = next(one for one in kept() if one != path)
    path.replace(other)  # whole, but not what its name says
    assert same(load(schema, print), second)
    assert not same(first, second)


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(schema: Schema) -> None:
    store.cache().parent.mkdir(parents=True, exist_ok=True)
    store.cache().write_text("a file where the folder should be")
    said: list[str] = []
    assert len(load(schema, said.append).targets) == 5
    assert "could not be kept" in said[-1]


def test_only_the_newest_builds_stay(schema: Schema, tmp_path: Path) -> None:
    for years in range(KEPT + 2):
        (tmp_path / "admissions.csv").write_text(ADMISSIONS.replace("c1,North,40", f"c1,North,{years}"))
        load(schema, print)
        (path,) = [one for one in kept() if one.stat().st_mtime > 1000]
        os.utime(path, (years + 1, years + 1))
    assert [one.stat().st_mtime for one in sorted(kept(), key=lambda one: one.stat().st_mtime)] == [3, 4, 5, 6]
