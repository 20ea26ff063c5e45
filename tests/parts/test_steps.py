"""The server's move: momentum, plain and of what was sensed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context

from hush.catalogue.entries import ENTRIES
from hush.core.plain import Average
from hush.core.spec import Plan, Spec
from hush.errors import Mistake
from hush.federation.simulated import rounds
from hush.parts.stages import Sense
from hush.parts.steps import Momentum
from hush.random.seeds import SecretSeed


def means(count: int, size: int) -> torch.Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_momentum_by_its_formula() -> None:
    step, weights, optimizer = Momentum(0.35, 0.9), torch.ones(50), None
    found = means(4, 50)
    for mean in found:
        before = weights.clone()
        moved, optimizer = step.move(weights, None, mean, optimizer)
        assert torch.equal(weights, before)
        weights = moved
    kept = [sum(0.9 ** (t - k) * found[k] for k in range(t + 1)) for t in range(4)]
    torch.testing.assert_close(weights, 1 + 0.35 * torch.stack(kept).sum(0).float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(optimizer, kept[-1])


def test_without_momentum_it_is_the_average() -> None:
    weights, optimizer = torch.ones(50), None
    for mean in means(3, 50):
        moved, optimizer = Momentum(0.5, 0.0).move(weights, None, mean, optimizer)
        weights, _ = Average(0.5).move(weights, None, mean)
        assert torch.equal(moved, weights)


def test_only_the_live_weights_move() -> None:
    weights, live = torch.zeros(10), torch.tensor([1, 4, 7])
    moved, optimizer = Momentum(2.0).move(weights, live, torch.tensor([1.0, 2.0, 3.0]), None)
    assert moved.tolist() == [0, 2, 0, 0, 4, 0, 0, 6, 0, 0]
    assert optimizer is not None
    assert optimizer.shape == (3,)
    assert torch.equal(weights, torch.zeros(10))


@pytest.mark.parametrize("part", [False, True])
def test_momentum_of_what_was_sensed(part: bool) -> None:
    """It moves as momentum of the updates themselves does, where these are sparse; the optimizer stays compressed."""
    size, sense = 8000, Sense(0.2, 4, iterations=60)
    live = torch.arange(0, 2 * size, 2) if part else None
    weights = torch.zeros(2 * size if part else size)
    plan = Plan(1, weights, live, 1.0, 1.0)
    ctx = Context(Spec(size), plan, np.arange(1), torch.ones(1), SecretSeed.simulated(0))
    rng, updates = torch.Generator().manual_seed(0), torch.zeros(3, size)
    updates[torch.arange(3).repeat_interleave(20), torch.randperm(size, generator=rng)[:60]] = torch.randn(
        60, generator=rng
    )
    plain, sensed, true, optimizer = weights, weights, None, None
    for update in updates:
        plain, true = Momentum(0.35).move(plain, live, update.double(), true)
        mean = sense.encode(update[None], ctx)[0].double()
        sensed, optimizer = Momentum(0.35, sense=sense).move(sensed, live, mean, optimizer)
        assert optimizer is not None
        assert optimizer.shape == (1600,)
    torch.testing.assert_close(sensed, plain, rtol=1e-3, atol=1e-3)


def test_numbers_that_cannot_be() -> None:
    for rate in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(Mistake, match=f"rate={rate}"):
            Momentum(rate)
    for keep in (-0.1, 1.0, math.nan):
        with pytest.raises(Mistake, match=f"={keep} must be in"):
            Momentum(0.35, keep)


def test_the_released_model_is_an_average(task, settings) -> None:
    """a = sum of b^(T - t) w_t over sum of b^(T - t); clients train from w, and a checkpoint keeps both."""
    scheme = ENTRIES["fl-std-dp"].scheme(replace(settings, average=0.7))
    plain = ENTRIES["fl-std-dp"].scheme(settings)
    one = [report.state for report in rounds(scheme, task, rounds=4)]
    other = [report.state.weights.double() for report in rounds(plain, task, rounds=4)]
    for number, state in enumerate(one, 1):
        assert torch.equal(state.weights.double(), other[number - 1])
        shares = torch.tensor([0.7 ** (number - t) for t in range(1, number + 1)], dtype=torch.float64)
        wanted = (shares[:, None] * torch.stack(other[:number])).sum(0) / shares.sum()
        assert torch.allclose(state.released.double(), wanted, atol=1e-6)
    assert plain.averaged(None, one[0].weights, 1) is None
