"""Models that people bring: each trains privately, for clients and for records, and is evaluated."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from models import cases
from models.cases import CASES, CLIENTS, Case
from torch import Tensor

from hush.core.engine import Engine
from hush.core.plain import All
from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Task
from hush.federation.simulated import Simulated, rounds
from hush.models.metrics import evaluate
from hush.models.weights import flatten, load
from hush.parts.sampling import Fixed
from hush.parts.stages import Clip, Noise
from hush.parts.trainers import Dpsgd, Sgd
from hush.parts.trainers.clipped import sums
from hush.parts.trainers.cohort import choose
from hush.random.seeds import PublicSeed, SecretSeed

SECRET = SecretSeed.simulated(1)
EVERYONE = np.arange(CLIENTS)
RATE, TURNS, CLIP = 0.2, 3, 0.05
named = pytest.mark.parametrize("name", CASES)


def live_of(case: Case, task: Task) -> Tensor | None:
    return None if case.only is None else case.only.draw(task.problem, PublicSeed(0), 0, None)


def by_hand(case: Case, task: Task, client: int) -> Tensor:
    """A client's update by torch's own optimizer, in float64 where the model is not of low precision."""
    model = copy.deepcopy(task.model)
    low = next(model.parameters()).dtype in (torch.bfloat16, torch.float16)
    precision = torch.float32 if low else torch.float64
    model = model.to(precision)
    held, start = task.split.rows_of(client), flatten(model)
    inputs, targets = task.train.inputs[held], task.train.targets[held]
    inputs = inputs.to(precision) if inputs.is_floating_point() else inputs
    targets = targets.to(precision) if targets.is_floating_point() else targets
    names = [name for name, p in model.named_parameters() if p.requires_grad and (not case.only or "lora" in name)]
    step = torch.optim.SGD([dict(model.named_parameters())[name] for name in names], RATE)
    for _ in range(TURNS):
        step.zero_grad()
        case.loss(model(inputs), targets).backward()
        step.step()
    moved, live = flatten(model) - start, live_of(case, task)
    return moved if live is None else moved[live]


@named
def test_an_upload_is_what_torch_alone_would_make(name: str) -> None:
    """Before clip and noise, by the engine that is found and by each that takes the model."""
    case = CASES[name]
    task = cases.task(case)
    live, found = live_of(case, task), choose(task.problem, task.population)
    assert found == case.taken or case.taken == "any"
    slow = torch.stack([by_hand(case, task, client) for client in range(CLIENTS)])
    assert slow.norm(dim=1).min() > 1e-3
    for kind in {found, "loop"}:
        plan = Plan(1, flatten(task.model), live)
        fast = Sgd(RATE, TURNS, None).fit(task.block(EVERYONE, SECRET), plan, Engine(kind))
        assert fast.dtype == torch.float32
        assert ((fast - slow).norm(dim=1) / slow.norm(dim=1)).max() < case.close, kind


@named
def test_three_private_rounds_for_clients(name: str) -> None:
    case = CASES[name]
    task = cases.task(case)
    scheme = Scheme(Sgd(RATE, TURNS, None), Fixed(3), case.only or All(), (Clip(CLIP), Noise(0.5)))
    width = scheme.coordinates.count(task.layout)
    block, plan = task.block(EVERYONE, SECRET), Plan(1, flatten(task.model), live_of(case, task), clip=CLIP)
    bounded = replace(scheme, stages=(Clip(CLIP),)).client(block, plan)
    assert bounded.shape == (CLIENTS, width)
    assert CLIP * 0.9 < bounded.double().norm(dim=1).max() <= CLIP
    for report in rounds(scheme, task, rounds=3):
        after = evaluate(task, report.state.weights).loss
    assert report.round == 3
    assert 0 < report.epsilon["model"] < math.inf
    assert math.isfinite(after)
    moved = (report.state.weights - flatten(task.model)).nonzero().flatten()
    assert 0 < len(moved) <= width
    model = copy.deepcopy(task.model)
    load(model, report.state.weights)
    with torch.no_grad():  # what a user does with it
        assert float(case.loss(model.eval()(task.test.inputs), task.test.targets)) == pytest.approx(after, rel=1e-2)


@named
def test_three_private_rounds_for_records(name: str) -> None:
    case = CASES[name]
    task = cases.task(case)
    scheme = Scheme(Dpsgd(RATE, steps=2, batch=2, clip=CLIP, noise=0.5), Fixed(3), case.only or All())
    for report in rounds(scheme, task, rounds=3, transport=Simulated(workers=1)):
        after = evaluate(task, report.state.weights).loss
    assert math.isfinite(after)
    assert report.state.weights.ne(flatten(task.model)).any()
    # No record has more than the bound, and below it each has its own gradient.
    weights, live, held = flatten(task.model), live_of(case, task), slice(0, 3)
    data = task.train.inputs[held], task.train.targets[held]
    many = sums(task.model, case.loss, weights, *data, CLIP, [1, 1, 1], live)
    assert CLIP * 0.9 < many.double().norm(dim=1).max() <= CLIP
    for row, gradient in enumerate(sums(task.model, case.loss, weights, *data, 1e6, [1, 1, 1], live)):
        model = copy.deepcopy(task.model).to(torch.float32 if case.close > 1e-3 else torch.float64)
        inputs, targets = (part[row : row + 1] for part in data)
        inputs = inputs.to(next(model.parameters()).dtype) if inputs.is_floating_point() else inputs
        case.loss(model(inputs), targets).backward()
        parts = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters() if p.requires_grad]
        whole = torch.cat([part.flatten() for part in parts])
        slow = whole if live is None else whole[live]
        assert (gradient - slow).norm() < case.close * slow.norm()
