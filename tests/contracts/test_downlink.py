"""Every scheme with its weights in eight bits on their way down."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from contracts.parts import Watch, run
from contracts.test_resume import assert_goes_on
from hush import wire
from hush.catalogue import ENTRIES, Entry
from hush.downlink import Coarse
from hush.errors import Mistake
from hush.knobs import Knobs
from hush.task import Task
from hush.transports import Local, Loopback
from hush.weights import flatten


def test_transports_agree(entry: Entry, task: Task, knobs: Knobs) -> None:
    scheme = entry.scheme(replace(knobs, down=8))
    local, loop = (run(scheme, task, transport=transport)[-1] for transport in (Local(block=1), Loopback()))
    assert torch.equal(local.state.weights, loop.state.weights)
    assert local.bytes == loop.bytes


def test_what_clients_get(entry: Entry, task: Task, knobs: Knobs) -> None:
    """From round 2 on, a byte for each weight and a scale for a bucket, near what the server itself goes on from."""
    scheme, watch = entry.scheme(replace(knobs, down=8)), Watch()
    own = [report.state.weights for report in run(scheme, task, transport=watch)]
    first, *later = watch.plans
    assert torch.equal(first.weights, flatten(task.model))
    owed: Tensor | None = None
    for plan, weights in zip(later, own, strict=False):
        got, owed = scheme.send(plan.round, weights, plan.live, owed)
        assert torch.equal(plan.weights, got)
        assert not torch.equal(got, weights)
        assert (got - weights).abs().max() <= 1.01 * weights.abs().max() / 127
        message = wire.pack_plan(plan.to([0]), scheme.coordinates, scheme.down.form)
        sent = plan.live.numel() if plan.live is not None and scheme.coordinates.fixed else weights.numel()
        assert message.payload == sent + 4 * -(-sent // 512)
        back = wire.unpack_plan(
            message.data, flatten(task.model), plan.live, scheme.coordinates, scheme.seated, scheme.down.form
        )
        assert torch.equal(back.weights, plan.weights)


def test_resume(entry: Entry, task: Task, knobs: Knobs) -> None:
    assert_goes_on(entry.scheme(replace(knobs, down=8)), task)


def test_refused_where_nothing_travels(task: Task, knobs: Knobs) -> None:
    with pytest.raises(Mistake, match="nothing travels down"):
        ENTRIES["standalone"].scheme(replace(knobs, down=8)).check(task)


def test_refused_with_batch_statistics(task: Task, knobs: Knobs) -> None:
    width = task.train.inputs[0].numel()
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(width), nn.Linear(width, 10))
    normed, scheme = replace(task, model=model), ENTRIES["fl-std"].scheme(knobs)
    scheme.check(normed)
    with pytest.raises(Mistake, match="or rounded"):
        replace(scheme, down=Coarse()).check(normed)
