"""The rows that every contender trains on: synthetic, seeded, float32, in files that all of them read.

Run as a script it writes the files: `python synthetic.py FOLDER`.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from workload import CLASSES, CLIENTS, ROWS, SHAPES


def arrays(folder: Path, workload: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Inputs in [0, 1) and targets; client k holds rows 10 k to 10 k + 9."""
    with np.load(folder / f"{workload}.npz") as file:
        return file["x"], file["y"]


def make(folder: Path) -> None:
    """Write the files that are missing."""
    for workload, shape in SHAPES.items():
        path = folder / f"{workload}.npz"
        if path.exists():
            continue
        rng = np.random.default_rng(0)
        x = rng.random((CLIENTS * ROWS, *shape), dtype=np.float32)
        y = rng.integers(CLASSES, size=CLIENTS * ROWS)
        draft = path.with_suffix(".draft.npz")
        np.savez(draft, x=x, y=y)
        draft.rename(path)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
