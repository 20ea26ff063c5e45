"""Integers: of the right mean, and never longer than the Spec says."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context
from hypothesis import given
from hypothesis import strategies as st

from hush.core.integers import Integers, centred
from hush.core.packing import Codes
from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import AdaptiveClip, Clip, FixedPoint, Noise, Quantise, Rotate, Sign
from hush.privacy.grids import MOST, rounded_norm
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(9)
PLAN = Plan(1, torch.zeros(1), None, 4.0, 4.0)


def context(spec: Spec, members: list[int], round: int = 1, secret: SecretSeed = SECRET) -> Context:
    return Context(spec, replace(PLAN, round=round), np.array(members), torch.ones(len(members)), secret)


def rows(count: int, size: int, length: float) -> torch.Tensor:
    x = torch.randn(count, size, generator=torch.Generator().manual_seed(size))
    return x * (length * (1 - 2.0**-22) / x.norm(dim=1, keepdim=True))


def test_the_bound_by_hand() -> None:
    """c = 3, d = 16: 3 + 4, or the root of 9 + 4 + sqrt(2 ln(1/beta)) (3 + 2); in steps, whatever the bound was."""
    for beta, square in ((math.exp(-0.5), 18), (math.exp(-8), 33), (math.exp(-50), 49)):
        for bound in (0.75, 1e-9, 1e9):
            found = Quantise(3.0, 7, beta).spec(Spec(16, l2=bound))
            assert (found.l2, found.size, found.form) == (pytest.approx(math.sqrt(square)), 16, Integers(7))
    assert Quantise(3.0, 7).spec(Spec(16, l2=0.75)).l2 == pytest.approx(math.sqrt(18))


@pytest.mark.parametrize("steps", [0.3, 5.0, 100.0])
@pytest.mark.parametrize("beta", [0.99, math.exp(-0.5), 1e-6])
def test_whole_numbers_within_the_bound(steps: float, beta: float) -> None:
    stage, spec = Quantise(steps, 9, beta), Spec(300, l2=0.61)
    x, grid = rows(200, 300, 0.61), 0.61 / steps
    found = stage.encode(x.clone(), context(spec, list(range(200))))
    assert found.dtype == torch.int32
    out = stage.spec(spec)
    squares = (found.long() ** 2).sum(1)
    assert float(squares.max()) <= out.l2**2
    assert float(found.long().abs().sum(1).max()) <= min(math.sqrt(300) * out.l2, out.l2**2)
    assert float((found * grid - x).abs().max()) < grid * 1.0001
    for row in found[:3]:
        assert torch.equal(out.form.unpack(out.form.pack(row), 300), row)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=50),
    st.floats(1e-6, 1e6),
    st.floats(1e-3, 1e5),
    st.floats(1e-9, 1, exclude_max=True),
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
)
def test_the_norm_holds_always(
    row: list[float], bound: float, steps: float, beta: float, seed: int, adaptive: bool, rotated: bool
) -> None:
    """Any row behind either clip, turned or not; with beta near 1 most are rounded many times, or towards zero."""
    stages = [AdaptiveClip(bound) if adaptive else Clip(bound), *([Rotate()] * rotated), Quantise(steps, 20, beta)]
    x, spec = torch.tensor([row]) * (3 * bound), Spec(len(row))
    for stage in stages:
        x = stage.encode(x, context(spec, [4], secret=SecretSeed.simulated(seed)))
        spec = stage.spec(spec)
    assert x.shape == (1, spec.size)
    assert math.sqrt(sum(k * k for k in x[0].tolist())) <= spec.l2 == rounded_norm(steps, spec.size, beta)


def test_the_mean_is_the_update() -> None:
    """Of 20,000 clients with the same row, each number; its deviation is at most half a step."""
    x = rows(1, 40, 1.0)
    stage, spec = Quantise(20.0, 9, 1e-9), Spec(40, l2=1.0)
    found = stage.encode(x.repeat(20_000, 1), context(spec, list(range(20_000))))
    total = Total(found.double().sum(0), 20_000, 20_000.0)
    mean = stage.decode(total, context(spec, [])).body / 20_000
    assert float((mean - x[0]).abs().max()) < 0.05 * 0.5 * 5 / math.sqrt(20_000)
    assert len(found.unique(dim=0)) > 1000


def test_what_rounding_again_may_cost() -> None:
    """sqrt(d) beta / (1 - beta) steps; in truth far less."""
    x = torch.full((20_000, 64), 1 / 8 - 2.0**-26)
    stage, spec = Quantise(4.0, 9, 0.6), Spec(64, l2=1.0)
    found = stage.encode(x.clone(), context(spec, list(range(20_000)))).double()
    assert float((found.mean(0) - 0.5).norm()) < 8 * 0.6 / 0.4 / 10
    assert (
        float((found**2).sum(1).max())
        <= stage.spec(spec).l2 ** 2
        == pytest.approx(16 + 16 + math.sqrt(2 * math.log(1 / 0.6)) * 8)
    )


def test_the_grid_follows_the_bound() -> None:
    """Rows and bound a thousand times larger are the same integers, and come back a thousand times larger."""
    x = rows(3, 50, 1.0)
    near, far = Spec(50, l2=1.0), Spec(50, l2=1024.0)
    stage = Quantise(30.0, 12)
    found = stage.encode(x.clone(), context(near, [1, 2, 3]))
    assert torch.equal(found, stage.encode(x * 1024, context(far, [1, 2, 3])))
    total = Total(found.double().sum(0), 3, 3.0)
    small, large = (stage.decode(total, context(spec, [])).body for spec in (near, far))
    assert torch.equal(small * 1024, large)
    assert torch.equal(small, total.body * (1.0 / 30.0))


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize(("size", "weight"), [(300, 0.2), (9000, 0.2), (300, 2.0)])
def test_the_count_of_an_adaptive_clip(size: int, weight: float, rotated: bool) -> None:
    """Goes and comes back with the update; turned, it is spread over all numbers, so that a sum has room for it."""
    clip, stage = AdaptiveClip(0.7, weight=weight), Quantise(60.0, 16)
    stages = [clip, Rotate(3), stage] if rotated else [clip, stage]
    specs = [Spec(size)]
    for part in stages:
        specs.append(part.spec(specs[-1]))
    assert (specs[-1].clip, specs[-2].l2) == (0.7, specs[1].l2)
    clients = list(range(400))
    x = rows(400, size, 1.0)
    x[:300] *= 0.1  # 300 within the bound, 100 beyond it
    expected = clip.encode(x.clone(), context(Spec(size), clients)).double().sum(0)
    assert float(expected[-1]) == pytest.approx(100 * 0.7 * weight, rel=1e-5)
    for part, spec in zip(stages, specs, strict=False):
        x = part.encode(x, context(spec, clients))
    assert float((x.long() ** 2).sum(1).max()) <= specs[-1].l2 ** 2
    total = Total(x.double().sum(0), 400, 400.0)
    if rotated:
        assert float(total.body.abs().max()) < 6 * float(total.body.std())
    for part, spec in zip(stages[:0:-1], specs[-2:0:-1], strict=True):
        total = part.decode(total, context(spec, []))
    assert total.body.numel() == size + 1
    grid = specs[1].l2 / 60
    assert float((total.body - expected).abs().max()) < 0.5 * grid * 5.5 * math.sqrt(400)
    plan = replace(PLAN, cohort=400.0)
    moved = clip.decode(total, replace(context(Spec(size), []), plan=plan)).clip
    fraction = float(total.body[-1]) / (0.7 * weight) / 400 + 0.5
    assert moved == pytest.approx(0.7 * math.exp(-0.2 * (fraction - 0.5)))
    assert fraction == pytest.approx(0.75, abs=0.5 * grid * 5 / math.sqrt(400) / (0.7 * weight))


def test_in_the_memory_of_the_update() -> None:
    x = rows(3, 50, 1.0)
    found = Quantise(100.0, 9).encode(x, context(Spec(50, l2=1.0), [1, 2, 3]))
    assert found.data_ptr() == x.data_ptr()


def test_named_by_round_and_client() -> None:
    def drawn(members: list[int], round: int = 1, secret: SecretSeed = SECRET) -> torch.Tensor:
        x = torch.full((len(members), 200), 0.05)
        return Quantise(10.0, 9).encode(x, context(Spec(200, l2=1.0), members, round, secret))

    assert torch.equal(drawn([5])[0], drawn([4, 5])[1])
    others = [drawn([5]), drawn([6]), drawn([5], round=2), drawn([5], secret=SecretSeed.system())]
    assert len({tuple(row[0].tolist()) for row in others}) == 4


def test_signs_are_whole_already() -> None:
    spec = Sign().spec(Spec(30))
    assert spec.form == Codes(1)
    x = torch.tensor([[1.0, -1.0] * 15])
    whole = Quantise(math.sqrt(30), 9).encode(x.clone(), context(spec, [0]))
    assert torch.equal(whole, x.int())


def test_a_row_that_breaks_its_promise_becomes_zero() -> None:
    """NaN, or longer than the Spec says: what the noise was not sized for must not be sent."""
    x = torch.tensor([[math.nan, 0.1], [0.3, 0.4], [30.0, 40.0]])
    found = Quantise(5.0, 9).encode(x, context(Spec(2, l2=0.5), [0, 1, 2]))
    assert (found[0].tolist(), found[2].tolist()) == ([0, 0], [0, 0])
    assert found[1].any()


@given(st.integers(2, 32), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=9))
def test_any_sum_is_centred(bits: int, numbers: list[int]) -> None:
    """From float64 sums of any size, or from residues: the same numbers around 0, and the input as it was."""
    body = torch.tensor([float(sum(numbers)), float(-sum(numbers))], dtype=torch.float64)
    half = 2 ** (bits - 1)
    expected = [(sign * sum(numbers) + half) % 2**bits - half for sign in (1, -1)]
    found = centred(body, bits)
    assert (found.dtype, found.tolist()) == (torch.float64, expected)
    assert centred(torch.tensor([k % 2**bits for k in expected]), bits).tolist() == expected
    assert body.tolist() == [sum(numbers), -sum(numbers)]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Quantise(0.0, 9), "steps=0.0 must be positive"),
        (lambda: Quantise(math.inf, 9), "steps=inf must be positive and finite"),
        (lambda: Quantise(math.nan, 9), "steps=nan must be positive"),
        (lambda: Quantise(9.0, 1), "bits=1 must be from 2 to 32"),
        (lambda: Quantise(9.0, 33), "bits=33 must be from 2 to 32"),
        (lambda: Quantise(9.0, 9, 0.0), "beta=0.0 must be in"),
        (lambda: Quantise(9.0, 9, 1.0), "beta=1.0 must be in"),
        (lambda: Quantise(9.0, 9).spec(Spec(3)), r"Quantise\(9\) needs a bounded input: put Clip\(c\) .* FixedPoint"),
        (lambda: Quantise(9.0, 9).spec(Noise(1.0).spec(Spec(3, l2=1.0))), "after Noise rounds the noise"),
        (lambda: Quantise(9.0, 9).spec(Quantise(9.0, 9).spec(Spec(3, l2=1.0))), "one rounding is enough"),
        (lambda: Quantise(9.0, 9).spec(FixedPoint(1.0, 9, 3).spec(Spec(3, l2=1.0))), "one rounding is enough"),
        (lambda: Quantise(MOST, 9).spec(Spec(3, l2=1.0)), "of 3 numbers is too fine: take at most"),
        (lambda: Quantise(1.0, 9).spec(Spec(2**51, l2=1.0)), "too fine"),
    ],
)
def test_mistakes(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()
