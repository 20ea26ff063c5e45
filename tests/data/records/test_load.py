"""The example of a hospital's export, by its schema, as a set ready for training."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from hush.data.partition import column
from hush.data.registry import dataset, records
from hush.data.sparse import Sparse
from hush.errors import Mistake

EXAMPLE = Path(__file__).parents[3] / "examples" / "hospital"


def quiet(line: str) -> None:
    pass


def test_the_example_is_ready_for_training() -> None:
    data = dataset(EXAMPLE / "schema.toml", quiet)
    assert isinstance(data.train.inputs, Sparse)
    assert isinstance(data.test.inputs, Sparse)
    assert (data.name, data.classes, data.split) == ("schema", 2, "client")
    assert len(data.train) + len(data.test) == 210
    assert data.train.inputs.width == data.test.inputs.width == 22
    assert set(data.train.targets.tolist()) == {0, 1}
    clients = column(data.columns["client"])
    assert len(clients) == 4
    assert int(clients.sizes.sum()) == len(data.train)
    whole = records(EXAMPLE / "schema.toml", quiet)
    for name in np.unique(whole.clients):
        held = (whole.clients == name).sum() - (data.columns["client"] == name).sum()
        assert 0 <= (whole.clients == name).sum() * 0.2 + 0.5 - held < 6  # whole patients, so a few rows less


def test_what_was_fitted_is_noted() -> None:
    notes = dataset(EXAMPLE / "schema.toml", quiet).notes
    assert "fitted on the records: medicines: its median, for missing values" in notes
    assert any("rare" in note or "at least 10 patients" in note for note in notes)
    assert not any("years" in note or "sex" in note for note in notes)  # their bounds and levels are given as public
    assert "one patient has up to 3 records, and a record is what record-level privacy protects" in notes


def test_a_seed_draws_other_test_rows() -> None:
    first, again, other = (dataset(EXAMPLE / "schema.toml", quiet, seed) for seed in (0, 0, 1))
    assert torch.equal(first.test.inputs[:], again.test.inputs[:])
    assert first.test.inputs[:].tolist() != other.test.inputs[:].tolist()
    assert first.digest == other.digest


def test_the_test_rows_are_not_for_training() -> None:
    data, whole = dataset(EXAMPLE / "schema.toml", quiet), records(EXAMPLE / "schema.toml", quiet)
    both = torch.cat([data.train.inputs[:], data.test.inputs[:]])
    assert sorted(both.tolist()) == sorted(whole.inputs[:].tolist())
    assert int(data.train.targets.sum() + data.test.targets.sum()) == int(whole.targets.sum())


def test_too_few_rows_for_a_test(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("site,x,died\na,1,0\nb,2,1\n")
    (tmp_path / "s.toml").write_text(
        '[table]\npath = "a.csv"\nclient = "site"\nlabel = "died"\n[features]\nnumeric = { x = {} }\n'
    )
    with pytest.raises(Mistake, match=r"schema s.toml: no client has the 3 rows"):
        dataset(tmp_path / "s.toml", quiet)


def test_the_example_holds_what_it_is_there_to_show(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "mine")
    schema = tmp_path / "mine" / "schema.toml"
    plain = schema.read_text()
    for remedy, words in {
        'duplicates = "first"\n': r"row 401 of admissions.csv: stay_id = 'A0017'",
        'wrong_dates = "drop"\n': r"row 41 of admissions.csv: left = '2024-10-15', which is before came",
        ', "Unknown"': r"row \d+ of admissions.csv: sex is missing",
        ', missing = "median"': r"row \d+ of admissions.csv: medicines is missing",
        ', outside = "clamp"': r"row \d+ of admissions.csv: years = '9\d', which is not in 15 to 89",
    }.items():
        assert remedy in plain
        schema.write_text(plain.replace(remedy, ""))
        with pytest.raises(Mistake, match=words):
            dataset(schema, quiet)
