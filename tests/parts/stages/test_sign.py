"""One bit per weight: signs, zeros, ties, and what they may stand beside."""

import math

import numpy as np
import pytest
import torch
from contexts import Context

from hush.core.packing import Codes, Floats
from hush.core.spec import Plan, Spec, Total
from hush.errors import Mistake
from hush.federation import messages
from hush.parts.stages import AdaptiveClip, Clip, Noise, Sign, Weigh
from hush.parts.steps import SignStep
from hush.random.seeds import SecretSeed


def context(size: int, clients: int, round: int = 1) -> Context:
    plan = Plan(round, torch.zeros(size), None, float(clients), float(clients))
    return Context(Spec(size), plan, np.arange(clients), torch.ones(clients), SecretSeed.simulated(0))


def test_signs_of_what_is_not_zero() -> None:
    x = torch.tensor([[1e-30, -2.0, 3.0, -math.inf, math.inf]])
    assert Sign().encode(x, context(5, 1)).tolist() == [[1, -1, 1, -1, 1]]


def test_zeros_get_random_signs_of_their_own() -> None:
    size = 100_000
    ctx = context(size, 3)
    first = Sign().encode(torch.zeros(3, size), ctx)
    assert bool((first.abs() == 1).all())
    assert torch.equal(first, Sign().encode(torch.zeros(3, size), ctx))
    later = Sign().encode(torch.zeros(3, size), context(size, 3, round=2))
    assert (torch.corrcoef(torch.cat([first, later])) - torch.eye(6)).abs().max() < 5 / math.sqrt(size)
    assert first.mean(1).abs().max() < 5 / math.sqrt(size)


def test_a_row_does_not_depend_on_the_block() -> None:
    x = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)).relu()
    together = Sign().encode(x.clone(), context(50, 3))
    for client in range(3):
        ctx = context(50, 3)
        alone = Context(ctx.spec, ctx.plan, np.array([client]), ctx.sizes[:1], ctx.secret)
        assert torch.equal(Sign().encode(x[client : client + 1].clone(), alone)[0], together[client])


def test_not_a_number_says_nothing() -> None:
    x = torch.full((1, 64), math.nan)
    assert torch.equal(Sign().encode(x, context(64, 1)), Sign().encode(torch.zeros(1, 64), context(64, 1)))


def test_the_majority_moves_and_a_tie_is_drawn() -> None:
    body = torch.tensor([3.0, -1.0, 1.0, 0.0] * 5000, dtype=torch.float64)
    found = Sign().decode(Total(body, 3, 3.0), context(20_000, 3)).body
    assert found[:3].tolist() == [1, -1, 1]
    ties = found[3::4]
    assert bool((ties.abs() == 1).all())
    assert abs(float(ties.mean())) < 5 / math.sqrt(5000)
    moved, _ = SignStep(0.25).move(torch.zeros(20_000), None, found / 3)
    assert torch.equal(moved, 0.25 * found.float())
    some, _ = SignStep(0.25).move(torch.zeros(6), torch.tensor([1, 4]), torch.tensor([-0.1, 2.0]))
    assert some.tolist() == [0, -0.25, 0, 0, 0.25, 0]


def test_a_bit_each() -> None:
    spec = Sign().spec(Spec(9))
    assert (spec.form, spec.l2, spec.noise) == (Codes(1), 3.0, None)
    noisy = Noise(1.0).spec(spec)
    assert (noisy.form, noisy.l2) == (Floats(), 3.0)


@pytest.mark.parametrize("before", [Weigh(), Clip(1.0), AdaptiveClip()])
def test_refused_behind_what_it_would_undo(before) -> None:
    with pytest.raises(Mistake, match="Sign"):
        Sign().spec(before.spec(Spec(4)))
    with pytest.raises(Mistake, match="Sign"):
        Sign().spec(Noise(1.0).spec(Clip(1.0).spec(Spec(4))))


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.inf, math.nan])
def test_a_step_of_no_length(gamma: float) -> None:
    with pytest.raises(Mistake, match="gamma"):
        SignStep(gamma)


def test_the_paper_s_network_takes_615776_bytes() -> None:
    """4,926,201 weights (24,428-200-200-1) in bits, and a header of at most 64 bytes."""
    message = messages.pack_upload(torch.ones(4_926_201), 1, b"8 bytes.", form=Codes(1))
    assert message.payload == 615_776
    assert message.protocol <= 64
