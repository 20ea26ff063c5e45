"""Numbers without a bound: cut, rounded, and never so large that a sum of them wraps."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context
from hypothesis import given
from hypothesis import strategies as st

from hush.core.integers import Integers, centred
from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import Clip, FixedPoint, IntegerNoise, Noise, Quantise, Weigh
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(9)


def context(members: list[int], round: int = 1, secret: SecretSeed = SECRET) -> Context:
    plan = Plan(round, torch.zeros(1), None, 4.0, 4.0)
    return Context(Spec(3), plan, np.array(members), torch.ones(len(members)), secret)


@given(
    st.floats(1e-6, 1e6),
    st.integers(2, 32),
    st.integers(1, 100),
    st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6),
    st.integers(0, 2**32),
)
def test_a_sum_never_wraps(reach: float, bits: int, clients: int, row: list[float], seed: int) -> None:
    """As many rows as told, all alike, within the reach, at it or beyond it: no sum is past the modulus."""
    if 2 ** (bits - 1) - 1 < 2 * clients:
        with pytest.raises(Mistake, match=f"bits={bits} are too few to add {clients} numbers"):
            FixedPoint(reach, bits, clients)
        return
    stage, names = FixedPoint(reach, bits, clients), list(range(clients))
    x = torch.tensor([[*row, 1.0, -1.0, 1e30, -1e30]]).repeat(clients, 1) * reach
    found = stage.encode(x.clone(), context(names, secret=SecretSeed.simulated(seed)))
    assert found.dtype == torch.int32
    total = found.long().sum(0)
    assert int(total.abs().max()) < 2 ** (bits - 1)
    form = Integers(bits)
    assert all(torch.equal(form.unpack(form.pack(row), x.shape[1]), row) for row in found[:3])
    assert torch.equal(centred(total % 2**bits, bits), total.double())


@pytest.mark.parametrize("reach", [0.1, 0.3, 0.7, 1 / 3, 8.0, 104.0])
@pytest.mark.parametrize("clients", [1, 6, 100])
def test_a_reach_that_float32_rounds_up(reach: float, clients: int) -> None:
    """Rows are float32, so that what is cut is cut at the float32 number next to the reach, which may be above it."""
    x = torch.full((clients, 50), 2 * reach) * torch.tensor([1.0, -1.0] * 25)
    found = FixedPoint(reach, 32, clients).encode(x, context(list(range(clients))))
    total = found.long().sum(0)
    assert int(total.abs().max()) < 2**31
    assert bool((total.sign() == torch.tensor([1, -1] * 25)).all())


@pytest.mark.parametrize(("bits", "clients"), [(8, 20), (12, 100), (24, 7), (32, 2000)])
def test_the_mean_is_the_update(bits: int, clients: int) -> None:
    """Each number within a step, and without bias: 5 deviations of 1/2 a step each."""
    x = torch.randn(1, 500, generator=torch.Generator().manual_seed(bits)).clamp(-2, 2)
    stage = FixedPoint(2.0, bits, clients)
    top = 2 ** (bits - 1) - 1
    assert stage.grid == pytest.approx(2.0 * clients / (top - clients))
    found = stage.encode(x.repeat(clients, 1), context(list(range(clients))))
    # float32 has 24 digits, of which the last may be off where a step is less than that
    off = max(stage.grid, 2.0**-24)
    assert float((found.double() * stage.grid - x).abs().max()) <= off * 1.0001
    total = stage.decode(Total(found.double().sum(0), clients, float(clients)), context([]))
    assert total.body.dtype == torch.float64
    assert float((total.body / clients - x[0]).abs().max()) < 0.5 * stage.grid * 5 / math.sqrt(clients) + 2.0**-24


def test_what_is_beyond_the_reach_is_cut() -> None:
    stage = FixedPoint(0.5, 16, 4)
    found = stage.encode(torch.tensor([[0.5, -0.5, 7.0, -1e38, 0.0]]), context([3]))[0]
    assert found[0] == found[2] == -found[1] == -found[3]
    assert float(found[0]) * stage.grid == pytest.approx(0.5, abs=stage.grid)
    assert found[4] == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_becomes_zero(bad: float) -> None:
    """And the others stay what they were."""
    x = torch.full((3, 4), 0.3)
    x[1, 2] = bad
    found = FixedPoint(1.0, 16, 3).encode(x, context([0, 1, 2]))
    assert not found[1].any()
    assert found[0].all()
    assert found[2].all()


def test_in_the_memory_of_the_update() -> None:
    x = torch.full((3, 50), 0.3)
    found = FixedPoint(1.0, 16, 3).encode(x, context([1, 2, 3]))
    assert found.data_ptr() == x.data_ptr()


def test_named_by_round_and_client() -> None:
    def drawn(members: list[int], round: int = 1, secret: SecretSeed = SECRET) -> torch.Tensor:
        return FixedPoint(1.0, 8, 10).encode(torch.full((len(members), 200), 0.05), context(members, round, secret))

    assert torch.equal(drawn([5])[0], drawn([4, 5])[1])
    others = [drawn([5]), drawn([6]), drawn([5], round=2), drawn([5], secret=SecretSeed.system())]
    assert len({tuple(row[0].tolist()) for row in others}) == 4


def test_spec() -> None:
    """Of the same length, with whatever bound there was in its own units: none is stated in steps."""
    for before in (Spec(7), Weigh().spec(Spec(7))):
        assert FixedPoint(1.0, 20, 3).spec(before) == replace(before, form=Integers(20))
    with pytest.raises(Mistake, match="needs integers of bounded norm"):
        IntegerNoise(1.0).spec(FixedPoint(1.0, 20, 3).spec(Spec(7)))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: FixedPoint(0.0, 16, 3), "reach=0.0 must be positive and finite"),
        (lambda: FixedPoint(math.inf, 16, 3), "reach=inf must be positive and finite"),
        (lambda: FixedPoint(math.nan, 16, 3), "reach=nan must be positive"),
        (lambda: FixedPoint(1.0, 16, 0), "clients=0 must be at least 1"),
        (lambda: FixedPoint(1.0, 1, 3), "bits=1 must be from 2 to 32"),
        (lambda: FixedPoint(1.0, 33, 3), "bits=33 must be from 2 to 32"),
        (lambda: FixedPoint(1.0, 5, 8), "bits=5 are too few to add 8 numbers: take more"),
        (lambda: FixedPoint(1.0, 16, 3).spec(Noise(1.0).spec(Spec(3, l2=1.0))), "after Noise rounds the noise"),
        (lambda: FixedPoint(1.0, 16, 3).spec(Quantise(9.0, 9).spec(Spec(3, l2=1.0))), "one rounding is enough"),
        (lambda: FixedPoint(1.0, 16, 3).spec(FixedPoint(1.0, 16, 3).spec(Spec(3))), "one rounding is enough"),
    ],
)
def test_mistakes(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()


def test_a_bound_in_front_of_it_is_no_bound_behind_it() -> None:
    """Its steps are not those of Clip: noise behind both would be sized by a bound that no longer holds."""
    behind = FixedPoint(1.0, 20, 3).spec(Clip(0.5).spec(Spec(7)))
    with pytest.raises(Mistake):
        IntegerNoise(1.0).spec(behind)
