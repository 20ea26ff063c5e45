"""Shares of whole noise: their deviation, their sum modulo 2^b, and how many bits it needs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hush.aggregators import Sum
from hush.catalogue import ENTRIES
from hush.errors import Mistake
from hush.packing import Integers
from hush.rng import SecretSeed
from hush.spec import Context, Plan, Spec, Total, Uploads
from hush.stages import Clip, Noise
from hush.stages.integer import IntegerNoise, bits_for
from hush.stages.quantise import Quantise

SECRET = SecretSeed.simulated(9)
KINDS = ["skellam", "gaussian"]
WHOLE = Spec(3, l2=20.0, form=Integers(8))


def context(members: list[int], floor: float, spec: Spec = WHOLE, round: int = 1) -> Context:
    plan = Plan(round, torch.zeros(1), None, 4.0, floor)
    return Context(spec, plan, np.array(members), torch.ones(len(members)), SECRET)


def zeros(count: int, size: int) -> torch.Tensor:
    return torch.zeros(count, size, dtype=torch.int32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [0.7, 2.8, 16.0])
def test_share(kind, floor: float) -> None:
    """sigma L / sqrt(floor), each client's own, added to what is there."""
    stage = IntegerNoise(3.0, 16, kind)
    drawn = (stage.encode(zeros(2, 400_000) + 7, context([5, 8], floor)) - 7).double()
    assert drawn.std(dim=1).tolist() == pytest.approx([60 / math.sqrt(floor)] * 2, rel=0.01)
    assert abs(float(torch.corrcoef(drawn)[0, 1])) < 0.01
    assert stage.share(WHOLE, context([], floor).plan) == pytest.approx(60 / math.sqrt(floor))


@pytest.mark.parametrize("kind", KINDS)
def test_named_by_round_and_client(kind) -> None:
    def drawn(members: list[int], round: int = 1) -> torch.Tensor:
        return IntegerNoise(1.0, 16, kind).encode(zeros(len(members), 50), context(members, 4.0, round=round))

    noise = SECRET.add_skellam if kind == "skellam" else SECRET.add_discrete_normals
    assert torch.equal(drawn([5]), noise(zeros(1, 50), 100.0 if kind == "skellam" else 10.0, [5], "noise", 1))
    assert torch.equal(drawn([5])[0], drawn([4, 5])[1])
    assert not torch.equal(drawn([5]), drawn([5], round=2))
    assert not torch.equal(drawn([5]), drawn([6]))


def test_spec() -> None:
    found = IntegerNoise(1.5, 12).spec(WHOLE)
    assert found == replace(WHOLE, noise=1.5, form=Integers(12))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 5, 12, 24, 31, 32])
def test_the_sum_modulo_2_to_the_b(kind, bits: int) -> None:
    """Whatever is lost on the way is a multiple of 2^b: uploads as they are sent, or as masks leave them."""
    x = torch.arange(-3000, 3000, dtype=torch.int32).reshape(6, 1000) * 700_000
    wide = [IntegerNoise(2.0, 32, kind).encode(x.clone(), context(list(range(6)), 4.0)).long(), x.long()]
    true = (wide[0] - wide[1] + 2**31) % 2**32 - 2**31 + wide[1]  # x and noise, unreduced
    stage = IntegerNoise(2.0, bits, kind)
    sent = stage.encode(x.clone(), context(list(range(6)), 4.0))
    assert sent.dtype == torch.int32
    assert bool(((true - sent) % 2**bits == 0).all())
    assert -(2 ** (bits - 1)) <= int(sent.min()) <= int(sent.max()) < 2 ** (bits - 1)
    form = Integers(bits)
    again = torch.stack([form.unpack(form.pack(row), 1000) for row in sent])
    total = Sum().combine([Uploads(again, torch.ones(6))], 1000)
    found = stage.decode(total, context([], 4.0)).body
    assert found.dtype == torch.float64
    expected = (true.sum(0) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    assert torch.equal(found, expected.double())
    positive = replace(total, body=(sent.long() % 2**bits).sum(0) % 2**bits)  # from 0 on, as a secure sum may give it
    assert torch.equal(stage.decode(positive, context([], 4.0)).body, expected.double())


@given(st.integers(2, 32), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=9))
def test_any_sum_is_centred(bits: int, numbers: list[int]) -> None:
    body = torch.tensor([float(sum(numbers)), float(-sum(numbers))], dtype=torch.float64)
    found = IntegerNoise(1.0, bits).decode(Total(body, len(numbers), 1.0), context([], 4.0)).body.tolist()
    half = 2 ** (bits - 1)
    assert found == [(sign * sum(numbers) + half) % 2**bits - half for sign in (1, -1)]
    assert body.tolist() == [sum(numbers), -sum(numbers)]


@pytest.mark.parametrize("kind", KINDS)
def test_from_updates_to_their_sum(kind) -> None:
    """Clip, round, noise, modulus of 16 clients, with bits by the rule: the sum of the updates, and noise as sized."""
    size, clients, floor, sigma, grid = 20_000, 16, 12.8, 1.5, 0.02
    stages = [Clip(1.0), Quantise(grid)]
    specs = [Spec(size)]
    for stage in stages:
        specs.append(stage.spec(specs[-1]))
    deviation = sigma * specs[-1].l2 / math.sqrt(floor)
    stages.append(IntegerNoise(sigma, bits_for(clients, size, 1.0, grid, deviation), kind))
    x = torch.randn(clients, size, generator=torch.Generator().manual_seed(1)) * 0.005
    members = list(range(clients))
    uploads = x.clone()
    for stage, spec in zip(stages, specs, strict=True):
        uploads = stage.encode(uploads, context(members, floor, spec))
    total = Sum().combine([Uploads(uploads, torch.ones(clients))], size)
    for stage, spec in zip(reversed(stages), reversed(specs), strict=True):
        total = stage.decode(total, context([], floor, spec))
    error = total.body - x.double().sum(0)
    expected = grid * math.sqrt(clients * deviation**2 + clients / 6)  # rounding has 1/6 of a step squared, on average
    assert float(error.std()) == pytest.approx(expected, rel=0.025)
    assert abs(float(error.mean())) < 5 * expected / math.sqrt(size)
    assert grid * deviation * math.sqrt(clients) >= sigma * 1.0  # never less than the plain noise


def test_shares_add_up_to_one_skellam_number() -> None:
    """20 shares of a 20th of the variance, and the server's whole noise: the same frequencies."""
    stage = IntegerNoise(0.1, 16)  # a deviation of 2 in all
    shares = stage.encode(zeros(20, 200_000), context(list(range(20)), 20.0)).sum(0)
    whole = stage.decode(Total(torch.zeros(200_000), 0, 0.0), context([], 0.0)).body.int()
    counts = [np.bincount(np.clip(x.numpy() + 7, 0, 14), minlength=15) for x in (shares, whole)]
    difference = (counts[0] - counts[1]) / np.sqrt(counts[0] + counts[1])
    assert float((difference**2).sum()) < 50  # chi-square of 14 degrees


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_adds_noise_only_where_nobody_did(kind) -> None:
    body = torch.zeros(400_000, dtype=torch.float64)
    stage, ctx = IntegerNoise(3.0, 12, kind), context([], 0.0)
    assert torch.equal(stage.decode(Total(body, 1, 1.0), ctx).body, body)
    whole = stage.decode(Total(body, 0, 0.0), ctx).body
    assert float(whole.std()) == pytest.approx(60, rel=0.01)
    assert not body.any()
    assert not torch.equal(stage.decode(Total(body, 0, 0.0), context([], 0.0, round=2)).body, whole)
    few = replace(stage, bits=5).decode(Total(body, 0, 0.0), ctx).body  # reduced as any other
    assert torch.equal(few, (whole + 16) % 32 - 16)


def test_discrete_normal_shares_that_are_too_small() -> None:
    plan = context([], 400.0).plan
    with pytest.raises(Mistake, match=r"400 shares has a deviation of 1 steps .* 1\.5 times finer, or kind=skellam"):
        IntegerNoise(1.0, 12, "gaussian").share(WHOLE, plan)
    with pytest.raises(Mistake, match=r"1\.5 times finer"):
        IntegerNoise(1.0, 12, "gaussian").encode(zeros(1, 3), context([1], 400.0))
    assert IntegerNoise(1.0, 12).share(WHOLE, plan) == 1.0
    assert IntegerNoise(1.5, 12, "gaussian").share(WHOLE, plan) == 1.5


@pytest.mark.parametrize("floor", [10.0, 100.0])
@pytest.mark.parametrize("steps", [3.0, 91.34, 1000.0])
def test_bits_are_the_fewest_that_hold_the_sum(floor: float, steps: float) -> None:
    for deviation in (0.0, 1.5, 50.0):
        bits = bits_for(floor, 8317, 0.61, 0.61 / steps, deviation)
        room = 8 * math.sqrt(steps**2 * floor**2 / 8317 + (0.25 + deviation**2) * floor)
        assert 2 ** (bits - 1) < room <= 2**bits


@pytest.mark.parametrize(("steps", "bits"), [(91.34, 11), (182.67, 12), (371.58, 13)])
def test_bits_of_the_first_paper(steps: float, bits: int) -> None:
    """100 clients, 8,317 coordinates, sigma 1.54: 10.4, 11.4, 12.4 bits at 12.5, 3.4, 0.9 percent more noise."""
    assert bits_for(100, 8317, 0.61, 0.61 / steps, 1.54 * steps / 10) == bits
    assert bits_for(100, 8317, 0.61, 0.61 / steps, 1.54 * steps / 10, k=3) == bits


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: IntegerNoise(0.0, 12), "noise=0.0 must be positive"),
        (lambda: IntegerNoise(math.nan, 12), "noise=nan must be positive"),
        (lambda: IntegerNoise(1.0, 1), "bits=1 must be from 2 to 32"),
        (lambda: IntegerNoise(1.0, 33), "bits=33 must be"),
        (lambda: IntegerNoise(1.0, 12, "laplace"), "kind=laplace must be skellam or gaussian"),
        (lambda: IntegerNoise(1.0, 12).spec(Spec(3, l2=1.0)), "needs whole numbers .* Quantise"),
        (lambda: IntegerNoise(1.0, 12).spec(Spec(3, form=Integers(8))), "of bounded norm: put Clip"),
        (lambda: IntegerNoise(1.0, 12).spec(Noise(1.0).spec(Spec(3, l2=1.0))), "after another noise"),
        (lambda: IntegerNoise(1.0, 12).spec(IntegerNoise(1.0, 12).spec(WHOLE)), "after another noise"),
        (lambda: IntegerNoise(1000.0, 12).spec(WHOLE), "more than 16384 steps: take a coarser grid"),
        (lambda: IntegerNoise(1e4, 12, "gaussian").spec(WHOLE), "more than 131072 steps"),
        (lambda: bits_for(0, 9, 1.0, 0.1, 1.0), "n=0 must be positive"),
        (lambda: bits_for(9, 9, 1.0, math.inf, 1.0), "grid=inf must be positive and finite"),
        (lambda: bits_for(9, 9, 1.0, 0.1, -1.0), "deviation=-1.0 must be zero or positive"),
        (lambda: bits_for(1e6, 9, 1.0, 1e-6, 1.0), "needs 42 bits .* coarser"),
    ],
)
def test_mistakes(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()


def test_no_run_stands_on_it_yet(task, knobs) -> None:
    """It does not say what it is worth, so a scheme with it is refused before any round."""
    scheme = ENTRIES["fl-std-dp"].scheme(knobs)
    with pytest.raises(Mistake, match="not what it is worth"):
        replace(scheme, stages=(Clip(1.0), Quantise(0.01), IntegerNoise(1.0, 12))).check(task)
