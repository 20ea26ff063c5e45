"""Bytes per client: the running figures against a look at everybody."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.traffic import Traffic
from hush.secure.tally import GRAPH, HALVES, Tally

CLIENTS = 6


@dataclass(frozen=True)
class Sent:
    payload: int
    protocol: int


NOTES = st.lists(
    st.tuples(
        st.sampled_from(["up", "down"]),
        st.lists(st.integers(0, CLIENTS - 1), unique=True),
        st.builds(Sent, st.integers(0, 10**9), st.integers(0, 99)),
    ),
    max_size=20,
)


@given(NOTES)
def test_the_summary_is_that_of_all_counts(notes):
    traffic, counts = Traffic(CLIENTS), np.zeros((4, CLIENTS), np.int64)
    for way, members, message in notes:
        getattr(traffic, way)(np.array(members, np.int64), message)
        first = 0 if way == "up" else 2
        counts[first, members] += message.payload
        counts[first + 1, members] += message.protocol
        traffic.settle()
        means = {"mean": counts.mean(1), "max": counts.max(1)}
        for number, (direction, part) in enumerate([(w, p) for w in ("up", "down") for p in ("payload", "protocol")]):
            found = traffic.summary()[direction][part]
            assert found == {"mean": pytest.approx(means["mean"][number]), "max": means["max"][number]}
    np.testing.assert_array_equal(traffic.counts, counts)
    assert Traffic(CLIENTS, traffic.counts).summary() == traffic.summary()


def test_what_was_noted_counts_once_settled_and_never_once_discarded():
    traffic = Traffic(3)
    traffic.up(np.array([0, 2]), Sent(5, 1))
    traffic.settle()
    traffic.down(np.array([1]), Sent(7, 1))
    traffic.discard()
    assert traffic.counts.tolist() == [[5, 0, 5], [1, 0, 1], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("look", ["counts", "phases", "summary", "copy"])
def test_a_look_counts_nothing_of_a_round_that_may_still_fail(look):
    traffic, tally = Traffic(3), Tally(HALVES, 2)
    tally.up[:] = [[120], [113]]
    traffic.up(np.array([0, 2]), Sent(5, 1))
    traffic.settle()
    before = traffic.summary()
    traffic.down(np.array([1]), Sent(7, 1))
    traffic.summed(np.array([2, 0]), tally, 20)
    found = getattr(traffic, look)
    if callable(found):
        found()
    traffic.discard()
    traffic.settle()
    assert traffic.summary() == before
    assert traffic.counts.tolist() == [[5, 0, 5], [1, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert traffic.phases == {}


def test_threads_lose_nothing():
    traffic, everyone = Traffic(4), np.arange(4)
    threads = [
        threading.Thread(target=lambda: [traffic.up(everyone, Sent(1, 1)) for _ in range(2000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traffic.settle()
    assert traffic.counts[0].tolist() == [8000] * 4


def secure_sum(phases, seed):
    """Who took part, in what order, the bytes of each phase, the bytes of the numbers, and who sent them."""
    rng = np.random.default_rng(seed)
    members = rng.permutation(CLIENTS)[: rng.integers(3, CLIENTS + 1)]
    tally, payload, sent = Tally(phases, len(members)), int(rng.integers(1, 1000)), rng.random(len(members)) < 0.7
    tally.up[:] = rng.integers(0, 99, tally.up.shape)
    tally.down[:] = rng.integers(0, 99, tally.up.shape)
    carried = phases.index("mask" if phases == GRAPH else "numbers")
    tally.up[carried] = np.where(sent, tally.up[carried] + payload, 0)
    return members, tally, payload, sent


SUMS = st.builds(secure_sum, st.sampled_from([GRAPH, HALVES]), st.integers(0, 10**6))


@given(st.lists(SUMS, min_size=1, max_size=4))
def test_phases_of_secure_sums(sums):
    """By phase, and at the same time as payload and protocol: nothing is lost, nothing is counted twice."""
    traffic, kinds = Traffic(CLIENTS), np.zeros((4, CLIENTS), np.int64)
    phases: dict[str, np.ndarray] = {}
    for members, tally, payload, sent in sums:
        traffic.up(members, Sent(3, 1))
        kinds[:2, members] += np.array([[3], [1]])
        traffic.summed(members, tally, payload)
        for seat, client in enumerate(members):
            kinds[0, client] += payload * sent[seat]
            kinds[1, client] += tally.up[:, seat].sum() - payload * sent[seat]
            kinds[3, client] += tally.down[:, seat].sum()
            for row, phase in enumerate(tally.phases):
                found = phases.setdefault(phase, np.zeros((2, CLIENTS), np.int64))
                found[:, client] += tally.up[row, seat], tally.down[row, seat]
        tally.up[:] = -1  # what is noted is what it was
    traffic.settle()
    np.testing.assert_array_equal(traffic.counts, kinds)
    assert list(traffic.phases) == list(phases)
    table = traffic.summary()["phases"]
    for phase, both in phases.items():
        np.testing.assert_array_equal(traffic.phases[phase], both)
        for way, row in zip(("up", "down"), both, strict=True):
            assert table[phase][way] == {"mean": pytest.approx(row.mean()), "max": row.max()}
    again = Traffic(CLIENTS, traffic.counts.copy(), {name: both.copy() for name, both in traffic.phases.items()})
    assert again.summary() == traffic.summary()
    assert list(again.summary()["phases"]) == list(table)


def test_a_secure_sum_counts_once_settled_and_never_once_discarded():
    traffic, tally = Traffic(4), Tally(HALVES, 3)
    tally.up[:] = [[120], [113]]
    traffic.summed(np.array([3, 0, 1]), tally, 20)
    traffic.discard()
    assert traffic.phases == {}
    assert not traffic.counts.any()
    assert "phases" not in traffic.summary()
    traffic.summed(np.array([3, 0, 1]), tally, 20)
    traffic.settle()
    kept = traffic.copy()
    assert kept.phases["numbers"].tolist() == [[120, 120, 0, 120], [0] * 4]
    assert kept.counts.tolist() == [[20, 20, 0, 20], [213, 213, 0, 213], [0] * 4, [0] * 4]
    traffic.summed(np.array([0, 1, 2]), tally, 20)
    traffic.settle()
    assert traffic.phases["seeds"][0].tolist() == [226, 226, 113, 113]
    assert kept.phases["seeds"][0].tolist() == [113, 113, 0, 113]  # a copy goes on apart
