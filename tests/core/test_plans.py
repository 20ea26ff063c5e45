"""The order that an attack supposes is the one that the loop gives."""

from dataclasses import fields, replace

import pytest
import torch
from contracts.parts import Watch
from torch import Tensor

from hush.audit.properties import _plan
from hush.audit.upload import see
from hush.catalogue.entries import ENTRIES
from hush.catalogue.values import Settings
from hush.core.spec import Plan
from hush.core.task import Task
from hush.federation.simulated import rounds
from hush.parts.blocks import Blocks
from hush.parts.sampling import Poisson

SEED = 3


def values(plan: Plan) -> dict[str, object]:
    return {
        field.name: value.tolist() if isinstance(value := getattr(plan, field.name), Tensor) else value
        for field in fields(plan)
        if field.name != "seats"
    }


@pytest.mark.parametrize("name", ["two-bit", "fl-top-dp", "fl-basic", "blocks"])
def test_attacks_suppose_the_plan_of_the_loop(name: str, task: Task, settings: Settings) -> None:
    entry = ENTRIES["fl-top-dp" if name == "blocks" else name]
    scheme = replace(entry.scheme(settings), sampling=Poisson(1.0))
    if name == "blocks":
        scheme = replace(scheme, coordinates=Blocks(3, scheme.coordinates, "weights"))
    watch = Watch()
    next(rounds(scheme, task, rounds=1, seed=SEED, transport=watch, ledger=watch.ledger))
    told = watch.plans[0]
    seen = see(scheme, task, 0, seed=SEED).plan
    assert values(seen) == values(told)
    assert values(_plan(scheme, task.problem, task.clients, None, SEED)) == values(told)
    if told.seats is None:
        assert seen.seats is None
    else:
        assert sorted(told.seats.tolist()) == list(range(task.clients))
        assert seen.seats is not None
        assert seen.seats.tolist() == told.seats[:1].tolist()
    assert (told.seats is not None) == (name == "two-bit")
    assert torch.equal(seen.weights, told.weights)
