"""Bytes are those of packed messages, and as many as the papers' formula says."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts.parts import Watch, run
from hush import wire
from hush.catalogue import ENTRIES, Entry, Knobs
from hush.rng import SecretSeed
from hush.sampling import Fixed
from hush.stages import AdaptiveClip
from hush.task import Task
from hush.weights import flatten

FRESH = ("fl-basic", "fl-bas-2", "fl-basic-dp", "fl-bas-2-dp")
N, K, HEAD, COHORT = 910, 91, 130, 5


def sent(entry: Entry) -> int:
    """How many numbers travel up."""
    whole = any(part in entry.name for part in ("std", "standard", "sign"))
    return N if whole else HEAD if "head" in entry.name else K


def packed(entry: Entry) -> int:
    """In how many bytes: a bit each for signs, else four bytes."""
    return (N + 7) // 8 if "sign" in entry.name else 4 * sent(entry)


@pytest.mark.parametrize("clip", ["fixed", "adaptive"])
def test_upload_is_what_the_spec_says(entry: Entry, clip: str, task: Task, knobs: Knobs) -> None:
    adaptive = clip == "adaptive" and entry.level == "client"
    knobs = replace(knobs, clip=AdaptiveClip(0.3)) if adaptive else knobs
    scheme, watch = entry.scheme(knobs), Watch()
    run(scheme, task, 1, transport=watch)
    plan, (member, *_) = watch.plans[0], watch.cohorts[0]
    row = scheme.client(task, plan, np.array([member]), SecretSeed.simulated(4))[0]
    spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
    message = wire.pack_upload(row, plan.round, b"8 bytes.", spec.bits)
    assert message.payload == (spec.size * spec.bits + 7) // 8 == packed(entry) + 4 * adaptive
    assert len(message.data) == message.payload + message.protocol
    assert spec.size == sent(entry) + adaptive


def test_payload_of_every_round(entry: Entry, task: Task, knobs: Knobs) -> None:
    """Up: K numbers, n for fl-std, the last layer's for fl-head. Down: n for a fresh set, else as up; w_0 never."""
    up = packed(entry)
    down = N if entry.name in FRESH else sent(entry)
    for t, report in enumerate(run(entry.scheme(knobs), task), 1):
        share = COHORT / task.clients
        assert report.bytes["up"]["payload"]["mean"] == pytest.approx(up * t * share)
        assert report.bytes["down"]["payload"]["mean"] == pytest.approx(4 * down * (t - 1) * share)
        assert report.bytes["up"]["protocol"]["mean"] == pytest.approx(28 * t * share)
        assert report.bytes["down"]["protocol"]["mean"] == pytest.approx(48 * t * share)


def test_largest_is_the_busiest_client(task: Task, knobs: Knobs) -> None:
    watch = Watch()
    report = run(ENTRIES["fl-top"].scheme(knobs), task, transport=watch)[-1]
    joined = [sum(client in cohort for cohort in watch.cohorts) for client in range(task.clients)]
    assert max(joined) > min(joined)
    assert report.bytes["up"]["payload"]["max"] == 4 * K * max(joined)
    later = [sum(client in cohort for cohort in watch.cohorts[1:]) for client in range(task.clients)]
    assert report.bytes["down"]["payload"]["max"] == 4 * K * max(later)


def test_vote_is_paid_for(task: Task, knobs: Knobs) -> None:
    """A full vector up once; the set, which nobody can derive, goes down with every plan."""
    knobs = replace(knobs, sampling=Fixed(12), vote=0.5)
    first, second = run(ENTRIES["fl-top-dp"].scheme(knobs), task, 2)
    assert first.bytes["up"]["payload"]["mean"] == 4 * (N + K)
    assert second.bytes["up"]["payload"]["mean"] == 4 * (N + 2 * K)
    assert first.bytes["down"]["payload"]["mean"] == 4 * K
    assert second.bytes["down"]["payload"]["mean"] == 4 * (K + 2 * K)


def test_what_is_down_is_enough(entry: Entry, task: Task, knobs: Knobs) -> None:
    """A client rebuilds the server's weights exactly from w_0, the live set and the bytes of the plan."""
    scheme, watch = entry.scheme(knobs), Watch()
    run(scheme, task, transport=watch)
    for plan in watch.plans:
        message = wire.pack_plan(plan, scheme.coordinates)
        found = wire.unpack_plan(message.data, flatten(task.model), plan.live, scheme.coordinates)
        assert torch.equal(found.weights, plan.weights)
        assert (found.round, found.cohort, found.floor, found.clip) == (
            plan.round,
            plan.cohort,
            plan.floor,
            plan.clip,
        )
