"""hush of another commit, and the rows of the medical workload."""

import subprocess

import numpy as np
import pytest
import synthetic
import torch
import trees
from workload import HELD, HOSPITALS, WIDTH

from hush.data.sparse import Sparse


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_the_files_are_those_of_the_commit(tmp_path):
    root = tmp_path / "root"
    (root / "benchmarks" / "workers").mkdir(parents=True)
    (root / "benchmarks" / "workers" / "talk.py").write_text("")
    (root / "hush").mkdir()
    git(root, "init", "-q")
    for text in ("old", "new"):
        (root / "hush" / "__init__.py").write_text(text)
        git(root, "add", ".")
        git(root, "commit", "-qm", text)
    place = trees.unpacked("HEAD~1", tmp_path / "bench", root)
    assert (place / "hush" / "__init__.py").read_text() == "old"
    assert place.name == git(root, "rev-parse", "--short=12", "HEAD~1")
    assert trees.unpacked("HEAD~1", tmp_path / "bench", root) == place
    with pytest.raises(SystemExit, match="no such commit"):
        trees.unpacked("nothing", tmp_path / "bench", root)


def test_medical_rows():
    found = synthetic._records()
    rows = Sparse(*(torch.from_numpy(found[name]) for name in ("starts", "columns", "values")), WIDTH)
    rows.check()
    sizes = np.diff(found["clients"])
    assert (len(sizes), sizes.min(), sizes.max()) == (HOSPITALS, *HELD)
    assert len(rows) == len(found["y"]) == found["clients"][-1] + HELD[0]
    assert np.diff(found["starts"]).mean() == pytest.approx(62, abs=2)
    assert len(np.unique(found["columns"])) == WIDTH
