"""Holders that tell wrong shares: corrected and named, and nobody is accused of what another may have done."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from hush.errors import Aborted
from hush.secure import Client, Opened, Server, Terms, binding
from hush.secure.driver import answer
from hush.secure.keys import commitment, repeatable, seal
from hush.secure.messages import HEAD, SIGNATURE, Dealt, Phase, from_client
from hush.secure.shares import LENGTH, deal, element
from secure.cohorts import Kept, identities, keep, numbers, plain, snapshot, terms

PEOPLE = identities(100)
NAMES = list(PEOPLE)
COHORT = tuple((name, one.public) for name, one in PEOPLE.items())
AGREED = Terms.choose("lies", 1, COHORT, 12, 50, binding(b"plan"), dropout=1 / 3, corrupt=0.1)
GONE = NAMES[40:50]  # after they shared their secrets: of these the mask keys are told


@cache
def shared() -> tuple[Server, dict[int, Client], dict[int, bytes]]:
    """A server and all clients once these have shared their secrets, and what it asks for next."""
    people = identities(100)
    clients = {name: Client(people[name], AGREED, repeatable(b"%d" % name)) for name in people}
    server, asked = Server(AGREED), dict.fromkeys(people, b"")
    for phase in (Phase.ADVERTISE, Phase.SHARE):
        for name in asked:
            assert server.take(name, answer(clients[name], phase, asked[name]))
        asked = server.advance()
    return server, clients, asked


@pytest.fixture(scope="module", params=[(), tuple(GONE)], ids=["all there", "ten gone"])
def told(request: pytest.FixtureRequest) -> tuple[Server, dict[int, bytes], dict[int, bytes]]:
    """A server before the last messages, what it asked for, and the true answers."""
    server, clients, asked = shared()
    server, clients = snapshot(server), {name: copy.copy(client) for name, client in clients.items()}
    values = numbers(AGREED)
    for phase in (Phase.MASK, Phase.CONSENT):
        for name in asked:
            if name not in request.param:
                assert server.take(name, answer(clients[name], phase, asked[name], values[name]))
        asked = server.advance()
    return server, asked, {name: answer(clients[name], Phase.UNMASK, data) for name, data in asked.items()}


def lying(agreed: Terms, asked: bytes, true: bytes, name: int, about: list[int], random: Random) -> bytes:
    """The client's message with other shares of some clients, rightly signed by it."""
    seat = agreed.seat(name)
    near = agreed.near(seat)
    body = bytearray(true[HEAD.size : -SIGNATURE])
    for other in about:
        at = LENGTH * near.index(agreed.seat(other))
        body[at : at + LENGTH] = element(random.randbytes(32))
    return from_client(PEOPLE[name], agreed, Phase.UNMASK, seat, asked[HEAD.size :], bytes(body))


def finish(told: tuple[Server, dict[int, bytes], dict[int, bytes]], lies: Mapping[int, list[int]]) -> Opened:
    """The sum in spite of these lies: of each liar, about whom."""
    server, random = snapshot(told[0]), Random(1)
    for name, true in told[2].items():
        data = lying(AGREED, told[1][name], true, name, lies[name], random) if name in lies else true
        assert server.take(name, data)
    opened = server.finish()
    assert [one.split()[1] for one in server.refused] == [str(name) for name in NAMES if lies.get(name)]
    return opened


def test_a_thousand_lies(told: tuple[Server, dict[int, bytes], dict[int, bytes]]) -> None:
    """As many about each client as can be corrected: the sum is exact, and each liar is named with all its lies."""
    random = Random(len(told[1]))
    holders = len(told[1]) - 1  # of one that survived
    most = (holders - AGREED.shares) // 2
    assert (holders, most) in ((99, 16), (89, 11))
    lies: dict[int, list[int]] = {}
    for i, about in enumerate(NAMES):
        count = most if i % 2 else 20 - most
        for name in random.sample([name for name in told[1] if name != about], count):
            lies.setdefault(name, []).append(about)
    assert sum(map(len, lies.values())) == 1000
    opened = finish(told, lies)
    assert opened.off == {name: tuple(about) for name, about in lies.items()}
    assert np.array_equal(opened.residues, plain(AGREED, numbers(AGREED), opened.survivors))
    assert opened.survivors == tuple(told[1])


def test_sixteen_liars(told: tuple[Server, dict[int, bytes], dict[int, bytes]]) -> None:
    """The same few lie about everybody, as many as can be corrected of any client."""
    most = (len(told[1]) - 1 - AGREED.shares) // 2
    liars = Random(2).sample(list(told[1]), most)
    lies = {liar: [name for name in NAMES if name != liar] for liar in liars}
    assert sum(map(len, lies.values())) > 1000
    opened = finish(told, lies)
    assert opened.off == {name: tuple(about) for name, about in lies.items()}
    assert np.array_equal(opened.residues, plain(AGREED, numbers(AGREED), opened.survivors))


def test_one_liar_too_many(told: tuple[Server, dict[int, bytes], dict[int, bytes]]) -> None:
    """The round is given up. The client whose secret it is is not accused, nor is anybody else; others' liars are."""
    most = (len(told[1]) - 1 - AGREED.shares) // 2
    victim, liars = NAMES[60], NAMES[: most + 1]
    lies = {liar: [victim] for liar in liars} | {liars[0]: [NAMES[55], victim]}
    server, random = snapshot(told[0]), Random(3)
    for name, true in told[2].items():
        server.take(name, lying(AGREED, told[1][name], true, name, lies[name], random) if name in lies else true)
    with pytest.raises(Aborted) as why:
        server.finish()
    assert str(why.value) == (
        f"round 1: the {len(told[1]) - 1} shares sent of client {victim} do not give its secret: more than {most} of"
        " those who sent them are at fault, or it is itself: nothing is opened"
    )
    (sentence,) = why.value.refused  # of those found until then
    assert sentence == (
        f"client {liars[0]} sent shares off the polynomials of the others, which were corrected, of clients"
        f" {NAMES[55]}: it is at fault, or each of these is"
    )


def misdealt(people: dict, kept: Kept, name: int, holders: list[int]) -> tuple[bytes, bytes]:
    """The client's share message with secrets of which some neighbours have wrong shares, signed; and its seed."""
    agreed, seat = kept.agreed, kept.agreed.seat(name)
    pairs, wrong = kept.pairs(name), [agreed.seat(holder) for holder in holders]
    rows = [
        [element(repeatable(b"%d" % other)(32)) if other in wrong else one.dealt[i] for other, one in pairs.items()]
        for i in (0, 1)
    ]
    (seed, of_seed), (lock, of_lock) = deal(range(len(pairs)), rows, agreed.shares)
    box = seal(lock, agreed.digest, seat, seat, b"".join(one.mask for one in pairs.values()))
    body = Dealt(commitment(seed, agreed.digest, seat), of_seed.public, of_lock.public, box).pack()
    assert len(body) == len(kept.up[Phase.SHARE][name][HEAD.size : -SIGNATURE])
    asked = kept.down[Phase.SHARE][name][HEAD.size :]
    return from_client(people[name], agreed, Phase.SHARE, seat, asked, body), seed


def sealing(people: dict, kept: Kept, name: int, secrets: list[bytes]) -> bytes:
    """The client's share message with these secrets of its masks in the box, under the right lock, signed."""
    agreed, seat, pairs = kept.agreed, kept.agreed.seat(name), kept.pairs(name)
    ((lock, _),) = deal(range(len(pairs)), [[one.dealt[1] for one in pairs.values()]], agreed.shares)
    true = Dealt.read(kept.up[Phase.SHARE][name][HEAD.size : -SIGNATURE], len(pairs), agreed.shares)
    body = replace(true, box=seal(lock, agreed.digest, seat, seat, b"".join(secrets))).pack()
    return from_client(people[name], agreed, Phase.SHARE, seat, kept.down[Phase.SHARE][name][HEAD.size :], body)


def left(people: dict, kept: Kept, lie: bytes, bad: int, silent: tuple[int, ...] = ()) -> Opened:
    """The round in which one shares this and drops out, and the silent ones say nothing at the end."""
    server, values = kept.server(Phase.SHARE), kept.values
    clients = {name: kept.client(Phase.MASK, name) for name in people}
    for name, data in kept.up[Phase.SHARE].items():
        assert server.take(name, lie if name == bad else data)
    for phase in (Phase.MASK, Phase.CONSENT, Phase.UNMASK):
        for name, data in server.advance().items():
            if name != bad and not (phase is Phase.UNMASK and name in silent):
                assert server.take(name, answer(clients[name], phase, data, values[name]))
    return server.finish()


def test_a_client_that_seals_other_masks_and_drops_out() -> None:
    """Zeros, or one wrong secret: nothing is opened. The lock fits and the box opens, the neighbours' checks do not."""
    people, bad = identities(9), 13
    kept = keep(people, terms(people))
    true = [one.mask for one in kept.pairs(bad).values()]
    opened = left(people, kept, sealing(people, kept, bad, true), bad)
    assert np.array_equal(opened.residues, plain(kept.agreed, kept.values, opened.survivors))
    assert bad not in opened.survivors
    for lie, others in (([bytes(16)] * 8, "7, 10, 16, 19, 22, 25, 28, 31"), ([*true[:-1], bytes(16)], "31")):
        with pytest.raises(Aborted) as why:
            left(people, kept, sealing(people, kept, bad, lie), bad)
        assert str(why.value) == (
            f"round 1: the masks that client 13 sealed are not those of clients {others}: it is at fault, or each of"
            " these is: nothing is opened"
        )


def test_a_neighbour_that_is_lost_before_its_check() -> None:
    """It sends no check of a mask that it has with one that dropped out: what that one sealed is taken as it is."""
    people, bad, silent = identities(9), 13, 31
    kept = keep(people, terms(people))
    true = [one.mask for one in kept.pairs(bad).values()]
    for secrets, exact in ((true, True), ([*true[:-1], bytes(16)], False)):
        opened = left(people, kept, sealing(people, kept, bad, secrets), bad, (silent,))
        assert np.array_equal(opened.residues, plain(kept.agreed, kept.values, opened.survivors)) == exact


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_client_that_deals_wrong_shares(wrong: int) -> None:
    """Its honest holders look like liars: what is said of them holds, and they are not said to have lied."""
    people = identities(9)
    agreed = terms(people)
    kept, bad, holders = keep(people, agreed), 7, [10, 13][:wrong]
    server, values = kept.server(Phase.SHARE), kept.values
    clients = {name: kept.client(Phase.MASK, name) for name in people}
    lie, clients[bad]._seed = misdealt(people, kept, bad, holders)
    for name, data in kept.up[Phase.SHARE].items():
        assert server.take(name, lie if name == bad else data)
    for phase in (Phase.MASK, Phase.CONSENT, Phase.UNMASK):
        for name, data in server.advance().items():
            said = answer(clients[name], phase, data, values[name])
            assert server.take(name, said)
    # Five of the eight shares are needed: one lie is corrected, and of two the right six are among the last.
    if wrong == 1:
        opened = server.finish()
        assert opened.off == {10: (7,)}
        assert np.array_equal(opened.residues, plain(agreed, values, tuple(people)))
        assert server.refused == [
            "client 10 sent shares off the polynomials of the others, which were corrected, of clients 7: it is at"
            " fault, or each of these is"
        ]
    else:
        with pytest.raises(Aborted, match=r"shares sent of client 7 .* more than 1 of .* at fault, or it is itself"):
            server.finish()
        assert server.refused == []
