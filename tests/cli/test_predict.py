"""hush predict and hush export: a run's model on other rows, and its own test accuracy again."""

import csv
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hush.data.registry import dataset
from hush.experiment.model import load

HOSPITAL = Path(__file__).parents[2] / "examples" / "hospital"
OWN = Path(__file__).parents[2] / "examples" / "own.py"
QUICK = ["--data", "digits", "--noise", "1", "--delta", "1e-3", "--rounds", "2", "--cohort", "20"]


def last(folder):
    return json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A finished run of a recommended scheme."""
    from hush.experiment.fitting import fit

    out = tmp_path_factory.mktemp("digits") / "run"
    fit("digits", "hush-tiny", noise=1.0, delta=1e-3, rounds=2, cohort=20, out=out)
    return out


def alike(found, row):
    """The score of the rows is the run's own, to the last bit."""
    return all(found[name] == row[name] for name in ("accuracy", "balanced", "loss"))


def test_the_test_rows_again(hush, digits, tmp_path):
    status, said, err = hush("predict", digits, "digits", "--out", "p.csv", "--json")
    assert status == 0, err
    assert alike(json.loads(said), last(digits))
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    test = dataset("digits").test
    right = [int(row["prediction"]) == int(want) for row, want in zip(rows, test.targets, strict=True)]
    assert sum(right) / len(right) == last(digits)["accuracy"]
    assert sum(float(rows[0][f"p_{n}"]) for n in range(10)) == pytest.approx(1, abs=1e-4)
    status, _, err = hush("predict", digits, "digits", "--out", "p.csv")
    assert status == 2
    assert "p.csv exists: choose another --out" in err


def test_an_npz(hush, digits, tmp_path):
    """With labels or without; the shape is checked."""
    test = dataset("digits").test
    x, y = test.inputs.numpy(), test.targets.numpy()
    np.savez(tmp_path / "both.npz", x_test=x, y_test=y)
    np.savez(tmp_path / "bare.npz", x=x[:5])
    np.savez(tmp_path / "flat.npz", x=x.reshape(len(x), -1))
    np.savez(tmp_path / "none.npz", z=x)
    np.savez(tmp_path / "one.npz", x=x[0])
    np.savez(tmp_path / "empty.npz", x=x[:0])
    np.savez(tmp_path / "labels.npz", x=x[:3], y=np.array([0, 10, 1]))
    status, said, _ = hush("predict", digits, "both.npz", "--json")
    assert alike(json.loads(said), last(digits))
    status, said, err = hush("predict", digits, "bare.npz")
    assert (status, len(said.splitlines()), err) == (0, 6, "5 rows\n")
    for name, sentence in (
        ("flat.npz", "this model takes rows of (1, 8, 8)"),
        ("one.npz", "are one row: give it as a batch of one"),
        ("empty.npz", "inputs have no rows"),
        ("labels.npz", "row 2 has the label 10, and the model knows the classes 0 to 9"),
        ("none.npz", "no array 'x' or 'x_test'"),
        ("absent.npz", "cannot be read"),
        ("rows.csv", "is a table, and this model has no schema"),
        ("unknown", "data set 'unknown' is not known"),
    ):
        status, said, err = hush("predict", digits, name)
        assert (status, said) == (2, "")
        assert sentence in err
        assert err.count("\n") == 1


def test_what_the_file_says(digits):
    with safe_open(digits / "model.safetensors", framework="pt") as file:
        about = json.loads(json.loads(file.metadata()["hush"])["about"])
    assert (about["scheme"], about["data"], about["classes"], about["network"]) == ("hush-tiny", "digits", 10, "head")
    assert about["front"]["kind"] == "images"
    assert about["front"]["directions"] == 62
    assert set(about["versions"]) == {"hush", "torch"}
    assert len(about["card"]) == 64


def test_a_file_that_is_none(hush, digits, tmp_path):
    """Of an older version, changed, cut off, of a run that did not finish: one sentence each."""
    folder = tmp_path / "run"
    folder.mkdir()
    place, whole = folder / "model.safetensors", (digits / "model.safetensors").read_bytes()
    assert "is not there: let the run finish" in hush("predict", folder, "digits")[2]
    save_file(load_file(digits / "model.safetensors"), place)
    assert "as in older versions of hush: let `hush run --resume` write it anew" in hush("predict", folder, "digits")[2]
    for broken in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:100], b"", whole.replace(b"hush-tiny", b"hush-tinz")):
        place.write_bytes(broken)
        status, _, err = hush("predict", folder, "digits")
        assert status == 2
        assert "restore it from a copy, or train it again" in err
        assert err.count("\n") == 1


def test_records(hush, tmp_path):
    """The very same columns, whatever another table holds: medians, levels, codes and bounds are the run's."""
    schema = HOSPITAL / "schema.toml"
    assert hush("run", "fl-std", "--data", schema, "--rounds", "2", "--out", "r")[0] == 0
    status, said, err = hush("predict", "r", schema, "--json")
    assert status == 0, err
    assert alike(json.loads(said), last(tmp_path / "r"))
    assert json.loads(said)["auroc"] == last(tmp_path / "r")["auroc"]
    shutil.copytree(HOSPITAL, tmp_path / "other")
    lines = (tmp_path / "other" / "admissions.csv").read_text().splitlines()
    (tmp_path / "other" / "admissions.csv").write_text("\n".join(lines[: len(lines) * 2 // 3]) + "\n")
    status, said, err = hush("predict", "r", tmp_path / "other" / "schema.toml", "--json")
    assert status == 0, err  # whose own codes and median are others
    assert 0 < json.loads(said)["rows"] < last(tmp_path / "r")["round"] * 100
    status, _, err = hush("predict", "r", HOSPITAL / "admissions.csv")
    assert (status, "the model's records are in two: write a schema.toml" in err) == (2, True)


WIDE = """
[table]
path = "all.csv"
client = "house"
label = "ill"
positive = ["yes"]
[features]
numeric = { age = {}, weight = { min = 30, max = 200, missing = "median", outside = "clamp" }, flat = {} }
categorical = { sex = [], ward = ["A", "B"] }
codes = ["first", "second"]
[keep]
age = "age"
min_age = 18
"""


def wide(path, count, seed, label=True):
    random = np.random.default_rng(seed)
    names = ["age", "weight", "flat", "sex", "ward", "first", "second", *(("house", "ill") if label else ())]
    with path.open("w") as file:
        out = csv.writer(file)
        out.writerow(names)
        for n in range(count):
            age, sex = int(random.integers(15, 90)), "FM"[random.integers(2)]
            weight = "" if n % 7 == 0 else int(random.integers(40, 120))
            row = [age, weight, 3, sex, "AB"[n % 2], f"c{random.integers(9)}", f"c{random.integers(9)}"]
            ill = "yes" if age + 20 * (sex == "F") > 60 else "no"
            out.writerow([*row, *((f"h{n % 6}", ill) if label else ())])


def test_a_table_by_the_runs_schema(hush, tmp_path):
    """Rows without label or client; bounds, medians, levels and codes come from the model, and the rules hold."""
    (tmp_path / "schema.toml").write_text(WIDE)
    wide(tmp_path / "all.csv", 300, 0)
    assert hush("run", "fl-std", "--data", "schema.toml", "--rounds", "2", "--out", "r")[0] == 0
    (tmp_path / "schema.toml").unlink()
    (tmp_path / "all.csv").rename(tmp_path / "seen.csv")
    model = load(tmp_path / "r")
    assert model.about.records["features"]["numeric"]["age"]["outside"] == "clamp"
    status, said, err = hush("predict", "r", "seen.csv", "--json")
    assert status == 0, err
    whole = json.loads(said)
    assert whole["rows"] + whole["left_out"] == 300
    assert whole["left_out"] > 0
    wide(tmp_path / "new.csv", 40, 1, label=False)
    status, said, err = hush("predict", "r", "new.csv", "--out", "new-p.csv")
    assert status == 0, err
    assert "left out by the rules of [keep]" in err
    with (tmp_path / "new-p.csv").open() as file:
        found = list(csv.DictReader(file))
    with (tmp_path / "new.csv").open() as file:
        adults = [n for n, row in enumerate(csv.DictReader(file), 1) if int(row["age"]) >= 18]
    assert [int(row["row"]) for row in found] == adults
    (tmp_path / "odd.csv").write_text((tmp_path / "new.csv").read_text().replace(",A,", ",C,", 1))
    status, _, err = hush("predict", "r", "odd.csv")
    assert status == 2
    assert "ward = 'C'" in err


def test_code_of_ones_own(hush, tmp_path):
    """Found where it was or beside the run's files, and said to be missing where it is not."""
    shutil.copy(OWN, tmp_path / "own.py")
    words = ["--data", "own.py:load", "--model", "own.py:network", "--clients", "40", "--rounds", "2"]
    assert hush("run", "fl-std", *words, "--out", "r")[0] == 0
    status, said, err = hush("predict", "r", "own.py:load", "--json")
    assert status == 0, err
    assert alike(json.loads(said), last(tmp_path / "r"))
    (tmp_path / "own.py").rename(tmp_path / "r" / "own.py")
    assert json.loads(hush("predict", "r", "r/own.py:load", "--json")[1]) == json.loads(said)
    (tmp_path / "r" / "own.py").unlink()
    status, _, err = hush("predict", "r", "digits")
    assert (status, "own.py is not there" in err) == (2, True)


def test_no_model_of_all(hush):
    assert hush("run", "standalone", "--data", "digits", "--clients", "3", "--rounds", "1", "--out", "r")[0] == 0
    assert "is not there" in hush("predict", "r", "digits")[2]


def exported(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path).module()


def test_a_program_of_torch_export(hush, digits, tmp_path):
    """The features are in it: raw images in, the same answers out, for any number of rows."""
    status, said, err = hush("export", digits, "model.pt2")
    assert status == 0, err
    assert "takes (rows, 1, 8, 8)" in said
    program, test = exported(tmp_path / "model.pt2"), dataset("digits").test.inputs
    with torch.no_grad():
        found, one = program(test), program(test[:1])
    wanted = load(digits)(test)
    assert torch.allclose(found, wanted, atol=1e-4)
    assert torch.allclose(one, wanted[:1], atol=1e-4)
    assert "exists: choose another name" in hush("export", digits, "model.pt2")[2]
    assert "end it in .pt2" in hush("export", digits, "model.pt")[2]


def test_a_program_of_records(hush, tmp_path):
    """Dense rows of the run's columns go in."""
    assert hush("run", "fl-std", "--data", HOSPITAL / "schema.toml", "--rounds", "1", "--out", "r")[0] == 0
    assert hush("export", "r", "model.pt2")[0] == 0
    rows = dataset(HOSPITAL / "schema.toml").test.inputs
    with torch.no_grad():
        found = exported(tmp_path / "model.pt2")(rows[:])
    assert torch.allclose(found, load(tmp_path / "r")(rows), atol=1e-4)


PLAIN = """
import torch

def features(rows):
    return torch.tensor([[float(number) for number in row.flatten()] for row in rows])
"""


def test_what_cannot_be_exported(hush, tmp_path):
    """Features that leave torch."""
    (tmp_path / "own.py").write_text(PLAIN)
    words = ["hush-tiny", *QUICK, "--features", "own.py:features", "--out", "r"]
    status, _, err = hush("run", *words)
    assert status == 0, err
    status, _, err = hush("export", "r", "model.pt2")
    assert status == 2
    assert "torch.export cannot take this model's features or network" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "model.pt2").exists()
    assert alike(json.loads(hush("predict", "r", "digits", "--json")[1]), last(tmp_path / "r"))
