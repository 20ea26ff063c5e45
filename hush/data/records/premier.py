"""`premier-like`: a synthetic database of the shape of Premier's, written to Parquet piece by piece.

Premier's database is not public. This one has its size and its shape, and none of its patients (`synthetic.py`).
At full size 1,271,733 admissions in 415 hospitals pass the rules on patients, as many as in the papers, and 3 % more
rows are there that the rules drop. 314 hospitals have 1,000 rows or more: 1,222,554 rows, of which 80 % train, 804
to 12,447 a hospital.

`premier-like:0.01` has 1 % of the rows, in 1 % of the hospitals of the same sizes, but never fewer than ten
hospitals: these are then smaller, and so is the least number of rows that a hospital must have. The patients come
from the same world at each size, and there are always 24,428 features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.resources import files as resources
from pathlib import Path

import numpy as np
import polars as pl

from hush.data import files
from hush.data.records import synthetic
from hush.data.records.synthetic import ADMISSIONS, CODES, GENDERS, GROUPS, HOSPITALS, Array
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

NAME = "premier-like"
ADMITTED = 1_271_733  # pass the rules on patients
CHUNK = 50_000
_LARGE, _IN_LARGE = 314, 1_222_554  # hospitals with 1,000 rows or more, and their rows
_LEAST, _MOST = 1_005, 15_559  # rows of the smallest and of the largest of these
_DROPPED = 0.03
_FEWEST = 10
_SMALLEST = 0.001


def share(name: str) -> float:
    """The share in a name such as premier-like:0.01; 1 without one."""
    _, _, text = name.partition(":")
    try:
        found = float(text) if ":" in name else 1.0
    except ValueError:
        found = math.nan
    if not _SMALLEST <= found <= 1:
        raise Mistake(f"{name}: {text!r} must be a share from {_SMALLEST} to 1 of the full size: try {NAME}:0.01")
    return found


def ready(folder: Path, part: float = 1.0, seed: int = 0) -> bool:
    """Whether the folder holds the very set that `generate` would write."""
    schema = folder / "schema.toml"
    return schema.is_file() and schema.read_text() == _schema(part, seed)


def generate(folder: Path, part: float = 1.0, seed: int = 0, say: Callable[[str], None] = print) -> Path:
    """Write the set to the folder, unless it is there, and return the path of its schema.

    The folder appears whole or not at all: all is written beside it first, and it is renamed when it is complete.
    The same seed and share give the same rows on one machine; another version of numpy may draw others.
    """
    if ready(folder, part, seed):
        return folder / "schema.toml"
    files.clear(folder.parent)

    def fill(draft: Path) -> None:
        _write(draft, part, seed, say)
        (draft / "vocabulary.txt").write_text("".join(f"{name}\n" for name in _codes()))
        (draft / "schema.toml").write_text(_schema(part, seed))

    files.write_folder(folder, fill, lambda: ready(folder, part, seed))
    return folder / "schema.toml"


def hospitals(part: float = 1.0) -> tuple[Array, int]:
    """How many admissions that pass the rules each hospital has, and the rows that a hospital must have.

    The sizes of the large ones follow a Weibull distribution from the least to the most; their mean and deviation
    are Premier's. The small ones go evenly up to just below the cut.
    """
    count = max(_FEWEST, round(HOSPITALS * part))
    many = round(count * _LARGE / HOSPITALS)
    width, shape = 3083.537, 1.213672
    top = -math.expm1(-(((_MOST - _LEAST) / width) ** shape))
    large = _LEAST + width * (-np.log1p(-np.linspace(0, top, _LARGE))) ** (1 / shape)
    small = np.linspace(20, 953.84, HOSPITALS - _LARGE)
    large = _shared(_thinned(large, many), _IN_LARGE * part)
    small = _shared(_thinned(small, count - many), (ADMITTED - _IN_LARGE) * part)
    least = round(1000 * HOSPITALS * part / count)
    return np.concatenate([large, small]), min(max(least, int(small.max()) + 1), int(large.min()))


def _thinned(sizes: Array, count: int) -> Array:
    """Fewer sizes of the same mean: each stands for a stretch of the given ones."""
    return np.array([stretch.mean() for stretch in np.array_split(sizes, count)])


def _shared(weights: Array, total: float) -> Array:
    """Integers in proportion to the weights, at least 1, with the given sum."""
    ends = np.round(np.cumsum(weights) / weights.sum() * round(total)).astype(np.int64)
    found: Array = np.diff(ends, prepend=0).clip(min=1)
    return found


def _write(folder: Path, part: float, seed: int, say: Callable[[str], None]) -> None:
    sizes, _ = hospitals(part)
    rng = PublicSeed(seed).generator(NAME, "rows")
    extra = rng.choice(len(sizes), round(sizes.sum() * _DROPPED), p=sizes / sizes.sum())
    hospital = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), extra])
    dropped = np.arange(len(hospital)) >= sizes.sum()
    order = rng.permutation(len(hospital))
    hospital, dropped = hospital[order], dropped[order]
    shared = synthetic.world(seed)
    codes = pl.Series("code", _codes())
    (folder / "codes").mkdir()
    tables = []
    for chunk, start in enumerate(range(0, len(hospital), CHUNK)):
        rows = slice(start, start + CHUNK)
        rng = PublicSeed(seed).generator(NAME, chunk)
        found = synthetic.patients(shared, hospital[rows], dropped[rows], rng)
        tables.append(_admissions(found, hospital[rows], start))
        pl.DataFrame(
            {
                "admission": (found.place + start).astype(np.uint32),
                "day": found.day.astype(np.uint8),
                "code": codes.gather(found.code.astype(np.uint32)),
            }
        ).write_parquet(folder / "codes" / f"part-{chunk:05d}.parquet")
        say(f"{NAME}: {min(start + CHUNK, len(hospital)):,} of {len(hospital):,} synthetic admissions")
    pl.concat(tables).write_parquet(folder / "admissions.parquet")


def _admissions(found: synthetic.Patients, hospital: Array, start: int) -> pl.DataFrame:
    of = found.columns
    return pl.DataFrame(
        {
            "admission": np.arange(start, start + len(hospital), dtype=np.uint32),
            "hospital": pl.Series([f"H{k:03d}" for k in range(1, HOSPITALS + 1)]).gather(hospital.astype(np.uint32)),
            "age": of["age"],
            "gender": pl.Series(GENDERS).gather(of["gender"].astype(np.uint32)),
            "admission_type": pl.Series(ADMISSIONS).gather(of["admission"].astype(np.uint32)),
            "mrci": of["mrci"],
            "days": of["days"],
            "group": pl.Series(GROUPS).gather(of["group"].astype(np.uint32)),
            "died": of["died"],
        }
    )


def _codes() -> list[str]:
    return [f"code-{number:05d}" for number in range(1, CODES + 1)]


def _schema(part: float, seed: int) -> str:
    """The schema in the package, with the size cut of this share, and on its first line which set it is of."""
    sizes, least = hospitals(part)
    text = resources("hush.data.records").joinpath("premier-like.toml").read_text()
    text = text.replace("min_rows_per_client = 1000", f"min_rows_per_client = {least}")
    return (
        f"# {NAME}, generator {synthetic.VERSION}, seed {seed}, {sizes.sum()} admissions that pass the rules.\n{text}"
    )
