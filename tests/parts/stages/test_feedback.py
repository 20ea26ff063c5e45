"""Top-k with error feedback: nothing is lost, what waits comes later, and what travels."""

import math

import numpy as np
import pytest
import torch
from contexts import Context
from contracts.parts import Says, run

from hush.catalogue.values import Settings
from hush.core.memory import Memory
from hush.core.packing import Few
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Spec, Total
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip, Clip, Noise, Sign, Weigh
from hush.parts.stages.feedback import TopFeedback
from hush.parts.stages.qsgd import Qsgd
from hush.parts.trainers import Sgd
from hush.random.seeds import SecretSeed


def context(size: int, clients: list[int], memory: Memory | None) -> Context:
    plan = Plan(1, torch.zeros(size), None, float(len(clients)), float(len(clients)))
    return Context(Spec(size), plan, np.array(clients), torch.ones(len(clients)), SecretSeed.simulated(0), memory)


def rounds(ratio: float, updates: torch.Tensor, memory: Memory) -> torch.Tensor:
    """What client 0 sends of these updates, one each round."""
    sent = []
    for x in updates:
        sent.append(TopFeedback(ratio).encode(x.clone().unsqueeze(0), context(x.numel(), [0], memory))[0])
        memory.settle()
    return torch.stack(sent)


def waiting(memory: Memory, size: int) -> torch.Tensor:
    return memory.rows(np.array([0]), size)[0]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def slowly(updates: list[list[float]], k: int) -> list[list[float]]:
    """Algorithm 1 of Stich et al. with a step of one, number by number: m is what waits, g what is sent."""
    m, made = [0.0] * len(updates[0]), []
    for x in updates:
        p = [np.float32(a) + np.float32(b) for a, b in zip(m, x, strict=True)]
        top = sorted(range(len(p)), key=lambda i: (-abs(p[i]), i))[:k]
        g = [p[i] if i in top else 0.0 for i in range(len(p))]
        m = [0.0 if i in top else p[i] for i in range(len(p))]
        made.append([float(v) for v in g])
    return made


@pytest.mark.parametrize(("size", "ratio"), [(40, 0.1), (40, 0.99), (40, 1.0), (1, 1.0)])
def test_slow_twin(size: int, ratio: float) -> None:
    updates = normal(12, size).mul_(4).round_().div_(4)  # with many that are equal
    assert rounds(ratio, updates, Memory()).tolist() == slowly(updates.tolist(), math.floor(ratio * size))


def test_nothing_is_lost() -> None:
    """Integers add without rounding: what was sent and what waits are all updates together, exactly."""
    updates, memory = normal(30, 200).mul_(100).round_(), Memory()
    sent = rounds(0.05, updates, memory)
    assert torch.equal(sent.sum(0) + waiting(memory, 200), updates.sum(0))
    assert (sent.count_nonzero(1) == 10).all()


def test_nothing_is_lost_but_in_rounding() -> None:
    updates, memory = normal(30, 200), Memory()
    sent = rounds(0.05, updates, memory).double()
    error = sent.sum(0) + waiting(memory, 200).double() - updates.double().sum(0)
    assert error.abs().max() <= 30 * 2.0**-24 * 2 * updates.abs().sum(0).max()


def test_a_constant_direction_arrives_in_full() -> None:
    """One in twenty travels a round, and what waits does not grow: k numbers above M take more than k M off it."""
    step, memory, count, k = normal(100).abs_().add_(0.1), Memory(), 400, 5
    due = step * torch.arange(1, count + 1).unsqueeze(1)
    missing = due - rounds(k / 100, step.repeat(count, 1), memory).cumsum(0)
    assert missing.max() <= step.sum() / k + step.max()
    assert missing.min() >= -1e-6 * due.max()
    forgetful = [TopFeedback(k / 100).encode(step[None].clone(), context(100, [0], Memory())) for _ in range(2)]
    assert int((forgetful[0] + forgetful[1]).count_nonzero()) == k


def test_the_smaller_coordinate_first_among_equals() -> None:
    x = torch.tensor([[0.0, -1.0, 1.0, 2.0, -1.0]])
    memory = Memory()
    assert TopFeedback(0.4).encode(x, context(5, [0], memory)).tolist() == [[0.0, -1.0, 0.0, 2.0, 0.0]]
    memory.settle()
    assert waiting(memory, 5).tolist() == [0.0, 0.0, 1.0, 0.0, -1.0]


def test_a_row_does_not_depend_on_the_block() -> None:
    whole, single = Memory(), Memory()
    for x in normal(3, 4, 50):
        together = TopFeedback(0.1).encode(x.clone(), context(50, [3, 0, 7, 5], whole))
        for place, client in enumerate([3, 0, 7, 5]):
            alone = TopFeedback(0.1).encode(x[place : place + 1].clone(), context(50, [client], single))
            assert torch.equal(alone[0], together[place])
        whole.settle()
        single.settle()
    assert all(np.array_equal(a, b) for a, b in zip(whole.state().values(), single.state().values(), strict=True))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_sends_zeros_and_keeps_what_waited(wrong: float) -> None:
    memory, x = Memory(), normal(2, 10)
    TopFeedback(0.1).encode(x.clone(), context(10, [0, 1], memory))
    memory.settle()
    before, plain = memory.rows(np.array([0, 1]), 10), memory.copy()
    other = TopFeedback(0.1).encode(x.clone(), context(10, [0, 1], plain))
    x[0, 4] = wrong
    made = TopFeedback(0.1).encode(x, context(10, [0, 1], memory))
    memory.settle()
    assert not made[0].any()
    assert torch.equal(made[1], other[1])
    assert torch.equal(waiting(memory, 10), before[0])


def test_what_waits_never_overflows() -> None:
    memory = Memory()
    updates = torch.tensor([[3e38, 2e38], [3e38, 2e38], [1.0, 2.0]])
    assert rounds(0.5, updates, memory).tolist() == [
        [float(np.float32(3e38)), 0.0],
        [0.0, 0.0],
        [0.0, float(np.float32(2e38))],
    ]
    assert waiting(memory, 2).tolist() == [1.0, 0.0]


def test_a_failed_round_leaves_what_waited() -> None:
    memory, x = Memory(), normal(1, 10)
    rounds(0.1, x, memory)
    before = waiting(memory, 10)
    TopFeedback(0.1).encode(x.clone(), context(10, [0], memory))
    memory.discard()
    memory.settle()
    assert torch.equal(waiting(memory, 10), before)


def test_without_memory_it_cannot_work() -> None:
    with pytest.raises(Mistake, match="needs a transport that keeps client memory"):
        TopFeedback(0.1).encode(torch.ones(1, 10), context(10, [0], None))


def test_specs() -> None:
    spec = TopFeedback(0.29).spec(Spec(100))
    assert (spec.size, spec.form, spec.l2, spec.noise) == (100, Few(29), math.inf, None)  # 0.29 * 100 < 29 in floats
    behind = Noise(1.0).spec(Clip(1.0).spec(spec))
    assert behind.form.length(100) == 400


def test_the_total_is_left_alone() -> None:
    total = Total(torch.ones(3, dtype=torch.float64), 2, 2.0)
    assert TopFeedback(0.5).decode(total, context(3, [], None)) is total


@pytest.mark.parametrize("before", [Weigh(), Clip(1.0), AdaptiveClip(), Sign(), Qsgd(), TopFeedback(0.5)], ids=str)
def test_refused_behind_what_it_would_break(before) -> None:
    with pytest.raises(Mistake, match=r"TopFeedback\(0.6\)"):
        TopFeedback(0.6).spec(before.spec(Spec(4)))


def test_refused_behind_noise() -> None:
    with pytest.raises(Mistake, match=r"TopFeedback\(0.6\) after Noise"):
        TopFeedback(0.6).spec(Noise(1.0).spec(Clip(1.0).spec(Spec(4))))


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.1, math.nan])
def test_wrong_ratios(ratio: float) -> None:
    with pytest.raises(Mistake, match=f"ratio={ratio} must be in"):
        TopFeedback(ratio)


def test_less_than_one_weight() -> None:
    with pytest.raises(Mistake, match=r"ratio=0.1 of 9 weights is less than one weight"):
        TopFeedback(0.1).spec(Spec(9))


def test_a_run(task: Task, settings: Settings) -> None:
    """No guarantee, few bytes, and the same weights and memories over both transports."""
    scheme = Scheme(Sgd(settings.rate, settings.steps, settings.batch), Fixed(5), stages=(TopFeedback(0.05),))
    local, bytewise = (run(scheme, task, 3, transport=t)[-1] for t in (Simulated(block=1), Loopback()))
    assert torch.equal(local.state.weights, bytewise.state.weights)
    assert (local.state.traffic.counts == bytewise.state.traffic.counts).all()
    assert set(local.epsilon.values()) == {"none"}
    joined = int(local.state.participation.rounds.max())
    assert local.bytes["up"]["payload"]["max"] == joined * 8 * 45
    one, other = local.state.memory.state(), bytewise.state.memory.state()
    assert one["clients"].tolist() == np.flatnonzero(local.state.participation.rounds).tolist()
    assert np.array_equal(one["rows"], other["rows"])
    assert one["rows"].any(1).all()


def test_in_a_run_a_constant_direction_arrives(task: Task) -> None:
    """Everybody says ones, and a tenth travels in each of ten rounds: the g-th tenth moves once, by g."""
    last = run(Scheme(Says(torch.ones(910)), Fixed(12), stages=(TopFeedback(0.1),)), task, 10)[-1]
    moved = last.state.weights - flatten(task.model)
    assert torch.allclose(moved, torch.arange(910) // 91 + 1.0, rtol=0, atol=1e-5)
