"""The rows that every contender trains on: synthetic, seeded, float32, in files that all of them read.

Run as a script it writes the files: `python synthetic.py FOLDER`.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from workload import CLASSES, CLIENTS, HELD, HOSPITALS, ROWS, SHAPES, WIDTH


def arrays(folder: Path, workload: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Inputs in [0, 1) and targets; client k holds rows 10 k to 10 k + 9."""
    with np.load(folder / f"{workload}.npz") as file:
        return file["x"], file["y"]


def records(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Sparse rows by `starts`, `columns` and `values`, targets `y`; hospital k holds rows clients[k] to clients[k+1].

    What is left behind the last hospital's rows is public.
    """
    with np.load(folder / "medical.npz") as file:
        return dict(file)


def _records() -> dict[str, np.ndarray[Any, Any]]:
    """Two dense columns, age and complexity, then codes of which a few are frequent: about 60 in a row, each once."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(HELD[0], HELD[1] + 1, size=HOSPITALS)
    count, codes = int(sizes.sum()) + HELD[0], WIDTH - 2
    # Popularity falls off as 1/sqrt(rank): the codes of a row differ mostly, and all of them occur.
    drawn = (codes * rng.random((count, 61), dtype=np.float32) ** 2).astype(np.int32).clip(max=codes - 1) + 2
    columns = np.sort(np.concatenate([np.zeros((count, 1), np.int32), np.ones((count, 1), np.int32), drawn], 1), 1)
    first = np.ones_like(columns, dtype=bool)
    first[:, 1:] = columns[:, 1:] != columns[:, :-1]
    values = np.where(columns < 2, rng.random(columns.shape, dtype=np.float32), np.float32(1))
    return {
        "starts": np.concatenate([[0], first.sum(1).cumsum()]),
        "columns": columns[first],
        "values": values[first],
        "y": rng.integers(2, size=count),
        "clients": np.concatenate([[0], sizes.cumsum()]),
    }


def _dense(shape: tuple[int, ...]) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.random((CLIENTS * ROWS, *shape), dtype=np.float32)
    return {"x": x, "y": rng.integers(CLASSES, size=CLIENTS * ROWS)}


def make(folder: Path) -> None:
    """Write the files that are missing."""
    makers = {workload: partial(_dense, shape) for workload, shape in SHAPES.items()} | {"medical": _records}
    for workload, maker in makers.items():
        path = folder / f"{workload}.npz"
        if path.exists():
            continue
        draft = path.with_suffix(".draft.npz")
        np.savez(draft, **maker())
        draft.rename(path)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
