"""Two servers: the same sum, two messages a client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Aborted, Mistake
from hush.secure import binding
from hush.secure.keys import repeatable
from hush.secure.messages import HEAD, SIGNATURE, Phase, from_client, pack_set
from hush.secure.twoserver import Half, HalfServer, join, run, split
from secure.cohorts import identities, numbers, plain, terms


@settings(max_examples=40)
@given(st.integers(2, 32), st.sets(st.integers(0, 8), max_size=3), st.sets(st.integers(0, 8), max_size=3))
def test_exact_or_none(bits: int, first: set[int], second: set[int]) -> None:
    people = identities(9)
    agreed = terms(people, bits=bits, size=17)
    values, names = numbers(agreed), list(people)
    gone = {"numbers": {names[i] for i in first}, "seeds": {names[i] for i in second}}

    def lost(half: str, name: int) -> bool:
        return name in gone[half]

    if len(first | second) > 3:
        with pytest.raises(Aborted, match="sent both halves, and 6 are needed"):
            run(agreed, people, values, lost)
        return
    outcome = run(agreed, people, values, lost)
    assert outcome.survivors == tuple(name for i, name in enumerate(people) if i not in first | second)
    assert np.array_equal(outcome.residues, plain(agreed, values, outcome.survivors))


def test_bytes() -> None:
    people = identities(9)
    table = run(terms(people, size=1000), people, numbers(terms(people, size=1000))).tally.summary()
    assert table["numbers"]["up"]["max"] == 1500 + HEAD.size + SIGNATURE
    assert table["seeds"]["up"]["max"] == 32 + HEAD.size + SIGNATURE


def test_each_half_alone_is_uniform() -> None:
    people = identities(3)
    agreed = terms(people, bits=8, size=64_000)
    halves = split(people[7], agreed, np.full(agreed.size, 5), repeatable(b"1"))
    counts = np.bincount(np.frombuffer(halves[Half.NUMBERS][HEAD.size : -SIGNATURE], np.uint8), minlength=256)
    assert ((counts - 250) ** 2 / 250).sum() < 350  # of 255 degrees: passed once in 10^4
    assert halves[Half.SEEDS][HEAD.size : -SIGNATURE] == repeatable(b"1")(32)


def test_one_bit_of_the_terms() -> None:
    """Refused by its signature; and past that, another mask: the sum is destroyed."""
    people = identities(4)
    agreed, other = terms(people, size=500), terms(people, size=500, binding=binding(b"plan", b"modem"))
    values = numbers(agreed)
    servers = {half: HalfServer(agreed, half) for half in Half}
    for name, identity in people.items():
        for half, data in split(identity, other if name == 7 else agreed, values[name]).items():
            if name == 7:
                assert not servers[half].take(name, data)
                data = from_client(identity, agreed, half.value, 0, b"", data[HEAD.size : -SIGNATURE])
            assert servers[half].take(name, data)
    sums = {half: server.add(pack_set(range(4), 4)) for half, server in servers.items()}
    wrong = join(agreed, sums) != plain(agreed, values, tuple(people))
    assert wrong.mean() > 0.9


def test_refused() -> None:
    people = identities(4)
    agreed = terms(people)
    halves = split(people[7], agreed, numbers(agreed)[7])
    server = HalfServer(agreed, Half.SEEDS)
    assert not server.take(7, halves[Half.NUMBERS])
    assert not server.take(10, halves[Half.SEEDS])
    assert not server.take(11, halves[Half.SEEDS])
    assert not server.take(7, from_client(people[7], agreed, Phase.SEEDS, 0, b"", bytes(31)))
    assert not server.take(7, halves[Half.SEEDS][:-1])
    assert server.take(7, halves[Half.SEEDS])
    assert not server.take(7, halves[Half.SEEDS])
    assert len(server.refused) == 6
    with pytest.raises(Mistake, match="must be past 1"):
        split(people[7], agreed, numbers(agreed)[7])
    with pytest.raises(Aborted, match="1 clients sent both halves"):
        server.add(pack_set(range(4), 4))
    with pytest.raises(Mistake, match="added up before"):
        server.add(pack_set(range(4), 4))
    with pytest.raises(Mistake, match="meant for others"):
        split(identities(1, "x")[7], agreed, numbers(agreed)[7])


def test_numbers_that_the_other_server_has() -> None:
    """Named before or after they came, they are in the sum at once; and who was named stays in it."""
    people = identities(4)
    agreed = terms(people)
    values = numbers(agreed)
    here, there = HalfServer(agreed, Half.NUMBERS), HalfServer(agreed, Half.SEEDS)
    for name, identity in people.items():
        if name == 7:
            here.meet(name)
        halves = split(identity, agreed, values[name])
        assert there.take(name, halves[Half.SEEDS])
        assert here.take(name, halves[Half.NUMBERS])
        if name == 10:
            here.meet(name)
        assert not here.take(name, halves[Half.NUMBERS])
    with pytest.raises(Mistake, match="lacks a client that it had"):
        here.add(pack_set([1, 2, 3], 4))
    seats = {Half.NUMBERS: here.add(pack_set([0, 1, 2], 4)), Half.SEEDS: there.add(pack_set([0, 1, 2], 4))}
    assert np.array_equal(join(agreed, seats), plain(agreed, values, tuple(people)[:3]))
    assert here.present() == pack_set(range(4), 4)
