"""Shares of noise, one by one."""

import math

import numpy as np
import pytest
import torch

from hush.rng import SecretSeed
from hush.spec import Context, Plan, Spec, Total
from hush.stages import Noise

SECRET = SecretSeed.simulated(9)


def context(members: list[int], floor: float, round: int = 1) -> Context:
    plan = Plan(round, torch.zeros(1), None, 4.0, floor)
    return Context(Spec(3, l2=0.5), plan, np.array(members), torch.ones(len(members)), SECRET)


@pytest.mark.parametrize("floor", [1.0, 2.8, 16.0])
def test_share(floor: float) -> None:
    """S sigma / sqrt(floor), each client's own."""
    x = torch.ones(2, 400_000)
    drawn = Noise(3.0).encode(x, context([5, 8], floor)) - x
    assert drawn.std(dim=1).tolist() == pytest.approx([1.5 / math.sqrt(floor)] * 2, rel=0.01)
    assert abs(float(torch.corrcoef(drawn)[0, 1])) < 0.01


def test_named_by_round_and_client() -> None:
    x = torch.zeros(1, 5)
    one = Noise(1.0).encode(x, context([5], 4.0))
    expected = 0.25 * SECRET.normal(5, "noise", 1, 5)
    torch.testing.assert_close(one[0], expected)
    assert torch.equal(one[0], Noise(1.0).encode(torch.zeros(2, 5), context([4, 5], 4.0))[1])
    assert not torch.equal(one, Noise(1.0).encode(x, context([5], 4.0, round=2)))
    assert not torch.equal(one, Noise(1.0).encode(x, context([6], 4.0)))


def test_the_input_is_left_alone() -> None:
    x = torch.zeros(1, 5)
    Noise(1.0).encode(x, context([5], 4.0))
    assert not x.any()


def test_the_server_adds_noise_only_where_nobody_did() -> None:
    body = torch.zeros(400_000, dtype=torch.float64)
    ctx = context([], 0.0)
    assert torch.equal(Noise(3.0).decode(Total(body, 1, 1.0), ctx).body, body)
    whole = Noise(3.0).decode(Total(body, 0, 0.0), ctx).body
    assert float(whole.std()) == pytest.approx(1.5, rel=0.01)
    assert not body.any()
