"""Shares of noise, one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context

from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.parts.stages import Noise
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(9)


def context(members: list[int], floor: float, round: int = 1) -> Context:
    plan = Plan(round, torch.zeros(1), None, 4.0, floor)
    return Context(Spec(3, l2=0.5), plan, np.array(members), torch.ones(len(members)), SECRET)


@pytest.mark.parametrize("floor", [1.0, 2.8, 16.0])
def test_share(floor: float) -> None:
    """S sigma / sqrt(floor), each client's own."""
    x = torch.ones(2, 400_000)
    drawn = Noise(3.0).encode(x.clone(), context([5, 8], floor)) - x
    assert drawn.std(dim=1).tolist() == pytest.approx([1.5 / math.sqrt(floor)] * 2, rel=0.01)
    assert abs(float(torch.corrcoef(drawn)[0, 1])) < 0.01


def test_named_by_round_and_client() -> None:
    def drawn(members: list[int], round: int = 1) -> torch.Tensor:
        return Noise(1.0).encode(torch.zeros(len(members), 5), context(members, 4.0, round))

    torch.testing.assert_close(drawn([5]), 0.25 * SECRET.add_normals(torch.zeros(1, 5), 1.0, [5], "noise", 1))
    assert torch.equal(drawn([5])[0], drawn([4, 5])[1])
    assert not torch.equal(drawn([5]), drawn([5], round=2))
    assert not torch.equal(drawn([5]), drawn([6]))


@pytest.mark.parametrize("l2", [1e-37, 1e37])
def test_shares_that_float32_cannot_carry(l2: float) -> None:
    """Noise that rounds to nothing would be no noise."""
    ctx = replace(context([5], 4.0), spec=Spec(3, l2=l2))
    with pytest.raises(Mistake, match="shares of"):
        Noise(1.0).encode(torch.zeros(1, 3), ctx)


def test_the_server_adds_what_is_missing() -> None:
    body = torch.zeros(400_000, dtype=torch.float64)
    ctx = context([], 0.0)
    assert torch.equal(Noise(3.0).decode(Total(body, 4, 4.0), context([], 4.0)).body, body)
    three = Noise(3.0).decode(Total(body, 1, 1.0), context([], 4.0)).body
    assert float(three.std()) == pytest.approx(1.5 * (3 / 4) ** 0.5, rel=0.01)
    whole = Noise(3.0).decode(Total(body, 0, 0.0), ctx).body
    assert float(whole.std()) == pytest.approx(1.5, rel=0.01)
    assert not body.any()
