"""Stochastic rounding: the right mean, the right levels, and what travels."""

import math

import numpy as np
import pytest
import torch
from contexts import Context
from contracts.parts import run
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hush.catalogue.values import Settings
from hush.core.packing import Buckets, Floats
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Spec, Total
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip, Clip, Noise, Sign, Weigh, qsgd
from hush.parts.stages.feedback import TopFeedback
from hush.parts.stages.qsgd import Qsgd
from hush.parts.trainers import Sgd
from hush.random.seeds import SecretSeed

SEED = SecretSeed.simulated(0)


def context(size: int, clients: list[int], round: int = 1) -> Context:
    plan = Plan(round, torch.zeros(size), None, float(len(clients)), float(len(clients)))
    return Context(Spec(size), plan, np.array(clients), torch.ones(len(clients)), SEED)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def slowly(x: list[float], bits: int, bucket: int, round: int, client: int) -> list[float]:
    """Section 3.1 and 3.3 of the paper, number by number: up with probability a s - floor(a s), a = |x| / scale."""
    s, draws, made = 2 ** (bits - 1) - 1, SEED.generator("qsgd", round, client), []
    for first in range(0, len(x), bucket):
        part = x[first : first + bucket]
        scale = max(abs(v) for v in part)
        for v in part:
            u = float(draws.random(dtype=np.float32))
            a = abs(v) / scale * s if scale else 0.0
            # A low draw says up, which is towards zero for a negative number.
            away = u < a - math.floor(a) if v >= 0 else u >= math.ceil(a) - a
            made.append(math.copysign(scale * (math.ceil(a) if away else math.floor(a)) / s, v))
    return made


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("size", "bucket"), [(100, 512), (100, 7), (100, 10), (3, 1)])
def test_slow_twin(bits: int, size: int, bucket: int) -> None:
    x = normal(3, size)
    x[1, :5] = 0
    found = Qsgd(bits, bucket).encode(x.clone(), context(size, [4, 0, 9], round=3))
    for row, made, client in zip(x, found, [4, 0, 9], strict=True):
        twin = torch.tensor(slowly(row.double().tolist(), bits, bucket, 3, client), dtype=torch.float64)
        assert (made.double() - twin).abs().max() <= 2.0**-22 * row.abs().max()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_mean_and_the_deviation_are_right(bits: int) -> None:
    """Over 100,000 buckets that are the same: each level is drawn with the probability that makes the mean right."""
    count, s = 100_000, 2 ** (bits - 1) - 1
    x = torch.tensor([1.0, -0.3, 0.004, 0.77, -1e-6, 0.0, 0.5, -0.9991])
    made = Qsgd(bits, 8).encode(x.repeat(1, count), context(8 * count, [0])).double().view(count, 8)
    probability = (x.double() * s) - (x.double() * s).floor()
    deviation = (probability * (1 - probability)).sqrt() / s
    assert ((made.mean(0) - x).abs() <= 5 * deviation / math.sqrt(count) + 1e-7).all()
    sure = deviation < 1e-6
    assert made.std(0)[sure].max() < 1e-6
    likely = (probability * (1 - probability)) > 0.01
    assert int(likely.sum()) >= 3
    assert (made.std(0)[likely] / deviation[likely] - 1).abs().max() < 0.1


def test_the_largest_of_a_bucket_stays_and_none_moves_by_a_level() -> None:
    x = normal(2, 1000)
    made = Qsgd(4, 64).encode(x.clone(), context(1000, [0, 1]))
    for row, out in zip(x, made, strict=True):
        for before, after in zip(row.split(64), out.split(64), strict=True):
            scale = float(before.abs().max())
            assert float(after.abs().max()) == scale
            assert (after - before).abs().max() <= scale / 7 * (1 + 1e-6)


def test_draws_of_each_client_and_round_are_its_own() -> None:
    x, size = torch.full((1, 4001), 0.5), 4001
    x[0, 0] = 1.0
    ups = [
        (Qsgd(2, size).encode(x.clone(), context(size, [client], round))[0, 1:] > 0).float()
        for client, round in ((0, 1), (1, 1), (0, 2))
    ]
    assert (torch.corrcoef(torch.stack(ups)) - torch.eye(3)).abs().max() < 5 / math.sqrt(size)


def test_a_row_depends_neither_on_the_block_nor_on_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(3, 1000)
    together = Qsgd(4, 30).encode(x.clone(), context(1000, [0, 1, 2]))
    monkeypatch.setattr(qsgd, "PIECE", 100)
    for client in range(3):
        alone = Qsgd(4, 30).encode(x[client : client + 1].clone(), context(1000, [client]))
        assert torch.equal(alone[0], together[client])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 99_999])
def test_a_row_that_is_not_finite_becomes_zero(wrong: float, place: int) -> None:
    x = normal(2, 100_000)
    plain = Qsgd().encode(x.clone(), context(100_000, [0, 1]))
    x[0, place] = wrong
    made = Qsgd().encode(x, context(100_000, [0, 1]))
    assert not made[0].any()
    assert torch.equal(made[1], plain[1])


@given(
    arrays.arrays(np.float32, st.integers(1, 20), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)),
    st.sampled_from([2, 4, 8]),
    st.integers(1, 8),
)
def test_what_it_makes_travels_without_loss(x: np.ndarray, bits: int, bucket: int) -> None:
    form = Buckets(bits, bucket)
    row = Qsgd(bits, bucket).encode(torch.from_numpy(x.copy()).unsqueeze(0), context(x.size, [0]))[0]
    again = form.unpack(form.pack(row), x.size)
    assert torch.equal(again.view(torch.int32), row.view(torch.int32))
    assert form.scales(row.numpy()).tolist() == form.scales(x).tolist()


def test_specs() -> None:
    spec = Qsgd().spec(Spec(1000))
    assert (spec.size, spec.form, spec.l2, spec.noise) == (1000, Buckets(4, 512), math.inf, None)
    assert spec.form.length(1000) == 2 * 4 + 500


def test_the_total_is_left_alone() -> None:
    total = Total(torch.ones(3, dtype=torch.float64), 2, 2.0)
    assert Qsgd().decode(total, context(3, [])) is total


@pytest.mark.parametrize("before", [Weigh(), Clip(1.0), AdaptiveClip(), Sign(), Qsgd(8), TopFeedback(0.5)], ids=str)
def test_refused_behind_what_it_would_break(before) -> None:
    with pytest.raises(Mistake, match=r"Qsgd\(4\)"):
        Qsgd().spec(before.spec(Spec(4)))


def test_refused_behind_noise() -> None:
    with pytest.raises(Mistake, match=r"Qsgd\(4\) after Noise"):
        Qsgd().spec(Noise(1.0).spec(Clip(1.0).spec(Spec(4))))


@pytest.mark.parametrize(("given", "sentence"), [((3, 512), "bits=3 must be"), ((4, 0), "bucket=0 must be")])
def test_wrong_numbers(given: tuple[int, int], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        Qsgd(*given)


def test_a_run(task: Task, settings: Settings) -> None:
    """No guarantee, a row of bytes over both transports, and near to what floats give."""
    trainer = Sgd(settings.rate, settings.steps, settings.batch)
    plain, rounded = (Scheme(trainer, Fixed(5), stages=stages) for stages in ((), (Qsgd(8, 64),)))
    local, bytewise = (run(rounded, task, 2, transport=t)[-1] for t in (Simulated(block=1), Loopback()))
    assert torch.equal(local.state.weights, bytewise.state.weights)
    assert (local.state.traffic.counts == bytewise.state.traffic.counts).all()
    assert set(local.epsilon.values()) == {"none"}
    exact = run(plain, task, 2, transport=Simulated(block=1))[-1]
    lengths = [form.length(910) for form in (Buckets(8, 64), Floats())]
    largest = [report.bytes["up"]["payload"]["max"] for report in (local, exact)]
    assert largest[0] * lengths[1] == largest[1] * lengths[0]
    moved = exact.state.weights - flatten(task.model)
    assert 0 < (local.state.weights - exact.state.weights).norm() < 0.02 * moved.norm()
