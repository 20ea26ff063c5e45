"""Bytes per client: the running figures against a look at everybody."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.traffic import Traffic

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


def test_threads_lose_nothing():
    traffic, everyone = Traffic(4), np.arange(4)
    threads = [
        threading.Thread(target=lambda: [traffic.up(everyone, Sent(1, 1)) for _ in range(2000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traffic.counts[0].tolist() == [8000] * 4
