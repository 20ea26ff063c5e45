"""Shares of integer noise: their deviation, their sum modulo 2^b, and what they are worth."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from contexts import Context

from hush.catalogue.entries import ENTRIES
from hush.catalogue.values import Settings
from hush.core.integers import Integers, centred
from hush.core.plain import Sum
from hush.core.spec import Asked, Plan, Spec, Total, Uploads
from hush.core.task import Task
from hush.errors import Mistake
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import Clip, IntegerNoise, Noise, Quantise
from hush.privacy import grids, lattice
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(9)
KINDS = ["skellam", "gaussian"]
WHOLE = Spec(3, l2=20.0, form=Integers(16))


def context(members: list[int], floor: float, spec: Spec = WHOLE, round: int = 1) -> Context:
    plan = Plan(round, torch.zeros(1), None, 4.0, floor)
    return Context(spec, plan, np.array(members), torch.ones(len(members)), SECRET)


def zeros(count: int, size: int) -> torch.Tensor:
    return torch.zeros(count, size, dtype=torch.int32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [0.7, 2.8, 16.0])
def test_share(kind, floor: float) -> None:
    """sigma L / sqrt(floor), each client's own, added to what is there."""
    stage, share = IntegerNoise(3.0, kind), 60 / math.sqrt(floor)
    drawn = (stage.encode(zeros(2, 400_000) + 7, context([5, 8], floor)) - 7).double()
    assert drawn.std(dim=1).tolist() == pytest.approx([share] * 2, rel=0.01)
    assert abs(float(torch.corrcoef(drawn)[0, 1])) < 0.01
    assert stage.share(WHOLE, context([], floor).plan) == pytest.approx(share)


@pytest.mark.parametrize("kind", KINDS)
def test_named_by_round_and_client(kind) -> None:
    def drawn(members: list[int], round: int = 1) -> torch.Tensor:
        return IntegerNoise(1.0, kind).encode(zeros(len(members), 50), context(members, 4.0, round=round))

    noise = SECRET.add_skellam if kind == "skellam" else SECRET.add_discrete_normals
    assert torch.equal(drawn([5]), noise(zeros(1, 50), 100.0 if kind == "skellam" else 10.0, [5], "noise", 1))
    assert torch.equal(drawn([5])[0], drawn([4, 5])[1])
    assert not torch.equal(drawn([5]), drawn([5], round=2))
    assert not torch.equal(drawn([5]), drawn([6]))


def test_spec() -> None:
    """Bits are those in front of it: noise has no modulus of its own."""
    for bits in (2, 12, 32):
        before = replace(WHOLE, form=Integers(bits))
        assert IntegerNoise(1.5).spec(before) == replace(before, noise=1.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 5, 12, 24, 31, 32])
def test_the_sum_modulo_2_to_the_b(kind, bits: int) -> None:
    """Whatever is lost on the way is a multiple of 2^b: uploads as they are sent, or as masks leave them."""
    x = torch.arange(-3000, 3000, dtype=torch.int32).reshape(6, 1000) * 700_000
    stage, members = IntegerNoise(2.0, kind), list(range(6))
    wide = stage.encode(x.clone(), context(members, 4.0, replace(WHOLE, form=Integers(32)))).long()
    true = (wide - x + 2**31) % 2**32 - 2**31 + x  # x and noise, unreduced
    form = Integers(bits)
    sent = stage.encode(x.clone(), context(members, 4.0, replace(WHOLE, form=form)))
    assert sent.dtype == torch.int32
    assert bool(((true - sent) % 2**bits == 0).all())
    assert -(2 ** (bits - 1)) <= int(sent.min()) <= int(sent.max()) < 2 ** (bits - 1)
    again = torch.stack([form.unpack(form.pack(row), 1000) for row in sent])
    total = Sum().combine([Uploads(again, torch.ones(6))], Asked(1000, form))
    found = centred(total.body, bits)
    expected = (true.sum(0) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    assert torch.equal(found, expected.double())
    assert torch.equal(stage.decode(replace(total, body=found), context([], 6.0)).body, found)


@pytest.mark.parametrize("kind", KINDS)
def test_from_updates_to_their_sum(kind) -> None:
    """Clip, round, noise, modulus of 16 clients, with bits by the rule: the sum of the updates, and noise as sized."""
    size, clients, floor, sigma = 20_000, 16, 12.8, 1.5
    steps, bits, _ = grids.settle(size, clients, floor, sigma, rounding=0.5, kind=kind)
    stages = [Clip(1.0), Quantise(steps, bits), IntegerNoise(sigma, kind)]
    specs = [Spec(size)]
    for stage in stages:
        specs.append(stage.spec(specs[-1]))
    x = torch.randn(clients, size, generator=torch.Generator().manual_seed(1)) * 0.005
    members, uploads = list(range(clients)), x.clone()
    for stage, spec in zip(stages, specs, strict=False):
        uploads = stage.encode(uploads, context(members, floor, spec))
    total = Sum().combine([Uploads(uploads, torch.ones(clients))], Asked(size))
    total = replace(total, body=centred(total.body, bits))
    for stage, spec in zip(reversed(stages), reversed(specs[:-1]), strict=True):
        total = stage.decode(total, context([], clients, spec))
    error, deviation = total.body - x.double().sum(0), sigma * specs[-1].l2 / math.sqrt(floor)
    expected = math.sqrt(clients * deviation**2 + clients / 6) / steps  # rounding has 1/6 of a step squared, on average
    assert float(error.std()) == pytest.approx(expected, rel=0.025)
    assert abs(float(error.mean())) < 5 * expected / math.sqrt(size)
    assert deviation * math.sqrt(floor) / steps >= sigma  # never less than the plain noise


def test_shares_add_up_to_one_skellam_number() -> None:
    """20 shares of a 20th of the variance, and the server's integer noise: the same frequencies."""
    stage = IntegerNoise(0.1)  # a deviation of 2 in all
    shares = stage.encode(zeros(20, 200_000), context(list(range(20)), 20.0)).sum(0)
    whole = stage.decode(Total(torch.zeros(200_000), 0, 0.0), context([], 0.0)).body.int()
    counts = [np.bincount(np.clip(x.numpy() + 7, 0, 14), minlength=15) for x in (shares, whole)]
    difference = (counts[0] - counts[1]) / np.sqrt(counts[0] + counts[1])
    assert float((difference**2).sum()) < 50  # chi-square of 14 degrees


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_adds_what_is_missing(kind) -> None:
    body = torch.zeros(400_000, dtype=torch.float64)
    stage, ctx = IntegerNoise(3.0, kind), context([], 0.0)
    assert torch.equal(stage.decode(Total(body, 4, 4.0), context([], 4.0)).body, body)
    assert float(stage.decode(Total(body, 1, 1.0), context([], 4.0)).body.std()) == pytest.approx(
        60 * math.sqrt(3 / 4), rel=0.01
    )
    whole = stage.decode(Total(body, 0, 0.0), ctx).body
    assert float(whole.std()) == pytest.approx(60, rel=0.01)
    assert not body.any()
    assert not torch.equal(stage.decode(Total(body, 0, 0.0), context([], 0.0, round=2)).body, whole)
    few = stage.decode(Total(body, 0, 0.0), context([], 0.0, replace(WHOLE, form=Integers(5)))).body
    assert torch.equal(few, (whole + 16) % 32 - 16)  # reduced as any other


@pytest.mark.parametrize("drawn", [0, 1, 4, 16, 100])
@pytest.mark.parametrize("spare", [0.0, 0.3])
@pytest.mark.parametrize(("multiplier", "steps"), [(0.8, 30.0), (3.0, 20.0), (1.5, 400.0)])
def test_what_it_is_worth(multiplier: float, steps: float, spare: float, drawn: int) -> None:
    """As one Gaussian of the deviation 1/r against whoever sees the completed sum, of the shares that are there against
    the server, of one against whoever sees one; less than stated, by little, and never more."""
    floor = (1 - spare) * drawn
    spec, plan = replace(WHOLE, l2=steps), replace(context([], floor).plan, spare=spare)
    shares, whole = floor or 1.0, multiplier / math.sqrt(1 - spare)
    skellam = IntegerNoise(multiplier).multipliers(spec, plan, shares)
    assert skellam.model == pytest.approx(1 / (lattice.skellam((whole * steps) ** 2) * steps), rel=1e-9)
    assert skellam.server == pytest.approx(1 / (lattice.skellam((multiplier * steps) ** 2) * steps), rel=1e-9)
    assert skellam.upload == pytest.approx(1 / (lattice.skellam((multiplier * steps) ** 2 / shares) * steps))
    gaussian = IntegerNoise(multiplier, "gaussian").multipliers(spec, plan, shares)
    share, count = multiplier * steps / math.sqrt(shares), drawn or 1
    exact = 1 / (lattice.gaussians(whole * steps / math.sqrt(count), count) * steps)
    assert gaussian.model == pytest.approx(exact, abs=1.1e-6)
    assert gaussian.model <= exact
    assert gaussian.upload == pytest.approx(1 / (lattice.gaussians(share, 1) * steps), abs=1.1e-6)
    for kind, found in (("skellam", skellam), ("gaussian", gaussian)):
        assert 0.998 * whole < found.model < whole
        assert 0.998 * multiplier < found.server < multiplier
        assert 0.95 * multiplier / math.sqrt(shares) < found.upload < multiplier / math.sqrt(shares)
        stage = IntegerNoise(multiplier, kind)
        fewer = [stage.multipliers(spec, plan, part * shares).server for part in (0.0, 0.5, 1.0)]
        assert fewer[0] == 0
        assert fewer[1] == pytest.approx(found.server * math.sqrt(0.5), rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [Fixed(6, tolerance=0.2), Poisson(0.5)])
def test_the_event_says_what_it_is_worth(kind, sampling, task: Task, settings: Settings) -> None:
    base = ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=sampling))
    noise = IntegerNoise(1.2, kind)
    scheme = replace(base, stages=(Clip(0.45), Quantise(90.0, 12), noise))
    scheme.check(task)
    assert scheme.source is noise
    plan = Plan(3, torch.zeros(910), None, 6.0, 4.8, spare=0.2)
    event = scheme.event(plan, task)
    worth = noise.multipliers(scheme.specs(910)[2], plan, 4.8)
    assert event is not None
    assert (event.round, event.noise, event.share, event.server) == (3, worth.model, worth.upload, worth.server)
    assert (event.sampling, event.rate) == (sampling.kind, 0.5)
    assert 1.2 * 0.998 < event.noise * math.sqrt(0.8) < 1.2


def test_small_discrete_normal_shares_count_for_less() -> None:
    """Far below 1.5 their sum is no longer near to normal: what is proven of it falls."""
    plan, found = context([], 400.0).plan, []
    for share in (2.0, 1.5, 1.0, 0.7, 0.5, 0.2):
        stage = IntegerNoise(share, "gaussian")
        assert stage.share(WHOLE, plan) == pytest.approx(share)
        found.append(stage.multipliers(WHOLE, plan, 400).model / share)
    assert found[0] > found[1] > 0.999
    assert all(a > b for a, b in pairwise(found[:-1]))
    assert found[-1] < 0.1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: IntegerNoise(0.0), "noise=0.0 must be positive"),
        (lambda: IntegerNoise(math.nan), "noise=nan must be positive"),
        (lambda: IntegerNoise(math.inf), "noise=inf must be positive"),
        (lambda: IntegerNoise(1.0, "laplace"), "kind=laplace must be skellam or gaussian"),
        (lambda: IntegerNoise(1.0).spec(Spec(3, l2=1.0)), "needs integers .* Quantise"),
        (lambda: IntegerNoise(1.0).spec(Spec(3, form=Integers(8))), "of bounded norm: put Clip"),
        (lambda: IntegerNoise(1.0).spec(Noise(1.0).spec(Spec(3, l2=1.0))), "after another noise"),
        (lambda: IntegerNoise(1.0).spec(IntegerNoise(1.0).spec(WHOLE)), "after another noise"),
        (lambda: IntegerNoise(1000.0).spec(WHOLE), "more than 16384 steps: take a coarser grid"),
        (lambda: IntegerNoise(1e4, "gaussian").spec(WHOLE), "more than 131072 steps"),
    ],
)
def test_mistakes(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()
