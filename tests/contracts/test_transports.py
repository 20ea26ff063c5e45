"""Simulated and Loopback are one: the same weights and the same bytes."""

import math
import struct
import zlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from contracts.parts import Around, Watch, run
from hush.catalogue.entries import ENTRIES, Entry
from hush.catalogue.values import Settings
from hush.core.clients import Opening
from hush.core.memory import Memory
from hush.core.plain import Average, Sum
from hush.core.rounds import Report, loop
from hush.core.scheme import Scheme
from hush.core.task import Enrolled, Task
from hush.errors import Mistake
from hush.federation import messages
from hush.federation.channel import InProcess
from hush.federation.loopback import Loopback
from hush.federation.remote import Remote
from hush.federation.simulated import Simulated
from hush.models.metrics import evaluate
from hush.models.weights import flatten
from hush.parts.aggregators import BitVote
from hush.parts.coordinates import RandomK
from hush.parts.sampling import Fixed, Once, Poisson
from hush.parts.stages import AdaptiveClip, Clip, Noise, Sense
from hush.parts.steps import Momentum, Stay
from hush.random.seeds import SecretSeed

SAMPLINGS = {"fixed": Fixed(5), "poisson": Poisson(0.4)}


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_blocks_of_one_are_loopback(entry: Entry, sampling: str, task: Task, settings: Settings) -> None:
    scheme = entry.scheme(replace(settings, sampling=SAMPLINGS[sampling]))
    local, bytewise = (run(scheme, task, 2, transport=t) for t in (Simulated(1, exact=True), Loopback()))
    for one, other in zip(local, bytewise, strict=True):
        assert torch.equal(one.state.weights, other.state.weights)
        assert one.bytes == other.bytes
        assert one.epsilon == other.epsilon
    assert (local[-1].state.traffic.counts == bytewise[-1].state.traffic.counts).all()
    assert not torch.equal(local[-1].state.weights, flatten(task.model))


def test_an_upload_has_the_very_bytes_of_the_simulated_one(entry: Entry, task: Task, settings: Settings) -> None:
    """Of a session that has its own rows alone: what follows the header, which names the plan."""
    scheme, sent = entry.scheme(replace(settings, sampling=Fixed(5))), {}

    def kept(round: int, client: int, data: bytes) -> bytes:
        sent[client] = data
        return data

    run(scheme, task, 1, transport=Loopback(line=kept))
    watch = Watch(Simulated(block=1))
    run(scheme, task, 1, transport=watch)
    (plan,), (cohort,) = watch.plans, watch.cohorts
    assert sorted(sent) == sorted(cohort)
    spec = scheme.specs(scheme.width(plan), plan.clip)[-1]
    for place, client in enumerate(cohort):
        block = task.block(np.array([client]), SecretSeed.simulated(4), Memory())
        row = scheme.client(block, plan.to([place]))[0]
        records = int(task.sizes[client]) if spec.weighted else None
        slow = messages.pack_upload(row, 1, bytes(8), spec.form, records).data
        assert sent[client][messages.UPLOAD_HEADER :] == slow[messages.UPLOAD_HEADER :]


@pytest.mark.parametrize("other", [{"vote": 0.5}, {"clip": AdaptiveClip(0.3)}], ids=["vote", "adaptive"])
def test_blocks_of_one_are_loopback_with_other_parts(other: dict, task: Task, settings: Settings) -> None:
    scheme = ENTRIES["fl-top-dp"].scheme(replace(settings, **other))
    local, bytewise = (run(scheme, task, transport=t)[-1] for t in (Simulated(1, exact=True), Loopback()))
    assert torch.equal(local.state.weights, bytewise.state.weights)
    assert local.clip == bytewise.clip
    assert (local.state.traffic.counts == bytewise.state.traffic.counts).all()


def test_blocks_agree(entry: Entry, task: Task, settings: Settings) -> None:
    """One, 7 and 100 clients at a time: the same cohorts and noise, sums that differ in rounding only."""
    scheme = entry.scheme(replace(settings, sampling=Fixed(10)))
    start = flatten(task.model)
    one, seven, hundred = (run(scheme, task, 2, transport=Simulated(block=b))[-1] for b in (1, 7, 100))
    moved = one.state.weights - start
    for other in (seven, hundred):
        assert other.bytes == one.bytes
        assert (other.state.weights - one.state.weights).norm() <= 1e-5 * moved.norm()


def dropping(scheme: Scheme, task: Task, lost: int) -> tuple[list[Report], list[Report]]:
    """The same run over both, in which the first `lost` of 12 clients do not answer in round 2."""

    def gone(round: int, client: int) -> bool:
        return round == 2 and client < lost

    local, bytewise = (run(scheme, task, transport=t) for t in (Simulated(1, gone, exact=True), Loopback(gone)))
    return local, bytewise


def test_dropouts_cost_the_same_bytes(entry: Entry, task: Task, settings: Settings) -> None:
    """The plan went to all 12; 3 have not answered, and neither transport aborts the round."""
    scheme = entry.scheme(replace(settings, sampling=Fixed(12, tolerance=0.1)))
    local, bytewise = dropping(scheme, task, lost=3)
    assert not any(report.aborted for report in (*local, *bytewise))
    assert torch.equal(local[-1].state.weights, bytewise[-1].state.weights)
    assert (local[-1].state.traffic.counts == bytewise[-1].state.traffic.counts).all()
    assert local[1].cohort == 9


def broken(data: bytes) -> dict[str, bytes]:
    """What may come in place of an upload."""
    older = bytearray(data)
    older[8] ^= 1  # of another round, with a check sum of its own
    head = bytes(older[: messages.UPLOAD.size])
    older[messages.UPLOAD.size : messages.UPLOAD_HEADER] = messages.CRC.pack(
        zlib.crc32(data[messages.UPLOAD_HEADER :], zlib.crc32(head))
    )
    return {"truncated": data[:-1], "nothing": b"", "another round": bytes(older), "flipped": data[:-1] + b"\xff"}


@pytest.mark.parametrize("how", ["truncated", "nothing", "another round", "flipped"])
@pytest.mark.parametrize("name", ["two-bit", "two-bit-dp", "qsgd", "top-k-ef", "fl-cs", "fl-std"])
def test_a_bad_upload_is_refused_and_the_round_goes_on(name: str, how: str, task: Task, settings: Settings) -> None:
    """As if the client had not answered: the others' sum, and one sentence."""
    scheme = ENTRIES[name].scheme(replace(settings, sampling=Fixed(12, tolerance=0.25)))

    def line(bad: int):
        return lambda round, client, data: broken(data)[how] if round == 2 and client < bad else data

    for bad in (3, 4):
        found = run(scheme, task, transport=Loopback(line=line(bad)))
        lost = run(scheme, task, transport=Loopback(lambda round, client, bad=bad: round == 2 and client < bad))
        assert [report.aborted for report in found] == [False, False, False]
        assert [len(report.refused) for report in found] == [0, bad, 0]
        assert all(sentence.startswith("client ") and "refused" in sentence for sentence in found[1].refused)
        assert torch.equal(found[-1].state.weights, lost[-1].state.weights)


def test_too_few_for_the_places_of_two_bit(task: Task, settings: Settings) -> None:
    """A vote needs its voters: 5 clients, of which two stay, cannot fill p - 1 = 3 places."""
    scheme = ENTRIES["two-bit"].scheme(replace(settings, sampling=Fixed(5, tolerance=0.6)))
    first, second = run(scheme, task, 2, transport=Simulated(lost=Lost(3)))
    assert (first.aborted, second.aborted) == (True, True)
    assert torch.equal(second.state.weights, flatten(task.model))
    (enough,) = run(scheme, task, 1, transport=Simulated(lost=Lost(2)))
    assert not enough.aborted


class Lost:
    """Loses the first `count` clients of each round."""

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, dict[int, int]()

    def __call__(self, round: int, client: int) -> bool:
        self.asked[round] = self.asked.get(round, 0) + 1
        return self.asked[round] <= self.count


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"precision": 2}, "p=2 has one place"),
        ({"precision": 65}, "must be from 3 to 64"),
        ({"bound": 0.0}, "bound=0.0 must be positive"),
        ({"bound": math.nan}, "must be positive"),
    ],
)
def test_two_bit_that_cannot_be(change: dict, sentence: str, settings: Settings) -> None:
    with pytest.raises(Mistake, match=sentence):
        ENTRIES["two-bit"].scheme(replace(settings, **change))


def test_a_cohort_that_is_too_small_for_two_bit(task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match=r"cohort=5 cannot fill the 31 places of two-bit with p=32: take a cohort"):
        run(ENTRIES["two-bit"].scheme(replace(settings, precision=32)), task, 1)


def test_parts_that_belong_together(task: Task, settings: Settings) -> None:
    scheme = ENTRIES["two-bit"].scheme(settings)
    for wrong in (
        replace(scheme, aggregator=Sum()),
        replace(scheme, aggregator=BitVote(5)),
        replace(scheme, stages=()),
    ):
        with pytest.raises(Mistake, match="belong together"):
            run(wrong, task, 1)


def test_memory_that_would_not_fit_the_next_round(task: Task, settings: Settings) -> None:
    scheme = ENTRIES["top-k-ef"].scheme(settings)
    with pytest.raises(Mistake, match="drawn each round"):
        run(replace(scheme, coordinates=RandomK(0.5, fresh=True)), task, 1)
    record = ENTRIES["fl-sign-dp"].scheme(settings)
    with pytest.raises(Mistake, match="Dpsgd"):
        run(replace(record, stages=scheme.stages, step=scheme.step), task, 1)


@pytest.mark.parametrize("name", ["fl-std", "two-bit", "qsgd", "top-k-ef", "dp-fedavg", "fl-sign-dp", "fl-top-dp"])
def test_one_bad_upload_of_many(name: str, task: Task, settings: Settings) -> None:
    """The round goes on with the others, also where noise is in shares: the server adds the missing one."""
    scheme = ENTRIES[name].scheme(replace(settings, sampling=Fixed(12)))
    line = Loopback(line=lambda round, client, data: data[:-1] if client == 7 else data)
    (report,) = run(scheme, task, 1, transport=line)
    assert (report.aborted, report.cohort, len(report.refused)) == (False, 11, 1)


def test_an_upload_that_is_not_finite_is_refused(task: Task, settings: Settings) -> None:
    """One client's NaN leaves the others' mean as it is."""

    def poisoned(round: int, client: int, data: bytes) -> bytes:
        if client != 3:
            return data
        head, rest = data[: messages.UPLOAD.size], data[messages.UPLOAD_HEADER :]  # the number of records comes first
        body = rest[:4] + b"\x00\x00\xc0\x7f" + rest[8:]
        return head + messages.CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body

    scheme = ENTRIES["fl-std"].scheme(replace(settings, sampling=Fixed(12)))
    (report,) = run(scheme, task, 1, transport=Loopback(line=poisoned))
    assert report.refused == ("client 3: upload of round 1: there are numbers that are not finite: refused",)
    assert report.state.weights.isfinite().all()


def test_a_client_has_no_more_records_than_it_registered(task: Task, settings: Settings) -> None:
    """Else one client could weigh as much as it likes."""

    def boasting(round: int, client: int, data: bytes) -> bytes:
        head, rest = data[: messages.UPLOAD.size], data[messages.UPLOAD_HEADER :]
        body = messages.RECORDS.pack(10**6) + rest[4:] if client == 3 else rest
        return head + messages.CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body

    scheme = ENTRIES["fl-std"].scheme(replace(settings, sampling=Fixed(12)))
    (report,) = run(scheme, task, 1, transport=Loopback(line=boasting))
    (why,) = report.refused
    assert why.startswith("client 3: it says that it has 1000000 records")


@pytest.mark.parametrize("name", ["fl-std", "fl-top", "fl-bas-4", "fl-cs", "top-k-ef", "fl-standard-dp", "dp-fedavg"])
def test_an_upload_of_huge_numbers_is_refused(name: str, task: Task, settings: Settings) -> None:
    """Finite, and of the right form: one client's would carry the weights off, and end the run for all."""

    def huge(round: int, client: int, data: bytes) -> bytes:
        if client != 3:
            return data
        head, body = data[: messages.UPLOAD.size], bytearray(data[messages.UPLOAD_HEADER :])
        body[-4:] = struct.pack("<f", 3e38)
        return head + messages.CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body

    scheme = ENTRIES[name].scheme(replace(settings, sampling=Fixed(12)))
    for report in run(scheme, task, 2, transport=Loopback(line=huge)):
        assert len(report.refused) == 1
        assert report.state.weights.abs().max() < 1e3


def test_an_upload_is_of_its_client(task: Task, settings: Settings) -> None:
    """Another's, sent again, does not count twice."""
    first: list[bytes] = []

    def copied(round: int, client: int, data: bytes) -> bytes:
        first.append(data)
        return first[0]

    scheme = ENTRIES["fl-top-dp"].scheme(replace(settings, sampling=Fixed(5)))
    (report,) = run(scheme, task, 1, transport=Loopback(line=copied))
    assert len(report.refused) == 4
    assert all("answers another plan" in why for why in report.refused)


@pytest.mark.parametrize("secret", [None, SecretSeed.simulated(4), SecretSeed.simulated(2**70)])
def test_a_server_of_a_network_has_draws_of_its_own(secret: SecretSeed | None, task: Task, settings: Settings) -> None:
    """Not those of the public seed, from which everybody could compute its cohorts and its noise."""
    remote = Remote(Enrolled(task.problem, task.sizes), InProcess(lambda client: None), "run", "ab" * 32, {})
    with pytest.raises(Mistake, match=r"SecretSeed\.system"):
        next(loop(ENTRIES["fl-top-dp"].scheme(settings), remote, rounds=1, seed=4, secret=secret))
    remote.begin(Opening(ENTRIES["fl-top-dp"].scheme(settings), 4, SecretSeed.system(), 1, 1e-5))


def test_noise_that_is_taken_back_needs_a_seed_that_cannot_be_guessed(task: Task, settings: Settings) -> None:
    remote = Remote(Enrolled(task.problem, task.sizes), InProcess(lambda client: None), "run", "ab" * 32, {})
    scheme = ENTRIES["hush-trusted"].scheme(replace(settings, sampling=Once(4)))
    with pytest.raises(Mistake, match="may be guessed"):
        remote.begin(Opening(scheme, 4, SecretSeed.simulated(4), 1, 1e-5))
    remote.begin(Opening(scheme, 4, SecretSeed.simulated(2**100), 1, 1e-5))


@dataclass
class Dataless(Around):
    """Sessions, and a server that has the problem and what clients said when they registered, and no row of theirs."""

    @property
    def enrolled(self) -> Enrolled:
        task = self.clients.enrolled
        return Enrolled(task.problem, task.sizes)


def test_a_server_needs_no_rows(entry: Entry, task: Task, settings: Settings) -> None:
    """With its own test rows and the clients' numbers of records it comes to the same weights."""
    scheme = entry.scheme(replace(settings, sampling=Fixed(5)))
    with_rows = run(scheme, task, 2, transport=Loopback())[-1]
    without = run(scheme, task, 2, transport=Dataless(Loopback()))[-1]
    assert torch.equal(with_rows.state.weights, without.state.weights)
    assert with_rows.epsilon == without.epsilon
    assert evaluate(without.task, without.state.weights) == evaluate(task, with_rows.state.weights)


def test_parts_that_would_train_for_nothing(task: Task, settings: Settings) -> None:
    alone, sensed = ENTRIES["standalone"].scheme(settings), ENTRIES["fl-cs"].scheme(settings)
    noisy = (Clip(1.0), Noise(1.0))
    for wrong in (
        replace(alone, stages=noisy),
        replace(alone, coordinates=RandomK(0.1, fresh=False)),
        replace(alone, step=Average()),
        replace(alone, baseline=False),
        replace(sensed, stages=(), step=Stay()),
    ):
        with pytest.raises(Mistake, match="standalone=True is for clients that send nothing"):
            run(wrong, task, 1)
    for wrong in (
        replace(sensed, step=Average()),
        replace(sensed, step=Momentum(0.35)),
        replace(sensed, stages=()),
        replace(sensed, stages=(Sense(0.1, 10, seed=5),)),
    ):
        with pytest.raises(Mistake, match="give the very same Sense to both"):
            run(wrong, task, 1)
    fresh = replace(sensed, stages=(), step=Momentum(1.0), coordinates=RandomK(0.1, fresh=True))
    with pytest.raises(Mistake, match="Momentum keeps a number"):
        run(fresh, task, 1)
