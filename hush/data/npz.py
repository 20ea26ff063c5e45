"""A data set of one's own in one .npz file: x_train, y_train, x_test, y_test and more."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from hush.data.samples import Samples
from hush.errors import Mistake

Array = np.ndarray[Any, Any]
Part = Literal["train", "test"]
_NEEDED = ("x_train", "y_train", "x_test", "y_test")
_PUBLIC = ("x_public", "y_public")
# What numpy and zipfile raise on damaged bytes: RuntimeError for a false "encrypted" flag, MemoryError for a
# false shape.
_BROKEN = (
    ValueError,
    OSError,
    EOFError,
    LookupError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True, eq=False)
class Content:
    """What the file holds; `columns` are the other arrays with one value per training row."""

    train: Samples
    test: Samples
    public: Samples | None
    columns: Mapping[str, Array]
    classes: int
    sha256: str


def read(path: Path, part: Part | None = None) -> Content:
    """Inputs are taken as they are (float32, unscaled); integer targets are classes, floats are values.

    Nothing in the file is ever executed: pickled objects are refused. With `part` these rows alone are needed, and
    stand in for the others where there are none.
    """
    arrays, sha256 = opened(path)
    needed = _NEEDED if part is None else (f"x_{part}", f"y_{part}")
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise Mistake(f"{path} has no array {missing[0]!r}: save it with {', '.join(needed)}")
    there = {name: f"x_{name}" in arrays or part is None for name in ("train", "test")}
    train, test = (_samples(arrays, name if found else str(part), path) for name, found in there.items())
    public = None
    if any(name in arrays for name in _PUBLIC):
        lacking = [name for name in _PUBLIC if name not in arrays]
        if lacking:
            raise Mistake(f"{path} has no array {lacking[0]!r}: give both or neither of {', '.join(_PUBLIC)}")
        public = _samples(arrays, "public", path)
    for other, called in ((test, "test"), (public, "public")):
        if other is None:
            continue
        if other.inputs.shape[1:] != train.inputs.shape[1:]:
            raise Mistake(
                f"x_{called} of {path} has rows of shape {tuple(other.inputs.shape[1:])} and x_train of "
                f"{tuple(train.inputs.shape[1:])}, which must be equal"
            )
        if other.targets.dtype != train.targets.dtype or other.targets.shape[1:] != train.targets.shape[1:]:
            raise Mistake(f"y_{called} of {path} must be of the same kind and shape as y_train")
    parts = [part for part in (train, test, public) if part is not None]
    whole = train.targets.dtype == torch.int64
    columns = {
        name: array
        for name, array in arrays.items()
        if name not in _NEEDED + _PUBLIC and array.ndim == 1 and len(array) == len(train)
    }
    classes = max(int(part.targets.max()) for part in parts) + 1 if whole else 1
    return Content(train, test, public, columns, classes, sha256)


def opened(path: Path) -> tuple[dict[str, Array], str]:
    """Its arrays by name, and the SHA-256 of the file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}): give the path of an .npz file") from error
    try:
        if not zipfile.is_zipfile(io.BytesIO(raw)):
            raise ValueError("no zip archive")  # numpy would take it for a single array or a pickle
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
    except _BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:
            raise Mistake(f"{path} holds an array of Python objects: save numbers, or text of one type") from error
        raise Mistake(f"{path} is not a whole .npz file ({reason}): write it with numpy.savez") from error
    return arrays, hashlib.sha256(raw).hexdigest()


def _samples(arrays: Mapping[str, Array], part: str, path: Path) -> Samples:
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
    for name, array in ((f"x_{part}", x), (f"y_{part}", y)):
        if array.dtype.kind not in "biuf":
            raise Mistake(f"{name} of {path} holds {array.dtype}, not numbers: encode it as numbers first")
        if array.ndim < 1 or not len(array):
            raise Mistake(f"{name} of {path} has no rows: give at least one")
        if not np.isfinite(array).all():
            raise Mistake(f"{name} of {path} holds NaN or infinite values: fill or drop these rows")
    if len(x) != len(y):
        raise Mistake(f"x_{part} of {path} has {len(x)} rows and y_{part} {len(y)}, which must be equal")
    if y.dtype.kind == "f":
        return Samples(torch.tensor(x.astype(np.float32)), torch.tensor(y.astype(np.float32)))
    if y.ndim != 1 or y.min() < 0:
        raise Mistake(f"y_{part} of {path} must be one class 0, 1, 2, ... per row: number the classes from 0")
    return Samples(torch.tensor(x.astype(np.float32)), torch.tensor(y.astype(np.int64)))
