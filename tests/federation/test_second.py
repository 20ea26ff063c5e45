"""The second server of a sum in halves: it adds up once, for the clients' own terms, what was sealed for it."""

import numpy as np
import pytest
import torch

from hush.core.spec import Asked
from hush.errors import Aborted, Mistake, Refused
from hush.federation.charter import Charter
from hush.federation.claims import Claims
from hush.federation.second import Relay, Second, pack_halves, unpack_halves
from hush.parts.aggregators.phases import Halved
from hush.secure import Identity, Terms, binding
from hush.secure.sealed import introduced, introduction

FIRST, SECOND = b"1" * 32, b"2" * 32
RUN, SIZE, BITS = "run", 5, 16


def charter(**change):
    known = {
        "run": RUN,
        "scheme": "{}",
        "seed": 0,
        "population": 4,
        "rounds": 3,
        "delta": 1e-5,
        "records": 1,
        "weights": "",
        "public": "",
        "layout": "",
        "server": Identity(FIRST).public.hex(),
        "second": introduction(SECOND).hex(),
    }
    return Charter(**{**known, **change})


@pytest.fixture
def people():
    return {client: Identity(bytes([client + 10]) * 32) for client in range(4)}


def terms(people, round=1, run=RUN):
    cohort = tuple((client, one.public) for client, one in people.items())
    return Terms.choose(run, round, cohort, BITS, SIZE, binding(b"plan %d" % round), dropout=0.25, corrupt=0.0)


def uploads(people, agreed):
    """What each client says, and the sum of their numbers."""
    _, key = introduced(introduction(SECOND))
    numbers = {client: np.arange(SIZE) + 100 * client for client in people}

    def said(client):
        return Halved(agreed, people[client], None, key).first(lambda: torch.from_numpy(numbers[client]))

    return {client: said(client) for client in people}, numbers


def relay(agreed, line):
    asked = Asked(SIZE, round=agreed.round, cohort=np.arange(4), note=lambda *given: None)
    return Relay(agreed, asked, Identity(FIRST), Identity(SECOND).public, line)


def test_the_sum_is_that_of_the_numbers(people):
    agreed = terms(people)
    said, numbers = uploads(people, agreed)
    round = relay(agreed, Second(charter(), SECOND, Claims()).answer)
    for client, data in said.items():
        if client != 2:
            round.take(client, data)
    assert round.advance() == {}
    total = round.total()
    assert total.survivors == (0, 1, 3)
    assert total.body.tolist() == sum(numbers[client] for client in (0, 1, 3)).tolist()


def test_a_half_that_was_changed_on_its_way_is_left_out(people):
    """The coordinator can lose a client so, and nothing else."""
    agreed = terms(people)
    said, numbers = uploads(people, agreed)
    said[1] = said[1][:-1] + bytes([said[1][-1] ^ 1])
    round = relay(agreed, Second(charter(), SECOND, Claims()).answer)
    for client, data in said.items():
        round.take(client, data)
    round.advance()
    assert round.total().survivors == (0, 2, 3)
    assert round.total().body.tolist() == sum(numbers[client] for client in (0, 2, 3)).tolist()


def test_it_adds_up_once_in_a_round(people, tmp_path):
    """Two sets of one round would reveal what differs, also to a coordinator that waits until it was restarted."""
    agreed, place = terms(people), tmp_path / "claims.json"
    said, _ = uploads(people, agreed)
    sealed = {client: data[4 + int.from_bytes(data[:4], "little") :] for client, data in said.items()}
    Second(charter(), SECOND, Claims(place)).answer(pack_halves(agreed, sealed))
    again = Second(charter(), SECOND, Claims(place))
    del sealed[3]
    with pytest.raises(Refused, match="not past round 1"):
        again.answer(pack_halves(agreed, sealed))


def test_terms_that_the_clients_did_not_sign_open_nothing(people):
    """A lower threshold, say: the clients' messages are under another digest."""
    agreed = terms(people)
    said, _ = uploads(people, agreed)
    other = Terms(RUN, 1, agreed.cohort, 3, agreed.degree, agreed.shares, BITS, SIZE, binding(b"another plan"))
    round = relay(other, Second(charter(), SECOND, Claims()).answer)
    for client, data in said.items():
        with pytest.raises(Refused):
            round.take(client, data)
    with pytest.raises(Aborted, match="0 clients sent both halves"):
        round.advance()


def test_another_run_and_another_server_are_refused(people):
    with pytest.raises(Refused, match="another second server"):
        Second(charter(), FIRST, Claims())
    second = Second(charter(), SECOND, Claims())
    with pytest.raises(Refused, match="another run"):
        second.answer(pack_halves(terms(people, run="other"), {}))
    with pytest.raises(Refused, match="no halves to add up"):
        second.answer(b"hss" + bytes(80))


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\4\0\0\0null", b"\2\0\0\0{}" + bytes(5)])
def test_what_is_no_halves_is_refused(data):
    with pytest.raises((Refused, Mistake)):
        unpack_halves(data)
