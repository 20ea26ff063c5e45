"""Two-bit coding is the paper's Algorithm 1 to the bit, refuses what it must, and hides nothing."""

import math
import re

import numpy as np
import pytest
import torch
from contexts import Context
from reference.twobit import mapping
from torch import Tensor

from hush.core.packing import Codes
from hush.core.protocols import Stage
from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import AdaptiveClip, Clip, Noise, Sign, Weigh
from hush.parts.stages.twobit import TwoBit, check_precision, paper_epsilon
from hush.random.seeds import SecretSeed

M = 0.3


def context(seats: list[int] | None, clip: float | None = None, size: int = 1) -> Context:
    count = len(seats or [])
    given = None if seats is None else np.array(seats, np.int64)
    plan = Plan(1, torch.zeros(1), None, float(count), 0.0, clip, given)
    return Context(Spec(size, clip=clip), plan, np.arange(count), torch.ones(count), SecretSeed.simulated(0))


def edges(m: float, p: int) -> list[float]:
    """Where bits turn over: zero, the bound and beyond, powers of two of it, and the numbers next to them."""
    turns = [m * 2.0**-k for k in range(-2, p + 2)]
    near = np.float32([value * (1 + e) for value in turns for e in (-(2.0**-23), 0.0, 2.0**-23)])
    odd = [0.0, 1e-45, 1e-38, 3e38, math.inf]
    return [s * v for v in [*near.tolist(), *odd, float(np.float32(m))] for s in (1.0, -1.0)] + [math.nan]


def numbers(pairs: list[tuple[int, int]]) -> list[float]:
    return [float(2 * (2 * sign + bit) - 3) for sign, bit in pairs]


@pytest.mark.parametrize("p", [3, 4, 5, 8, 16, 31, 32, 33, 53, 54, 55, 63, 64])
@pytest.mark.parametrize("m", [1.0, M, 2.0**-100, 1e30])
def test_algorithm_1_to_the_bit(p: int, m: float) -> None:
    """Every bit of every edge, and of random numbers, is the twin's: each row starts at another location."""
    rng = np.random.default_rng(p)
    values = edges(m, p) + (rng.normal(size=40) * min(m, 1e30)).astype(np.float32).tolist()
    seats = list(range(p + 3))
    x = torch.tensor([values] * len(seats), dtype=torch.float32)
    rows = TwoBit(p, bound=m).encode(x.clone(), context(seats))
    for row, given, seat in zip(rows.tolist(), x.tolist(), seats, strict=True):
        assert row == numbers(mapping(given, m, p, seat))


def test_pieces_are_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row longer than a piece, and not a multiple of it, goes on with the next location."""
    monkeypatch.setattr("hush.parts.stages.twobit.PIECE", 10)
    x = torch.randn(3, 101, generator=torch.Generator().manual_seed(1))
    rows = TwoBit(8, bound=1.0).encode(x.clone(), context([6, 0, 20]))
    for row, given, seat in zip(rows.tolist(), x.tolist(), [6, 0, 20], strict=True):
        assert row == numbers(mapping(given, 1.0, 8, seat))


def test_what_travels_is_two_bits_in_place() -> None:
    x = torch.randn(2, 9)
    rows = TwoBit(4, bound=1.0).encode(x, context([0, 1]))
    assert rows is x
    form = TwoBit(4, bound=1.0).spec(Spec(9)).form
    assert form == Codes(2)
    assert all(len(form.pack(row)) == 3 for row in rows)


def test_the_largest_number_keeps_all_its_bits() -> None:
    """Cut at 2^(p-1), as printed, the largest update would be sent as zero."""
    rows = TwoBit(8, bound=1.0).encode(torch.full((7, 1), 5.0), context(list(range(7))))
    assert rows.flatten().tolist() == [3.0] * 7


def test_its_spec() -> None:
    before = Spec(100)
    assert TwoBit(32, bound=M).spec(before) == Spec(100, form=Codes(2), clip=M, least=31, precision=32)
    assert TwoBit(32, bound=M).spec(Spec(100, clip=0.2)).clip == 0.2


@pytest.mark.parametrize("stages", [(Clip(1.0),), (AdaptiveClip(),), (Clip(1.0), Noise(1.0)), (Weigh(),), (Sign(),)])
def test_refused_behind_others(stages: tuple[Stage, ...]) -> None:
    spec = Spec(10)
    for stage in stages:
        spec = stage.spec(spec)
    with pytest.raises(Mistake, match=r"TwoBit\(32\) after"):
        TwoBit(32, bound=1.0).spec(spec)


@pytest.mark.parametrize("p", [-1, 0, 1, 2, 65])
def test_places(p: int) -> None:
    for refused in (lambda: TwoBit(p, bound=1.0), lambda: paper_epsilon(p), lambda: check_precision(p)):
        with pytest.raises(Mistake, match=f"p={p} "):
            refused()


@pytest.mark.parametrize("m", [0.0, -1.0, math.inf, math.nan, 1e-40, 1e40])
def test_bounds(m: float) -> None:
    with pytest.raises(Mistake, match=rf"bound={re.escape(str(m))} must be positive and finite"):
        TwoBit(32, bound=m)


def test_without_seats() -> None:
    with pytest.raises(Mistake, match="seats"):
        TwoBit(32, bound=1.0).encode(torch.zeros(0, 1), context(None))


def decoded(body: list[float], follow: bool, clip: float | None = None) -> tuple[list[float], float | None]:
    total = Total(torch.tensor(body, dtype=torch.float64), 4, 4.0)
    found = TwoBit(4, bound=2.0, follow=follow).decode(total, context(None, clip))
    return found.body.tolist(), found.clip


def test_the_bound_of_the_next_round() -> None:
    """Constant, or the largest number of the mean, which a mean of zeros leaves alone."""
    assert decoded([1.0, -2.0, 0.5], False) == ([2.0, -4.0, 1.0], 2.0)
    assert decoded([1.0, -2.0, 0.5], False, 0.5) == ([0.5, -1.0, 0.25], 0.5)
    assert decoded([1.0, -2.0, 0.5], True) == ([2.0, -4.0, 1.0], 1.0)
    assert decoded([1.0, -2.0, 0.5], True, 0.5) == ([0.5, -1.0, 0.25], 0.25)
    assert decoded([0.0, -0.0], True, 0.5) == ([0.0, 0.0], 0.5)
    assert decoded([2.0**-1000], True, 0.5)[1] == 2.0**-100


def test_the_paper_s_figure() -> None:
    """A, Figure 5: p = 4 has 0.69. It falls with p."""
    assert paper_epsilon(4) == pytest.approx(math.log(2), rel=1e-12)
    figures = [paper_epsilon(p) for p in range(3, 65)]
    assert figures == sorted(figures, reverse=True)
    assert paper_epsilon(3) == pytest.approx(math.log(3), rel=1e-12)


@pytest.mark.parametrize("p", [4, 32])
def test_one_bit_tells_two_updates_apart(p: int) -> None:
    """The paper's neighbours differ in one bit of one number. The server knows whom it asked for which bit.

    Whoever is in the seat that sends this bit is distinguished with probability 1, round after round: the outputs of
    neighbours share no value, so no finite epsilon holds, while the paper states ln(p/(p-2)). Over p-1 rounds, or
    p-1 parameters with the same number, everybody comes to that seat.
    """
    stage, place = TwoBit(p, bound=1.0), p - 3
    one = torch.zeros(1, 5)
    other = one.clone()
    other[0, 2] = 2.0 ** (place - (p - 1))  # the magnitude 2^place: the neighbour in one bit of one number

    def upload(update: Tensor, seat: int, draw: int) -> list[float]:
        ctx = context([seat], size=5)
        return stage.encode(update.clone(), Context(**{**vars(ctx), "secret": SecretSeed.simulated(draw)}))[0].tolist()

    seats = [seat for seat in range(p - 1) if (seat + 2) % (p - 1) == place]
    assert len(seats) == 1
    told = {draw: (upload(one, seats[0], draw), upload(other, seats[0], draw)) for draw in range(20)}
    # An upload is a function of update and seat: no draw of the client's changes it.
    assert {(a[2], b[2]) for a, b in told.values()} == {(1.0, 3.0)}
    assert all(upload(one, seat, 0) == upload(other, seat, 0) for seat in range(p - 1) if seat not in seats)
    assert paper_epsilon(p) < 1
