"""The Gram matrices of clients' rows, kept over the rounds within a number of bytes."""

import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from hush.core.task import Block, Population

MOST = 2**26  # bytes that are kept, whatever else may be
LINE = 8  # numbers of float64 in a line of the cache
NEAR = 2**16  # numbers of float64 that stay in the cache
SMALL = 2**18  # multiplications; beyond, numpy's BLAS has threads of its own, which keep ours waiting


@dataclass
class _Kept:
    """Of every client with so many rows its matrix, once it was made; version: of the rows, which may be changed."""

    gram: Tensor
    made: Tensor
    biased: bool
    version: int


_known: WeakKeyDictionary[Population, dict[int, _Kept]] = WeakKeyDictionary()  # by the number of rows
_lock = threading.Lock()


def grams(block: Block, x: Tensor, biased: bool, memory: int) -> Tensor:
    """X_k X_k' of all rows of each client, in float64, with a column of ones where `biased`.

    Each is made by a call of its own, so that its bits do not depend on who else is in the block, or on what was kept.
    """
    kept = _store(block, x.shape[1], biased, memory)
    if kept is None:
        return _each(x, torch.arange(len(x)), biased)
    places = torch.from_numpy(block.places)
    with _lock:
        made = kept.made.index_select(0, places)
        found = kept.gram.index_select(0, places)
    if bool(made.all()):
        return found
    new = (~made).nonzero().flatten()
    # Outside of the lock: other blocks make theirs at the same time.
    found[new] = fresh = _each(x, new, biased)
    with _lock:
        kept.gram[places[new]] = fresh
        kept.made[places[new]] = True
    return found


def gram(rows: Tensor, biased: bool = False) -> Tensor:
    """X X' in float64, with a column of ones where `biased`."""
    wide = rows.double()
    return wide @ wide.t() + 1 if biased else wide @ wide.t()


def _each(x: Tensor, which: Tensor, biased: bool) -> Tensor:
    """Of each of these clients by the same call on numbers that begin at the same place of a line of the cache.

    Where matrices are small, numpy calls its BLAS for one after the other, without Python and its lock in between, and
    for half of each, since the second factor is the first one transposed. torch.bmm may take several together.
    """
    _, rows, width = x.shape
    found = torch.empty(len(which), rows, rows, dtype=torch.float64)
    some = max(1, NEAR // max(1, rows * width))  # at a time: their rows in float64 stay in the cache
    wide = torch.empty(min(some, len(which)), -(-rows * width // LINE) * LINE, dtype=torch.float64)
    for those, out in zip(torch.split(which, some), torch.split(found, some), strict=True):
        own = wide[: len(those), : rows * width].view(len(those), rows, width)
        own.copy_(x.index_select(0, those))
        if rows**2 * width <= SMALL:
            numbers = own.numpy()
            with np.errstate(all="ignore"):  # rows that are not finite: who uses the matrix looks at that
                np.matmul(numbers, numbers.transpose(0, 2, 1), out=out.numpy())
        else:
            for each, into in zip(own.unbind(), out.unbind(), strict=True):
                torch.mm(each, each.t(), out=into)
    return found.add_(1) if biased else found


def _store(block: Block, rows: int, biased: bool, memory: int) -> _Kept | None:
    held, inputs = block.population, block.data.inputs
    if len(held) * rows**2 * 8 > min(MOST, memory):
        return None
    version = inputs._version if isinstance(inputs, Tensor) and not inputs.is_inference() else 0
    with _lock:
        sizes = _known.setdefault(held, {})
        kept = sizes.get(rows)
        if kept is None or (kept.biased, kept.version) != (biased, version):
            made = torch.zeros(len(held), dtype=torch.bool)
            kept = _Kept(torch.empty((len(held), rows, rows), dtype=torch.float64), made, biased, version)
            sizes[rows] = kept
        return kept
