import numpy as np
import torch
from contexts import Context

from hush.core.spec import Plan, Spec, Total
from hush.parts.stages import Weigh
from hush.random.seeds import SecretSeed


def context(sizes: list[int]) -> Context:
    plan = Plan(1, torch.zeros(2), None, float(len(sizes)), float(len(sizes)))
    return Context(Spec(2), plan, np.arange(len(sizes)), torch.tensor(sizes), SecretSeed.simulated(0))


def test_body_over_count_is_the_weighted_mean() -> None:
    x, ctx = torch.tensor([[1.0, 0.0], [5.0, 2.0]]), context([3, 1])
    encoded = Weigh().encode(x, ctx)
    assert encoded.tolist() == [[3.0, 0.0], [5.0, 2.0]]
    total = Weigh().decode(Total(encoded.double().sum(0), 2, 4.0), ctx)
    assert (total.body / total.count).tolist() == [2.0, 0.5]


def test_nobody_came() -> None:
    """The empty sum stays the empty sum."""
    total = Weigh().decode(Total(torch.zeros(2, dtype=torch.float64), 0, 0.0), context([]))
    assert total.body.tolist() == [0.0, 0.0]
