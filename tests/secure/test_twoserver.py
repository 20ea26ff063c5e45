"""Two servers: the same sum, two messages a client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Aborted, Mistake
from hush.secure import Identity, Terms, binding, link
from hush.secure.keys import repeatable
from hush.secure.messages import HEAD, SIGNATURE, Phase, from_client, pack_set
from hush.secure.refusals import REFUSALS
from hush.secure.twoserver import Half, HalfServer, join, run, split
from secure.cohorts import Numbers, identities, numbers, plain, terms

ONE, OTHER = (Identity.new(repeatable(name)) for name in (b"numbers", b"seeds"))
SERVERS = {Half.NUMBERS: ONE.public, Half.SEEDS: OTHER.public}


def pair(agreed: Terms) -> tuple[HalfServer, HalfServer]:
    """The two servers of a sum: that of the numbers, and that of the seeds."""
    here, there = ((Half.NUMBERS, ONE, OTHER), (Half.SEEDS, OTHER, ONE))
    return HalfServer(agreed, here[0], here[1], here[2].public), HalfServer(agreed, there[0], there[1], there[2].public)


def send(here: HalfServer, there: HalfServer, people: dict[int, Identity], agreed: Terms) -> dict[int, Numbers]:
    """All clients send both halves: their numbers."""
    values = numbers(agreed)
    for name, identity in people.items():
        halves = split(identity, agreed, values[name])
        assert here.take(name, halves[Half.NUMBERS])
        assert there.take(name, halves[Half.SEEDS])
    return values


def says(agreed: Terms, half: Half, seats: list[int]) -> bytes:
    """A server's own message, true or not, on who is present."""
    mine, others = (ONE, OTHER) if half is Half.NUMBERS else (OTHER, ONE)
    body = pack_set(seats, len(agreed.cohort))
    return link.say(mine, others.public, agreed, half.value, link.LinkMessage.PRESENT, body)


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
    here, there = pair(agreed)
    servers = {Half.NUMBERS: here, Half.SEEDS: there}
    for name, identity in people.items():
        for half, data in split(identity, other if name == 7 else agreed, values[name]).items():
            if name == 7:
                assert not servers[half].take(name, data)
                data = from_client(identity, agreed, half.value, 0, b"", data[HEAD.size : -SIGNATURE])
            assert servers[half].take(name, data)
    sums = {half: server.add(servers[half.other].present()) for half, server in servers.items()}
    wrong = join(agreed, SERVERS, sums).residues != plain(agreed, values, tuple(people))
    assert wrong.mean() > 0.9


def test_refused() -> None:
    people = identities(4)
    agreed = terms(people)
    halves = split(people[7], agreed, numbers(agreed)[7])
    _, server = pair(agreed)
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
        server.add(says(agreed, Half.NUMBERS, [0, 1, 2, 3]))
    with pytest.raises(Mistake, match="added up before"):
        server.add(says(agreed, Half.NUMBERS, [0, 1, 2, 3]))
    with pytest.raises(Mistake, match="meant for others"):
        split(identities(1, "x")[7], agreed, numbers(agreed)[7])


def test_numbers_that_the_other_server_has() -> None:
    """Named before or after they came, they are in the sum at once; and who was named stays in it."""
    people = identities(4)
    agreed = terms(people)
    values = numbers(agreed)
    here, there = pair(agreed)
    for name, identity in people.items():
        halves = split(identity, agreed, values[name])
        assert there.take(name, halves[Half.SEEDS])
        if name == 7:
            here.meet(there.has(name))
        assert here.take(name, halves[Half.NUMBERS])
        if name == 10:
            here.meet(there.has(name))
        assert not here.take(name, halves[Half.NUMBERS])
    with pytest.raises(Mistake, match="lacks a client that it had"):
        here.add(says(agreed, Half.SEEDS, [1, 2, 3]))
    sums = {
        Half.NUMBERS: here.add(says(agreed, Half.SEEDS, [0, 1, 2])),
        Half.SEEDS: there.add(says(agreed, Half.NUMBERS, [0, 1, 2])),
    }
    opened = join(agreed, SERVERS, sums)
    assert opened.survivors == tuple(people)[:3]
    assert np.array_equal(opened.residues, plain(agreed, values, opened.survivors))
    with pytest.raises(Mistake, match="client 7 did not send its half"):
        pair(agreed)[1].has(7)


def test_who_comes_between_the_two_lists() -> None:
    """After a server told who is present, whoever comes is refused: the sum is exact over those that both knew."""
    people = identities(5)
    agreed = terms(people)
    values, late = numbers(agreed), list(people)[-1]
    here, there = pair(agreed)
    send(here, there, {name: one for name, one in people.items() if name != late}, agreed)
    heard = here.present()
    halves = split(people[late], agreed, values[late])
    taken = here.take(late, halves[Half.NUMBERS]), there.take(late, halves[Half.SEEDS])
    assert taken == (False, True)
    assert "after the other server heard who is present" in here.refused[0]
    told = there.present()
    assert (heard, told) == (here.present(), there.present())
    opened = join(agreed, SERVERS, {Half.NUMBERS: here.add(told), Half.SEEDS: there.add(heard)})
    assert opened.survivors == tuple(people)[:-1]
    assert np.array_equal(opened.residues, plain(agreed, values, opened.survivors))


def test_sums_over_different_clients_are_not_joined() -> None:
    people = identities(5)
    agreed = terms(people)
    here, there = pair(agreed)
    send(here, there, people, agreed)
    sums = {
        Half.NUMBERS: here.add(says(agreed, Half.SEEDS, [0, 1, 2, 3])),
        Half.SEEDS: there.add(says(agreed, Half.NUMBERS, [0, 1, 2, 4])),
    }
    with pytest.raises(Mistake, match=r"added up over 4 and 4 clients, which are not the same: .* there is no sum"):
        join(agreed, SERVERS, sums)


def test_what_the_servers_say_is_authentic() -> None:
    """Changed in any byte, of another round or kind, by or for another server, or sent back: refused, and no harm."""
    people = identities(5)
    agreed, before = terms(people), terms(people, round=2)
    here, there = pair(agreed)
    values = send(here, there, people, agreed)
    old, _ = pair(before)
    told = there.present()
    stranger = Identity.new(repeatable(b"stranger"))
    five = pack_set(range(5), 5)
    say, present = link.say, link.LinkMessage.PRESENT
    wrong = [bytes([*told[:i], told[i] ^ 1, *told[i + 1 :]]) for i in range(len(told))]
    wrong += [told[:-1], told + b"\0", b"", here.present(), there.has(7)]
    wrong += [pair(before)[1].present(), old.present()]
    wrong += [say(stranger, ONE.public, agreed, Phase.SEEDS, present, five)]
    wrong += [say(OTHER, stranger.public, agreed, Phase.SEEDS, present, five)]
    for data in wrong:
        with pytest.raises(Mistake, match="the other server's message"):
            here.add(data)
        with pytest.raises(Mistake, match="the other server's message"):
            here.meet(data if data != there.has(7) else told)
    with pytest.raises(Mistake, match="a seat 5 that is not in the cohort"):
        here.meet(say(OTHER, ONE.public, agreed, Phase.SEEDS, link.LinkMessage.HAS, b"\5"))
    sums = {Half.NUMBERS: here.add(told), Half.SEEDS: there.add(here.present())}
    assert [len(data) for data in (there.has(7), told, sums[Half.NUMBERS])] == [82, 78 + 1, 78 + 1 + 30]
    for half, data in sums.items():
        changed = bytes([*data[:30], data[30] ^ 1, *data[31:]])
        for forged in (changed, sums[half.other], told, says(agreed, half, [0, 1, 2])):
            with pytest.raises(Mistake, match="the other server's message"):
                join(agreed, SERVERS, {**sums, half: forged})
        with pytest.raises(Mistake, match="does not have its signature"):
            join(agreed, {**SERVERS, half: stranger.public}, sums)
    assert np.array_equal(join(agreed, SERVERS, sums).residues, plain(agreed, values, tuple(people)))


def test_two_servers_are_not_one() -> None:
    with pytest.raises(Mistake, match="must have different keys"):
        HalfServer(terms(identities(3)), Half.SEEDS, ONE, ONE.public)


def test_refused_messages_have_a_limit() -> None:
    people = identities(3)
    agreed = terms(people)
    here, _ = pair(agreed)
    halves = split(people[7], agreed, numbers(agreed)[7])
    for _ in range(REFUSALS + 5):
        assert not here.take(7, b"rubbish")
    assert not here.take(7, halves[Half.NUMBERS])
    assert len(here.refused) == REFUSALS + 1
    assert "none is looked at any more" in here.refused[-1]
