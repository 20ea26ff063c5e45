"""Virtual clients: rows of an export dealt at random, as the first paper does with its hospitals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.data.records.building import Records
from hush.data.records.schema import Deal
from hush.errors import Mistake
from hush.random.seeds import PublicSeed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Dealt:
    """Rows by what becomes of them. `clients` has the virtual client of each training row; other rows are left out."""

    train: Array
    clients: Array
    test: Array
    public: Array


def deal(records: Records, wanted: Deal, fraction: float = 0.2, seed: int = 0) -> Dealt:
    """Test rows first, a random `fraction` of all, then public rows, then clients. The seed is public."""
    group, sizes, died = _groups(records)
    order = PublicSeed(seed).generator("records deal").permutation(len(sizes))
    held = _fitting(sizes[order], round(len(group) * fraction))
    test, order = order[held], order[~held]
    shown = _fitting(sizes[order], wanted.public or 0)
    public, order = order[shown], order[~shown]
    rows = int(sizes[order].sum())
    count = wanted.clients or min(rows // wanted.rows, int(died[order].sum()))
    place = None
    while count and place is None:
        place = _placed(sizes[order], died[order], wanted.rows, count)
        if place is None and wanted.clients is not None:
            break
        count -= place is None
    if place is None:
        raise Mistake(
            f"{rows} training rows, {int(died[order].sum())} of label 1 among them, are not enough to deal"
            f" {wanted.rows} rows and one of label 1 to {wanted.clients or 'each client'}: lower [deal] rows or clients"
        )
    of = np.full(len(sizes), -1)
    of[order] = place
    client = of[group]
    train = np.flatnonzero(client >= 0)
    within = [np.flatnonzero(np.isin(group, part)) for part in (test, public)]
    return Dealt(train, client[train], *within)


def _groups(records: Records) -> tuple[Array, Array, Array]:
    """What is dealt together: the group of each row, the groups' sizes, and whether one has a row of label 1."""
    group = np.arange(len(records.targets))
    if records.patients is not None:
        group = np.unique(records.patients, return_inverse=True)[1]
    return group, np.bincount(group), np.bincount(group, records.targets.numpy() == 1) > 0


def _fitting(sizes: Array, wanted: int) -> Array:
    """The first groups that have no more rows together than wanted."""
    found: Array = np.cumsum(sizes) <= wanted
    return found


def _placed(sizes: Array, died: Array, rows: int, count: int) -> Array | None:
    """The client of each group, -1 for those left over; None if there are not enough.

    A group with a row of label 1 to each client, then the others in their order until a client has its rows.
    """
    first = np.flatnonzero(died)[:count]
    if len(first) < count:
        return None
    place = np.full(len(sizes), -1)
    place[first] = np.arange(count)
    rest = np.flatnonzero(place < 0)
    ends = np.cumsum(sizes[rest])
    at = 0
    for client in range(count):
        before = int(ends[at - 1]) if at else 0
        missing = rows - int(sizes[first[client]])
        after = at if missing <= 0 else int(np.searchsorted(ends, before + missing)) + 1
        if after > len(rest):
            return None
        place[rest[at:after]], at = client, after
    return place
