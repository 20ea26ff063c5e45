"""One client moves the sum by at most Spec.l2, whatever it has learned; linear stages commute with sums."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context
from hypothesis import HealthCheck, example, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from torch import Tensor

from contracts.parts import Says
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.plain import All
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Total
from hush.core.task import Task
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip, Clip, Qsgd, Sense, Sign, TopFeedback, TwoBit, Weigh
from hush.random.seeds import SecretSeed

WIDTH = 6
numbers = st.floats(width=32, allow_nan=True, allow_infinity=True)
rows = st.lists(numbers, min_size=WIDTH, max_size=WIDTH)
bounds = st.floats(1e-6, 1e6)
quick = limits(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


def context(scheme: Scheme, width: int, count: int = 1) -> list[Context]:
    """One context before each stage."""
    plan = Plan(1, torch.zeros(width), None, float(count), float(count))
    members, sizes = np.arange(count), torch.arange(1, count + 1)
    specs = scheme.specs(width)[: len(scheme.stages)]
    return [Context(spec, plan, members, sizes, SecretSeed.simulated(0)) for spec in specs]


def before_noise(scheme: Scheme, x: Tensor) -> tuple[Tensor, float]:
    """What the stages up to the noise make of these rows, and the bound that the noise is sized for."""
    for stage, ctx in zip(scheme.stages, context(scheme, x.shape[1], len(x)), strict=True):
        if stage == scheme.source:
            return x, ctx.spec.l2
        x = stage.encode(x, ctx)
    raise AssertionError("a private scheme without noise")


@quick
@given(row=rows, bound=bounds, adaptive=st.booleans())
@example(row=[0.0] * WIDTH, bound=1.0, adaptive=False)
@example(row=[math.nan] + [1.0] * 5, bound=1.0, adaptive=True)
@example(row=[math.inf] * WIDTH, bound=1.0, adaptive=False)
@example(row=[3.4e38] * WIDTH, bound=1e-3, adaptive=False)
@example(row=[2.9e38] + [0.0] * 5, bound=1e-6, adaptive=True)
def test_norm_before_noise(private: Entry, row: list[float], bound: float, adaptive: bool) -> None:
    clip = AdaptiveClip(bound) if adaptive else Clip(bound)
    scheme = private.scheme(Settings(sampling=Fixed(1), clip=clip, noise=1.0, ratio=0.5, chunks=2))
    sent, l2 = before_noise(scheme, torch.tensor([row], dtype=torch.float32))
    assert sent.isfinite().all()
    assert float(sent.double().norm()) <= l2


@pytest.mark.parametrize("size", [1, 1000, 200_000])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e30])
def test_norm_of_long_rows(size: int, scale: float) -> None:
    """Rounding does not add up to more than the bound, and a clipped row keeps its direction and length."""
    x = torch.randn(3, size, generator=torch.Generator().manual_seed(size)) * scale
    sent, l2 = before_noise(ENTRIES["fl-std-dp"].scheme(Settings(sampling=Fixed(1), clip=Clip(0.3), noise=1.0)), x)
    norms, before = sent.double().norm(dim=1), x.double().norm(dim=1)
    assert (norms <= l2).all()
    torch.testing.assert_close(norms, before.clamp(max=0.3), rtol=1e-6, atol=0)
    torch.testing.assert_close(sent.double() / norms[:, None], x.double() / before[:, None], rtol=1e-5, atol=1e-9)


def test_an_upload_of_nan_says_nothing(private: Entry, task: Task, settings: Settings) -> None:
    """A client whose training failed sends its noise, and looks like any other."""
    scheme = private.scheme(settings)
    width = scheme.coordinates.count(task.layout)
    plan = Plan(1, torch.zeros(910), None if width == 910 else torch.arange(width), 5.0, 5.0)
    members, secret = np.array([3]), SecretSeed.simulated(0)
    broken, silent = (
        replace(scheme, trainer=Says(row)).client(task.block(members, secret), plan)
        for row in (torch.full((width,), math.nan), torch.zeros(width))
    )
    assert torch.equal(broken, silent)


@limits(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**31), count=st.integers(1, 7))
def test_linear_stages_commute_with_sums(open_entry: Entry, seed: int, count: int) -> None:
    """decode(sum of encode(x)) is the sum of x, weighted where the scheme weighs."""
    scheme = replace(open_entry.build(Settings(sampling=Fixed(count), ratio=0.1, chunks=5)), coordinates=All())
    if any(isinstance(stage, Sign | TwoBit | Qsgd | TopFeedback) for stage in scheme.stages):
        return  # not linear; see their own tests
    x = torch.randn(count, 50, generator=torch.Generator().manual_seed(seed))
    contexts, encoded = context(scheme, 50, count), x
    for stage, ctx in zip(scheme.stages, contexts, strict=True):
        encoded = stage.encode(encoded, ctx)
    sizes = torch.arange(1, count + 1).double()
    total = Total(encoded.double().sum(0), count, float(sizes.sum()))
    decoded = scheme.server(contexts[0].plan if contexts else Plan(1, x[0], None, count, count), total, SecretSeed(0))
    weights = count * sizes / sizes.sum() if Weigh() in scheme.stages else torch.ones(count).double()
    expected = (weights[:, None] * x.double()).sum(0)
    if any(isinstance(stage, Sense) for stage in scheme.stages):
        expected = scheme.stages[0].encode(expected.float().unsqueeze(0), contexts[0])[0].double()
    torch.testing.assert_close(decoded.body, expected, rtol=1e-5, atol=1e-5)


def test_rows_within_the_bound_come_back(private: Entry) -> None:
    """Clip leaves short rows as they are: without noise, decode(sum(encode)) is the sum."""
    for clip in (Clip(10.0), AdaptiveClip(10.0)):
        settings = Settings(sampling=Fixed(4), clip=clip, noise=1.0, ratio=0.1, chunks=5)
        scheme = replace(private.scheme(settings), coordinates=All())
        x = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
        sent, _ = before_noise(scheme, x.clone())
        *first, stage, _ = zip(scheme.stages, context(scheme, 50, 4), strict=True)
        expected = x
        for sense, ctx in first:
            expected = sense.encode(expected, ctx)
        total = stage[0].decode(Total(sent.double().sum(0), 4, 10.0), stage[1])
        torch.testing.assert_close(total.body, expected.double().sum(0), rtol=1e-6, atol=1e-6)
