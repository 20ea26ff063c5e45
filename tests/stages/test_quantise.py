"""Whole numbers: of the right mean, and never longer than the Spec says."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import Mistake
from hush.packing import Codes, Integers
from hush.rng import SecretSeed
from hush.spec import Context, Plan, Spec, Total
from hush.stages import AdaptiveClip, Clip, Noise, Sign
from hush.stages.quantise import MOST, Quantise, rounded_norm

SECRET = SecretSeed.simulated(9)
PLAN = Plan(1, torch.zeros(1), None, 4.0, 4.0)


def context(spec: Spec, members: list[int], round: int = 1, secret: SecretSeed = SECRET) -> Context:
    return Context(spec, replace(PLAN, round=round), np.array(members), torch.ones(len(members)), secret)


def rows(count: int, size: int, length: float) -> torch.Tensor:
    x = torch.randn(count, size, generator=torch.Generator().manual_seed(size))
    return x * (length * (1 - 2.0**-22) / x.norm(dim=1, keepdim=True))


def test_the_bound_by_hand() -> None:
    """c = 3, d = 16: 3 + 4, or the root of 9 + 4 + sqrt(2 ln(1/beta)) (3 + 2)."""
    assert rounded_norm(3.0, 16, math.exp(-0.5)) == pytest.approx(math.sqrt(18))
    assert rounded_norm(3.0, 16, math.exp(-8)) == pytest.approx(math.sqrt(33))
    assert rounded_norm(3.0, 16, math.exp(-50)) == pytest.approx(7)
    found = Quantise(0.25, math.exp(-8)).spec(Spec(16, l2=0.75))
    assert (found.l2, found.form) == (pytest.approx(math.sqrt(33)), Integers(4))  # -5 to 5
    assert Quantise(10.0).spec(Spec(1, l2=0.1)).form == Integers(2)


@pytest.mark.parametrize("steps", [0.3, 5.0, 100.0])
@pytest.mark.parametrize("beta", [0.99, math.exp(-0.5), 1e-6])
def test_whole_numbers_within_the_bound(steps: float, beta: float) -> None:
    stage, spec = Quantise(0.61 / steps, beta), Spec(300, l2=0.61)
    x = rows(200, 300, 0.61)
    found = stage.encode(x.clone(), context(spec, list(range(200))))
    assert found.dtype == torch.int32
    out = stage.spec(spec)
    squares = (found.long() ** 2).sum(1)
    assert float(squares.max()) <= out.l2**2
    assert float(found.long().abs().sum(1).max()) <= min(math.sqrt(300) * out.l2, out.l2**2)
    assert float((found * stage.grid - x).abs().max()) < stage.grid * 1.0001
    for row in found[:3]:
        assert torch.equal(out.form.unpack(out.form.pack(row), 300), row)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=50),
    st.floats(1e-6, 1e6),
    st.floats(1e-5, 1e3),
    st.floats(1e-9, 1, exclude_max=True),
    st.integers(0, 2**32),
)
def test_the_norm_holds_always(row: list[float], bound: float, ratio: float, beta: float, seed: int) -> None:
    """Any row behind Clip; with beta near 1 most are rounded many times, or towards zero."""
    spec, stage = Clip(bound).spec(Spec(len(row))), Quantise(bound * ratio, beta)
    clipped = Clip(bound).encode(torch.tensor([row]) * (3 * bound), context(Spec(len(row)), [4]))
    whole = stage.encode(clipped, context(spec, [4], secret=SecretSeed.simulated(seed)))[0].tolist()
    assert math.sqrt(sum(k * k for k in whole)) <= stage.spec(spec).l2


def test_the_mean_is_the_update() -> None:
    """Of 20,000 clients with the same row, each number; its deviation is at most half a step."""
    x = rows(1, 40, 1.0)
    stage, spec = Quantise(0.05, 1e-9), Spec(40, l2=1.0)
    found = stage.encode(x.repeat(20_000, 1), context(spec, list(range(20_000))))
    total = Total(found.double().sum(0), 20_000, 20_000.0)
    mean = stage.decode(total, context(spec, [])).body / 20_000
    assert float((mean - x[0]).abs().max()) < 0.05 * 0.5 * 5 / math.sqrt(20_000)
    assert len(found.unique(dim=0)) > 1000


def test_what_rounding_again_may_cost() -> None:
    """sqrt(d) beta / (1 - beta) steps; in truth far less."""
    x = torch.full((20_000, 64), 1 / 8 - 2.0**-26)
    stage, spec = Quantise(0.25, 0.6), Spec(64, l2=1.0)
    found = stage.encode(x.clone(), context(spec, list(range(20_000)))).double()
    assert float((found.mean(0) - 0.5).norm()) < 8 * 0.6 / 0.4 / 10
    assert (
        float((found**2).sum(1).max())
        <= stage.spec(spec).l2 ** 2
        == pytest.approx(16 + 16 + math.sqrt(2 * math.log(1 / 0.6)) * 8)
    )


def test_in_the_memory_of_the_update() -> None:
    x = rows(3, 50, 1.0)
    found = Quantise(0.01).encode(x, context(Spec(50, l2=1.0), [1, 2, 3]))
    assert found.data_ptr() == x.data_ptr()


def test_named_by_round_and_client() -> None:
    def drawn(members: list[int], round: int = 1, secret: SecretSeed = SECRET) -> torch.Tensor:
        x = torch.full((len(members), 200), 0.05)
        return Quantise(0.1).encode(x, context(Spec(200, l2=1.0), members, round, secret))

    assert torch.equal(drawn([5])[0], drawn([4, 5])[1])
    others = [drawn([5]), drawn([6]), drawn([5], round=2), drawn([5], secret=SecretSeed.system())]
    assert len({tuple(row[0].tolist()) for row in others}) == 4


def test_signs_are_whole_already() -> None:
    spec = Sign().spec(Spec(30))
    assert spec.form == Codes(1)
    x = torch.tensor([[1.0, -1.0] * 15])
    assert torch.equal(Quantise(1.0).encode(x.clone(), context(spec, [0])), x.int())


def test_a_row_that_breaks_its_promise_becomes_zero() -> None:
    """NaN, or longer than the Spec says: what the noise was not sized for must not be sent."""
    x = torch.tensor([[math.nan, 0.1], [0.3, 0.4], [30.0, 40.0]])
    found = Quantise(0.1).encode(x, context(Spec(2, l2=0.5), [0, 1, 2]))
    assert (found[0].tolist(), found[2].tolist()) == ([0, 0], [0, 0])
    assert found[1].any()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Quantise(0.0), "grid=0.0 must be positive"),
        (lambda: Quantise(math.inf), "grid=inf must be positive and finite"),
        (lambda: Quantise(math.nan), "grid=nan must be positive"),
        (lambda: Quantise(0.1, 0.0), "beta=0.0 must be in"),
        (lambda: Quantise(0.1, 1.0), "beta=1.0 must be in"),
        (lambda: Quantise(0.1).spec(Spec(3)), r"Quantise\(0.1\) needs a bounded input: put Clip"),
        (lambda: Quantise(0.1).spec(Noise(1.0).spec(Spec(3, l2=1.0))), "after Noise rounds the noise"),
        (lambda: Quantise(0.1).spec(AdaptiveClip().spec(Spec(3))), "one grid for bounds that move"),
        (lambda: Quantise(0.1).spec(Quantise(0.1).spec(Spec(3, l2=1.0))), "after another Quantise"),
        (lambda: Quantise(1 / MOST).spec(Spec(3, l2=1.0)), "too fine for the bound 1"),
        (lambda: Quantise(1.0).spec(Spec(2**51, l2=1.0)), "too fine"),
    ],
)
def test_mistakes(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()
