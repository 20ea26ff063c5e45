"""Every scheme with its weights in eight bits on their way down."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from contracts.parts import Watch, run
from contracts.test_resume import assert_goes_on
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation import messages
from hush.federation.loopback import Loopback
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.downlink import Coarse


def test_transports_agree(entry: Entry, task: Task, settings: Settings) -> None:
    scheme = entry.scheme(replace(settings, downlink_bits=8))
    local, loop = (run(scheme, task, transport=transport)[-1] for transport in (Simulated(1, exact=True), Loopback()))
    assert torch.equal(local.state.weights, loop.state.weights)
    assert local.bytes == loop.bytes


def test_what_clients_get(entry: Entry, task: Task, settings: Settings) -> None:
    """From round 2 on, a byte for each weight and a scale for a bucket, near what the server itself goes on from."""
    scheme, watch = entry.scheme(replace(settings, downlink_bits=8)), Watch()
    own = [report.state.weights for report in run(scheme, task, transport=watch)]
    first, *later = watch.plans
    assert torch.equal(first.weights, flatten(task.model))
    downlink_error: Tensor | None = None
    for plan, weights in zip(later, own, strict=False):
        got, downlink_error = scheme.send(plan.round, weights, plan.live, downlink_error, plan.pool)
        assert torch.equal(plan.weights, got)
        assert not torch.equal(got, weights)
        assert (got - weights).abs().max() <= 1.01 * weights.abs().max() / 127
        message = messages.pack_plan(plan.to([0]), scheme.coordinates, scheme.downlink.form)
        which = plan.live if scheme.coordinates.fixed else plan.pool
        sent = weights.numel() if which is None else which.numel()
        assert message.payload == sent + 4 * -(-sent // 512)
        back = messages.unpack_plan(
            message.data,
            flatten(task.model),
            plan.live,
            scheme.coordinates,
            scheme.seated,
            scheme.downlink.form,
            pool=plan.pool,
        )
        assert torch.equal(back.weights, plan.weights)


def test_resume(entry: Entry, task: Task, settings: Settings) -> None:
    assert_goes_on(entry.scheme(replace(settings, downlink_bits=8)), task)


def test_refused_where_nothing_travels(task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match="nothing travels down"):
        ENTRIES["standalone"].scheme(replace(settings, downlink_bits=8)).check(task)


def test_refused_with_batch_statistics(task: Task, settings: Settings) -> None:
    width = task.train.inputs[0].numel()
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(width), nn.Linear(width, 10))
    normed, scheme = replace(task, model=model), ENTRIES["fl-std"].scheme(settings)
    scheme.check(normed)
    with pytest.raises(Mistake, match="or rounded"):
        replace(scheme, downlink=Coarse()).check(normed)
