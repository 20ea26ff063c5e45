"""Partitions of a training set over clients. The seed is public: who holds how much is no secret here."""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.special import gammaincinv
from torch import Tensor

from hush.data.samples import Split
from hush.errors import Mistake

Labels = Tensor | np.ndarray[Any, Any]


def iid(count: int, clients: int, seed: int, size: int | None = None) -> Split:
    """Shuffle `count` rows and cut them in `clients` parts.

    Without `size` every row is used and parts differ by at most one row. With `size` each client gets
    exactly that many rows and the leftover is unused (U: 6,000 clients of 10 images).
    """
    _check(count, clients)
    if size is None:
        starts = torch.arange(clients + 1) * count // clients
    else:
        if size < 1:
            raise Mistake(f"size={size} must be at least 1: each client needs a row")
        if clients * size > count:
            raise Mistake(
                f"{clients} clients of {size} rows need {clients * size} rows, but there are {count}: "
                "take fewer clients or a smaller size"
            )
        starts = torch.arange(clients + 1) * size
    return Split(torch.randperm(count, generator=_generator(seed))[: int(starts[-1])], starts)


def shards(labels: Labels, clients: int, seed: int, per_client: int = 2) -> Split:
    """Sort the rows by label, cut them in `clients * per_client` shards, deal `per_client` to each client.

    With two shards most clients see at most two labels (McMahan et al. 2017). Rows of one label are
    shuffled before the cut; shards differ by at most one row.
    """
    labels = _labels(labels)
    _check(len(labels), clients)
    if per_client < 1:
        raise Mistake(f"per_client={per_client} must be at least 1: each client needs a shard")
    total = clients * per_client
    if total > len(labels):
        raise Mistake(
            f"{clients} clients with {per_client} shards each need {total} rows, but there are "
            f"{len(labels)}: take fewer clients or shards"
        )
    generator = _generator(seed)
    order = _by_label(labels, generator)
    cuts = (torch.arange(total + 1) * len(labels) // total).tolist()
    dealt = torch.randperm(total, generator=generator).reshape(clients, per_client).tolist()
    return Split.of(torch.cat([order[cuts[s] : cuts[s + 1]] for s in hand]) for hand in dealt)


def dirichlet(labels: Labels, clients: int, alpha: float, seed: int) -> Split:
    """Deal the rows of each label in proportions p ~ Dirichlet(alpha, ..., alpha) over the clients.

    Small alpha: each label sits with few clients; large alpha: nearly IID. A client that got nothing
    takes one row from the client that holds the most at that moment, so that every client has at least one.
    """
    labels = _labels(labels)
    _check(len(labels), clients)
    if not 0 < alpha < float("inf"):
        raise Mistake(f"alpha={alpha} must be positive and finite: try 0.5 for a strong skew")
    generator = _generator(seed)
    order = _by_label(labels, generator)
    _, counts = torch.unique(labels, return_counts=True)
    hands: list[list[Tensor]] = [[] for _ in range(clients)]
    for rows in torch.split_with_sizes(order, counts.tolist()):
        shares = _proportions(alpha, clients, generator).cumsum(0)[:-1]
        cuts = [0, *(shares * len(rows)).round().to(torch.int64).clamp(max=len(rows)).tolist(), len(rows)]
        for client, (start, end) in enumerate(pairwise(cuts)):
            hands[client].append(rows[start:end])
    return Split.of(_fill([torch.cat(hand).tolist() for hand in hands]))


def column(values: Labels) -> Split:
    """One client per distinct value (a hospital, a writer), clients in the sorted order of the values."""
    array = np.asarray(values)
    if array.ndim != 1 or not len(array):
        raise Mistake(f"a column of shape {array.shape} cannot split rows: give one value per row")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise Mistake("the column holds NaN, which is no client: fill or drop these rows")
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Split(torch.as_tensor(np.argsort(inverse, kind="stable")), torch.as_tensor(starts))


def _proportions(alpha: float, clients: int, generator: torch.Generator) -> Tensor:
    # Gamma(alpha) = Gamma(alpha + 1) * U^(1/alpha), kept as logarithms: with a small alpha the numbers
    # themselves underflow to zero and their ratios would be lost.
    first, second = torch.rand(2, clients, dtype=torch.float64, generator=generator).clamp(min=1e-300)
    logs: Tensor = torch.as_tensor(gammaincinv(alpha + 1, first.numpy())).log() + second.log() / alpha
    return logs.softmax(0)


def _fill(hands: list[list[int]]) -> list[list[int]]:
    most = [(-len(hand), client) for client, hand in enumerate(hands)]
    heapq.heapify(most)
    for hand in hands:
        if not hand:
            left, client = most[0]
            hand.append(hands[client].pop())
            heapq.heapreplace(most, (left + 1, client))
    return hands


def _by_label(labels: Tensor, generator: torch.Generator) -> Tensor:
    mixed = torch.randperm(len(labels), generator=generator)
    return mixed[labels[mixed].argsort(stable=True)]


def _labels(labels: Labels) -> Tensor:
    tensor = torch.as_tensor(labels)
    if tensor.dim() != 1:
        raise Mistake(f"labels of shape {tuple(tensor.shape)} cannot split rows: give one label per row")
    return tensor


def _check(count: int, clients: int) -> None:
    if clients < 1:
        raise Mistake(f"clients={clients} must be at least 1")
    if clients > count:
        raise Mistake(f"clients={clients} exceeds the {count} rows: each client needs at least one row")


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
