"""Data sets by name or by path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hush.data import idx, npz
from hush.data.fetch import Say, fetch, say_aloud
from hush.data.known import Known, known
from hush.data.samples import Samples
from hush.errors import Mistake

DIGITS_PUBLIC = 64  # training rows of digits that no client holds
_DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


@dataclass(frozen=True, eq=False)
class DataSet:
    """A set ready for training.

    `columns` hold one value per training row, to split by. `public` rows belong to no client and may be
    shown to anyone. `classes` is 1 if the targets are numbers. `source` says where the set came from,
    `digest` how its content was checked.
    """

    name: str
    train: Samples
    test: Samples
    classes: int
    source: str
    digest: str
    columns: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    public: Samples | None = None


def load(name: str | Path, say: Say = say_aloud) -> DataSet:
    """A known set by its name, fetched if need be, or an .npz file by its path."""
    if str(name).endswith(".npz"):
        return _from_npz(Path(name))
    wanted = known(str(name))
    return _images(wanted, say) if wanted.files else _digits()


def _images(wanted: Known, say: Say) -> DataSet:
    fetched = fetch(wanted.name, say=say)
    train_x, train_y, test_x, test_y = (idx.parse(fetched.contents[file.name], file.name) for file in wanted.files)
    return DataSet(
        wanted.name,
        Samples(_pixels(train_x, 255), torch.tensor(train_y, dtype=torch.int64)),
        Samples(_pixels(test_x, 255), torch.tensor(test_y, dtype=torch.int64)),
        classes=10,
        source=fetched.source,
        digest="equal to the known SHA-256 of each file",
    )


def _digits() -> DataSet:
    """Scikit-learn's 8x8 digits: 64 public rows, then 80 % training and 20 % test by a fixed shuffle."""
    from sklearn.datasets import load_digits  # slow to import, and only this set needs it

    bundle = load_digits()
    images, labels = bundle.images.astype(np.uint8), bundle.target.astype(np.uint8)
    if hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() != _DIGITS_SHA256:
        raise Mistake("the digits of this scikit-learn differ from the known ones: install another version")
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    whole = Samples(_pixels(images, 16), torch.tensor(labels, dtype=torch.int64))
    held = len(images) // 5
    return DataSet(
        "digits",
        whole.rows(order[held + DIGITS_PUBLIC :]),
        whole.rows(order[:held]),
        classes=10,
        source="bundled with scikit-learn",
        digest="equal to the known SHA-256",
        public=whole.rows(order[held : held + DIGITS_PUBLIC]),
    )


def _from_npz(path: Path) -> DataSet:
    content = npz.read(path)
    return DataSet(
        path.stem,
        content.train,
        content.test,
        content.classes,
        source=f"file {path.name}",
        digest=f"none known; SHA-256 {content.sha256}",
        columns=content.columns,
        public=content.public,
    )


def _pixels(images: np.ndarray[Any, np.dtype[np.uint8]], top: int) -> torch.Tensor:
    return torch.tensor(images)[:, None].to(torch.float32).div_(top)
