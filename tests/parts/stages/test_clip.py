"""The bound holds for the very numbers that travel, and the adaptive one goes where it should."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from contexts import Context
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import AdaptiveClip, Clip
from hush.parts.stages.clip import LEAST
from hush.random.seeds import SecretSeed


def context(count: int, clip: float | None = None, cohort: float | None = None) -> Context:
    plan = Plan(1, torch.zeros(3), None, float(cohort or count), float(count), clip)
    spec = Spec(3, clip=clip)
    return Context(spec, plan, np.arange(count), torch.ones(count), SecretSeed.simulated(0))


def test_clip() -> None:
    x = torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    cut = Clip(1.0).encode(x, context(3))
    torch.testing.assert_close(cut, torch.tensor([[0.6, 0.8, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]]))
    assert torch.equal(cut[1:], x[1:])


def exact(row: torch.Tensor) -> Fraction:
    """The squared norm of the numbers as they are, without rounding."""
    return sum((Fraction(v) ** 2 for v in row.tolist()), Fraction(0))


whole = st.floats(width=32, allow_nan=False, allow_infinity=False)
# As hypothesis draws them, and of one size: huge, tiny, around the least normal number, and below it.
rows = st.lists(whole, min_size=1, max_size=8) | st.tuples(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8), st.integers(-149, 127)
).map(lambda drawn: [v * 2.0 ** drawn[1] for v in drawn[0]])
bounds = st.floats(LEAST, 2.0**-90) | st.floats(1e-6, 1e6) | st.floats(1e30, 1e38)


@settings(max_examples=500)
@given(row=rows, bound=bounds)
@example(row=[3.4e38] * 3, bound=LEAST)
@example(row=[2.0**-126] * 8, bound=LEAST)
@example(row=[2.0**127, 2.0**-23], bound=1.0)
@example(row=[0.6, 0.8], bound=1.0)
def test_the_bound_holds_exactly(row: list[float], bound: float) -> None:
    """In rational arithmetic; and no more is cut than rounding asks for."""
    x = torch.tensor([row], dtype=torch.float32)
    sent = Clip(bound).encode(x, context(1))[0]
    assert exact(sent) <= Fraction(bound) ** 2
    before, after = math.sqrt(exact(x[0])), math.sqrt(exact(sent))
    if bound > 2.0**-60:  # the numbers of a smaller row are on the grid of the subnormal ones
        assert after == pytest.approx(min(before, bound), rel=1e-6)


@settings(max_examples=200)
@given(row=rows, bound=st.floats(1e-6, 1e6), weight=st.floats(1e-3, 1e3))
def test_the_joint_bound_holds_exactly(row: list[float], bound: float, weight: float) -> None:
    """With the count, which is most of the norm where its weight is large; size and norm as in Spec."""
    stage = AdaptiveClip(bound, weight=weight)
    sent = stage.encode(torch.tensor([row], dtype=torch.float32), context(1))[0]
    spec = stage.spec(Spec(len(row)))
    assert len(sent) == spec.size
    assert exact(sent) <= Fraction(spec.l2) ** 2


@pytest.mark.parametrize("size", [1000, 300_000])
def test_the_bound_holds_for_long_rows(size: int) -> None:
    """Where rounding is all in one direction: equal numbers, scaled to one that is rounded up."""
    for value in torch.linspace(0.5, 1.0, 20).tolist():
        sent = Clip(0.7).encode(torch.full((1, size), value), context(1))[0]
        assert size * Fraction(float(sent[0])) ** 2 <= Fraction(0.7) ** 2
        assert len(set(sent.tolist())) == 1


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_nothing(wrong: float) -> None:
    """And its neighbours are as they would be without it."""
    x = torch.tensor([[3.0, 4.0, 0.0], [1.0, wrong, 1.0], [0.3, 0.4, 0.0]])
    cut = Clip(1.0).encode(x, context(3))
    assert cut[1].tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(cut[[0, 2]], Clip(1.0).encode(x[[0, 2]], context(2)))
    assert AdaptiveClip(1.0).encode(x, context(3))[1].tolist() == pytest.approx([0, 0, 0, 0.1])


def test_a_row_is_cut_alike_in_any_block() -> None:
    """Bit for bit, next to short rows and long ones."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 1001, generator=generator) * torch.logspace(-3, 3, 40)[:, None]
    whole = Clip(1.0).encode(x, context(40))
    for row in range(40):
        assert torch.equal(Clip(1.0).encode(x[row : row + 1], context(1))[0], whole[row])


def test_the_input_is_left_alone() -> None:
    x = torch.tensor([[3.0, 4.0, 0.0], [1.0, math.inf, 1.0]])
    kept = x.clone()
    Clip(1.0).encode(x, context(2))
    AdaptiveClip(1.0).encode(x, context(2))
    assert torch.equal(x, kept)


def test_no_bound_below_what_float32_carries() -> None:
    for stage in (Clip, AdaptiveClip):
        with pytest.raises(Mistake, match="clip=1e-38 must be positive and finite, and at least"):
            stage(1e-38)
    ctx = context(10, clip=LEAST)
    total = AdaptiveClip(1.0).decode(Total(torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64), 10, 10.0), ctx)
    assert total.clip == LEAST


def test_the_count_says_who_was_within() -> None:
    """c (b - 1/2) with c = weight S; the bound itself counts as within."""
    x = torch.tensor([[3.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    sent = AdaptiveClip(1.0, weight=0.4).encode(x, context(3))
    assert sent[:, -1].tolist() == pytest.approx([-0.2, 0.2, 0.2])


@pytest.mark.parametrize(("within", "expected"), [(10, 2.0 * np.exp(-0.1)), (5, 2.0), (0, 2.0 * np.exp(0.1))])
def test_where_the_bound_goes(within: int, expected: float) -> None:
    """All within: down. None within: up. As many as the quantile asks: it stays."""
    stage = AdaptiveClip(1.0, quantile=0.5, rate=0.2, weight=0.4)
    norms = torch.where(torch.arange(10) < within, 1.0, 3.0)
    x = torch.stack([norms, torch.zeros(10), torch.zeros(10)], 1)
    ctx = context(10, clip=2.0)
    body = stage.encode(x, ctx).double().sum(0)
    total = stage.decode(Total(body, 10, 10.0), ctx)
    assert total.clip == pytest.approx(expected)
    assert total.body.shape == (3,)


def test_the_bound_finds_the_quantile() -> None:
    """Norms uniform on (0, 10): the bound settles where 70 % are within."""
    stage, clip = AdaptiveClip(0.1, quantile=0.7, rate=0.2), 0.1
    norms = torch.linspace(0.01, 10, 200)
    x = torch.stack([norms, torch.zeros(200), torch.zeros(200)], 1)
    for _ in range(150):
        ctx = context(200, clip=clip)
        clip = stage.decode(Total(stage.encode(x.clone(), ctx).double().sum(0), 200, 200.0), ctx).clip
    assert clip == pytest.approx(7.0, rel=0.05)


@pytest.mark.parametrize("noise", [1e6, -1e6])
def test_noise_cannot_throw_the_bound(noise: float) -> None:
    """One round moves it by at most exp(rate), whatever the noise."""
    stage, ctx = AdaptiveClip(1.0, rate=0.2), context(10, clip=2.0)
    total = stage.decode(Total(torch.tensor([0.0, 0.0, 0.0, noise], dtype=torch.float64), 10, 10.0), ctx)
    assert 2.0 * np.exp(-0.2) <= total.clip <= 2.0 * np.exp(0.2)
