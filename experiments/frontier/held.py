"""Data without its test set: held-out clients are the test set here. All choices were made on these.

hush run experiments/frontier/hush-secure.toml --data experiments/frontier/held.py:images --clients 5500
hush run experiments/frontier/stays-fl-top-dp.toml --data experiments/frontier/held.py:stays --clients 1800 --cohort 90
"""

from dataclasses import replace

import torch

from hush.data.registry import DataSet, dataset
from hush.random.seeds import PublicSeed


def images() -> DataSet:
    """Fashion-MNIST without 5,000 of its training rows, as many as 500 clients of 10 have."""
    return _held(dataset("fashion-mnist"), 5_000)


def stays() -> DataSet:
    """The hospital stays of diabetes130, a tenth held out."""
    data = dataset("diabetes130")
    return _held(data, len(data.train) // 10)


def _held(data: DataSet, rows: int) -> DataSet:
    """Which rows are held out is the same for every seed of a run."""
    order = torch.from_numpy(PublicSeed(0).generator("held-out clients").permutation(len(data.train)))
    kept, held = data.train.rows(order[:-rows]), data.train.rows(order[-rows:])
    return replace(data, name=f"{data.name}, held-out clients", train=kept, test=held, columns={}, split=None)
