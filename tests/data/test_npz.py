from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hush.data.registry import dataset
from hush.errors import Mistake


def arrays(**changed: Any) -> dict[str, Any]:
    whole = {
        "x_train": np.arange(12, dtype=np.float64).reshape(6, 2),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.ones((3, 2)),
        "y_test": np.array([0, 3, 0], dtype=np.uint8),
    }
    return {name: array for name, array in (whole | changed).items() if array is not None}


def saved(folder: Path, **changed: Any) -> Path:
    np.savez_compressed(folder / "mine.npz", **arrays(**changed))
    return folder / "mine.npz"


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = saved(tmp_path, hospital=np.array(list("abcabc")), other=np.zeros(4), wide=np.zeros((6, 2)))
    data = dataset(str(path))
    assert data.name == "mine"
    assert data.train.inputs.dtype == torch.float32
    assert data.train.inputs[5].tolist() == [10, 11]
    assert data.train.targets.dtype == torch.int64
    assert len(data.test) == 3
    assert data.classes == 4
    assert list(data.columns) == ["hospital"]
    assert data.public is None
    assert "SHA-256" in data.digest


def test_public_rows_and_float_targets(tmp_path: Path) -> None:
    values = {"y_train": np.linspace(0, 1, 6), "y_test": np.zeros(3), "y_public": np.zeros(2)}
    data = dataset(saved(tmp_path, x_public=np.ones((2, 2)), **values))
    assert data.public is not None
    assert len(data.public) == 2
    assert data.train.targets.dtype == torch.float32
    assert data.classes == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y_test": None}, "no array 'y_test'"),
        ({"y_train": np.zeros(5, dtype=int)}, "x_train of .* has 6 rows and y_train 5"),
        ({"x_train": np.full((6, 2), np.nan)}, "x_train of .* NaN"),
        ({"x_test": np.full((3, 2), np.inf)}, "x_test of .* infinite"),
        ({"x_train": np.array([["a", "b"]] * 6)}, "not numbers"),
        ({"x_test": np.ones((3, 3))}, "x_test of .* must be equal"),
        ({"x_test": np.ones((0, 2)), "y_test": np.zeros(0, dtype=int)}, "no rows"),
        ({"y_test": np.zeros(3)}, "same kind"),
        ({"y_train": np.array([0, -1, 0, 0, 0, 0])}, "number the classes"),
        ({"x_public": np.ones((2, 2))}, "no array 'y_public'"),
        ({"x_train": np.array([{}] * 6, dtype=object)}, "holds an array of Python objects: save numbers"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    path = saved(tmp_path, **changed)
    with pytest.raises(Mistake, match=words) as caught:
        dataset(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = saved(tmp_path).read_bytes()
    broken = tmp_path / "broken.npz"
    for keep in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        broken.write_bytes(whole[:keep])
        with pytest.raises(Mistake, match=r"not a whole .npz file"):
            dataset(broken)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_one_changed_byte_never_changes_the_data_in_silence(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "whole.npz", **arrays())
    whole = (tmp_path / "whole.npz").read_bytes()
    want, broken, refused = dataset(tmp_path / "whole.npz"), tmp_path / "broken.npz", 0
    for place in range(0, len(whole), 7):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            got = dataset(broken)
        except Mistake:
            refused += 1
            continue
        assert torch.equal(got.train.inputs, want.train.inputs)
        assert torch.equal(got.train.targets, want.train.targets)
        assert torch.equal(got.test.inputs, want.test.inputs)
        assert torch.equal(got.test.targets, want.test.targets)
    assert refused > 20


def test_a_missing_file_and_a_single_array(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="cannot be read"):
        dataset(tmp_path / "none.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(Mistake, match="cannot be read"):
        dataset(tmp_path / "folder.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    with pytest.raises(Mistake, match=r"not a whole .npz"):
        dataset(tmp_path / "one.npz")
