"""Encoding, votes and decoding are the paper's Algorithms 1 and 2 to the last bit, for every number of clients."""

import math
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from contexts import Context
from reference.twobit import majority, two_bit
from torch import Tensor

from hush.core.spec import Asked, Plan, Spec, Total, Uploads
from hush.errors import Aborted, Mistake
from hush.parts.aggregators.vote import BitVote, _majority
from hush.parts.stages.twobit import TwoBit
from hush.random.seeds import SecretSeed


def run(g: Tensor, seats: list[int], m: float, p: int, blocks: int = 7) -> Total:
    """One round of clients in these seats, in blocks."""
    stage, spec = TwoBit(p, bound=m), Spec(g.shape[1])
    plan = Plan(1, torch.zeros(1), None, float(len(seats)), 0.0, None, np.array(seats, np.int64))
    secret = SecretSeed.simulated(0)

    def uploads() -> Iterator[Uploads]:
        for first in range(0, len(seats), blocks):
            own = plan.to(slice(first, first + blocks))
            rows = g[first : first + blocks].clone()
            assert own.seats is not None
            rows = stage.encode(rows, Context(spec, own, own.seats, torch.ones(len(rows)), secret))
            yield Uploads(rows, torch.arange(first, first + len(rows)), own.seats)

    total = BitVote(p).combine(uploads(), Asked(g.shape[1]))
    return stage.decode(total, Context(spec, plan, np.arange(0), torch.ones(0), secret))


def updates(n: int, size: int, m: float, seed: int) -> Tensor:
    """Clients that agree somewhat, and numbers at the edges: zeros of both signs, m, beyond it, tiny."""
    rng = torch.Generator().manual_seed(seed)
    g = torch.randn(size, generator=rng) * m / 3 + torch.randn(n, size, generator=rng) * m / 6
    odd = torch.tensor([0.0, -0.0, m, -m, 2 * m, -3 * m, m * 1e-9, -1e-44, math.inf, -math.inf, math.nan])
    pick = torch.randint(0, 4 * len(odd), (n, size), generator=rng)
    return torch.where(pick < len(odd), odd[pick.clamp(max=len(odd) - 1)], g)


CASES = [(31, 32), (32, 32), (100, 32), (31, 4), (32, 4), (100, 4), (63, 64), (100, 64), (2, 3), (5, 3), (9, 10)]
CASES += [(17, 17), (40, 18), (33, 34), (60, 53), (54, 55), (7, 8), (300, 4)]


@pytest.mark.parametrize(("n", "p"), CASES)
@pytest.mark.parametrize("m", [1.0, 0.037])
def test_the_twin_agrees_exactly(n: int, p: int, m: float) -> None:
    """No tolerance: encode, combine and decode give the twin's bits, at odd sizes."""
    for size in (1, 8, 67):
        seats = np.random.default_rng(n).permutation(n).tolist()
        g = updates(n, size, m, n + p + size)
        total = run(g, seats, m, p)
        assert total.body.dtype == torch.float64
        assert total.body.tolist() == two_bit(g.tolist(), seats, m, p)
        assert (total.count, total.weight) == (n, n * (n - 1) / 2)


@pytest.mark.parametrize(("n", "p", "lost"), [(100, 32, 55), (40, 32, 9), (100, 4, 97), (64, 64, 1), (12, 5, 6)])
def test_survivors(n: int, p: int, lost: int) -> None:
    """Seats of those who dropped out stay empty; a group without anybody gives zeros."""
    seats = np.random.default_rng(n).permutation(n)[lost:].tolist()
    g = updates(len(seats), 45, 0.5, lost)
    assert run(g, seats, 0.5, p).body.tolist() == two_bit(g.tolist(), seats, 0.5, p)


def test_an_empty_group_is_zero() -> None:
    """All three clients in one group of two: the other bit has no voters."""
    g = torch.full((3, 4), 1.0)
    assert run(g, [0, 2, 4], 1.0, 3).body.tolist() == [0.75, 1.5, 0.75, 1.5]


def test_the_order_of_the_uploads_is_none() -> None:
    g, seats = updates(50, 33, 1.0, 3), np.random.default_rng(0).permutation(50)
    order = np.random.default_rng(1).permutation(50)
    bodies = [
        run(g, seats.tolist(), 1.0, 16, 50),
        run(g, seats.tolist(), 1.0, 16, 1),
        run(g[torch.from_numpy(order)], seats[order].tolist(), 1.0, 16, 8),
    ]
    assert len({tuple(total.body.tolist()) for total in bodies}) == 1


def test_pieces_are_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    g, seats = updates(33, 1000, 1.0, 3), list(range(33))
    whole = run(g, seats, 1.0, 32).body.tolist()
    monkeypatch.setattr("hush.parts.aggregators.vote.PIECE", 96)
    assert run(g, seats, 1.0, 32).body.tolist() == whole == two_bit(g.tolist(), seats, 1.0, 32)


def test_agreement_comes_back() -> None:
    """Where all clients have the same update, its first p-1 bits are all there."""
    row = torch.tensor([0.7, -0.3, 0.0, 1e-3, -1.0, 0.25])
    total = run(row.repeat(31, 1), list(range(31)), 1.0, 32)
    assert total.body / total.count == pytest.approx(row.double(), abs=2.0**-31)


@pytest.mark.parametrize("clients", range(1, 10))
def test_majorities(clients: int) -> None:
    """Every combination of votes, for 1, 0 or not at all, of a few clients."""
    votes = np.array(list(np.ndindex(*(3,) * min(clients, 6))), np.uint8).T
    votes = np.concatenate([votes, np.resize(votes, (clients - len(votes), votes.shape[1]))])
    ones, others = (votes == 1).astype(np.uint64), (votes == 2).astype(np.uint64)
    found = _majority(ones, others)
    assert found.tolist() == [majority([int(v) for v in column if v < 2]) for column in votes.T]


@pytest.mark.parametrize(("n", "p"), [(30, 32), (0, 32), (2, 4), (1, 3)])
def test_too_few(n: int, p: int) -> None:
    sentence = f"{n} uploads cannot fill the {p - 1} places of p={p}"
    with pytest.raises(Aborted, match=sentence):
        run(torch.zeros(n, 5), list(range(n)), 1.0, p)


def test_no_seats() -> None:
    with pytest.raises(Mistake, match="seats"):
        BitVote(3).combine([Uploads(torch.ones(2, 3), torch.ones(2), None)], Asked(3))


def test_numbers_that_are_no_codes() -> None:
    """Updates that no TwoBit coded are refused, not read as bits."""
    for row in ([0.5, 1.0], [0.0, 1.0], [5.0, 1.0], [math.nan, 1.0], [math.inf, 1.0], [1e9, -1.0], [257.0, 1.0]):
        with pytest.raises(Mistake, match="TwoBit"):
            BitVote(3).combine([Uploads(torch.tensor([row] * 2), torch.ones(2), np.arange(2))], Asked(2))


@pytest.mark.parametrize("p", [2, 65])
def test_places(p: int) -> None:
    with pytest.raises(Mistake, match=f"p={p} "):
        BitVote(p)


def test_blocks_are_not_kept() -> None:
    """An upload is kept as bits: at most the block before is still there as numbers."""
    seen: list[weakref.ref[Tensor]] = []

    def blocks() -> Iterator[Uploads]:
        for first in range(0, 6, 2):
            rows = torch.ones(2, 5)
            seen.append(weakref.ref(rows))
            yield Uploads(rows, torch.ones(2), np.arange(first, first + 2))
            del rows
            assert sum(ref() is not None for ref in seen) <= 1

    assert BitVote(4).combine(blocks(), Asked(5)).count == 6
