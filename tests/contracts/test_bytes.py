"""Bytes are those of packed messages, and as many as the papers' formula says."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from contracts.parts import Watch, run
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.memory import Memory
from hush.core.task import Task
from hush.federation import messages
from hush.models.weights import flatten
from hush.parts.sampling import Fixed
from hush.parts.stages import AdaptiveClip
from hush.random.seeds import SecretSeed

FRESH = ("fl-basic", "fl-bas-2", "fl-basic-dp", "fl-bas-2-dp", "fl-cs", "fl-cs-dp", "top-k-ef")
WHOLE = ("std", "standard", "sign", "two-bit", "fedavg", "qsgd", "hush")
N, K, HEAD, COHORT = 910, 91, 130, 5


def sent(entry: Entry) -> int:
    """How many numbers travel up."""
    whole = any(part in entry.name for part in WHOLE)
    return N if whole else HEAD if "head" in entry.name else K


def packed(entry: Entry) -> int:
    """In how many bytes: a bit or two each, four and the scales of two buckets, a place and a number, a number."""
    found = {"sign": (N + 7) // 8, "two-bit": (2 * N + 7) // 8, "qsgd": N // 2 + 2 * 4, "top-k": 8 * K}
    return next((size for part, size in found.items() if part in entry.name), 4 * sent(entry))


def check_upload(entry: Entry, task: Task, settings: Settings, adaptive: bool) -> None:
    scheme, watch = entry.scheme(settings), Watch()
    run(scheme, task, 1, transport=watch)
    plan, (member, *_) = watch.plans[0].to([0]), watch.cohorts[0]
    row = scheme.client(task.block(np.array([member]), SecretSeed.simulated(4), Memory()), plan)[0]
    spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
    message = messages.pack_upload(row, plan.round, b"8 bytes.", spec.form)
    assert message.payload == spec.form.length(spec.size) == packed(entry) + 4 * adaptive
    assert len(message.data) == message.payload + message.protocol
    assert spec.size == (N if entry.name == "top-k-ef" else sent(entry)) + adaptive
    assert torch.equal(spec.form.unpack(spec.form.pack(row), spec.size), row)


def test_upload_is_what_the_spec_says(entry: Entry, task: Task, settings: Settings) -> None:
    check_upload(entry, task, settings, adaptive=False)


def test_upload_with_an_adaptive_clip(adaptive: Entry, task: Task, settings: Settings) -> None:
    check_upload(adaptive, task, replace(settings, clip=AdaptiveClip(0.3)), adaptive=True)


def test_payload_of_every_round(entry: Entry, task: Task, settings: Settings) -> None:
    """Up: K numbers, n for fl-std, the last layer's for fl-head. Down: n for a fresh set, else as up; w_0 never."""
    up = packed(entry)
    down = N if entry.name in FRESH else sent(entry)
    weighed = 4 * (entry.name in ("fl-std", "fl-standard"))  # the number of records
    for t, report in enumerate(run(entry.scheme(settings), task), 1):
        share = COHORT / task.clients
        assert report.bytes["up"]["payload"]["mean"] == pytest.approx(up * t * share)
        assert report.bytes["down"]["payload"]["mean"] == pytest.approx(4 * down * (t - 1) * share)
        assert report.bytes["up"]["protocol"]["mean"] == pytest.approx((28 + weighed) * t * share)
        seat = 4 * (entry.name == "two-bit")
        assert report.bytes["down"]["protocol"]["mean"] == pytest.approx((56 + seat) * t * share)


def test_largest_is_the_busiest_client(task: Task, settings: Settings) -> None:
    watch = Watch()
    report = run(ENTRIES["fl-top"].scheme(settings), task, transport=watch)[-1]
    joined = [sum(client in cohort for cohort in watch.cohorts) for client in range(task.clients)]
    assert max(joined) > min(joined)
    assert report.bytes["up"]["payload"]["max"] == 4 * K * max(joined)
    later = [sum(client in cohort for cohort in watch.cohorts[1:]) for client in range(task.clients)]
    assert report.bytes["down"]["payload"]["max"] == 4 * K * max(later)


def test_vote_is_paid_for(task: Task, settings: Settings) -> None:
    """A full vector up once; the set, which nobody can derive, goes down with every plan."""
    settings = replace(settings, sampling=Fixed(12), vote=0.5)
    first, second = run(ENTRIES["fl-top-dp"].scheme(settings), task, 2)
    assert first.bytes["up"]["payload"]["mean"] == 4 * (N + K)
    assert second.bytes["up"]["payload"]["mean"] == 4 * (N + 2 * K)
    assert first.bytes["down"]["payload"]["mean"] == 4 * K
    assert second.bytes["down"]["payload"]["mean"] == 4 * (K + 2 * K)


def test_what_is_down_is_enough(entry: Entry, task: Task, settings: Settings) -> None:
    """A client rebuilds the server's weights exactly from w_0, the live set and the bytes of the plan."""
    scheme, watch = entry.scheme(settings), Watch()
    run(scheme, task, transport=watch)
    for plan in watch.plans:
        own = plan.to([0])
        message = messages.pack_plan(own, scheme.coordinates)
        found = messages.unpack_plan(message.data, flatten(task.model), plan.live, scheme.coordinates, scheme.seated)
        assert torch.equal(found.weights, plan.weights)
        assert np.array_equal(found.seats, own.seats)
        assert (found.round, found.cohort, found.floor, found.clip) == (
            plan.round,
            plan.cohort,
            plan.floor,
            plan.clip,
        )
