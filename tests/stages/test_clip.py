"""The adaptive bound: where it goes."""

import numpy as np
import pytest
import torch

from hush.rng import SecretSeed
from hush.spec import Context, Plan, Spec, Total
from hush.stages import AdaptiveClip, Clip


def context(count: int, clip: float | None = None, cohort: float | None = None) -> Context:
    plan = Plan(1, torch.zeros(3), None, float(cohort or count), float(count), clip)
    spec = Spec(3, clip=clip)
    return Context(spec, plan, np.arange(count), torch.ones(count), SecretSeed.simulated(0))


def test_clip() -> None:
    x = torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    cut = Clip(1.0).encode(x, context(3))
    torch.testing.assert_close(cut, torch.tensor([[0.6, 0.8, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]]))
    assert torch.equal(cut[1:], x[1:])


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
        clip = stage.decode(Total(stage.encode(x, ctx).double().sum(0), 200, 200.0), ctx).clip
    assert clip == pytest.approx(7.0, rel=0.05)


@pytest.mark.parametrize("noise", [1e6, -1e6])
def test_noise_cannot_throw_the_bound(noise: float) -> None:
    """One round moves it by at most exp(rate), whatever the noise."""
    stage, ctx = AdaptiveClip(1.0, rate=0.2), context(10, clip=2.0)
    total = stage.decode(Total(torch.tensor([0.0, 0.0, 0.0, noise], dtype=torch.float64), 10, 10.0), ctx)
    assert 2.0 * np.exp(-0.2) <= total.clip <= 2.0 * np.exp(0.2)
