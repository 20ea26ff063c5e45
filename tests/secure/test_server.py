"""What the server refuses, one by one, and when it gives up."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hush.errors import Aborted, Mistake
from hush.secure import Client, Round, Server
from hush.secure.decoding import P
from hush.secure.driver import answer
from hush.secure.keys import CHECK, commitment, repeatable
from hush.secure.messages import COMMITMENT, HEAD, PHASES, SIGNATURE, Phase, from_client, pack_set, to_client
from hush.secure.refusals import REFUSALS
from secure.cohorts import Kept, identities, keep, plain, terms

PEOPLE = identities(6)


@pytest.fixture(scope="module")
def kept() -> Kept:
    return keep(PEOPLE, terms(PEOPLE), gone=(22,))


def signed_by(kept: Kept, phase: Phase, name: int, body: bytes) -> bytes:
    """A client's own lie: rightly signed."""
    seat = kept.agreed.seat(name)
    return from_client(PEOPLE[name], kept.agreed, phase, seat, kept.down[phase][name][HEAD.size :], body)


@pytest.mark.parametrize("phase", PHASES)
def test_replayed_and_foreign_messages(kept: Kept, phase: Phase) -> None:
    server = kept.server(phase)
    ups = kept.up[phase]
    assert not server.take(10, ups[7])  # another's
    assert not server.take(99, ups[7])  # nobody's
    assert server.take(7, ups[7])
    assert not server.take(7, ups[7])  # once more
    for other in PHASES:
        if other is not phase:
            assert not server.take(10, kept.up[other][10])  # of another phase
    assert not server.take(10, kept.down[phase][10] or ups[10][:-1])  # the server's own
    assert len(server.refused) == 8
    assert "client 99 is not in the cohort" in server.refused[1]
    assert f"it sent its {phase.word} message before" in server.refused[2]
    total, who = kept.rest(server)
    assert np.array_equal(total, plain(kept.agreed, kept.values, who))


def test_who_dropped_out_stays_out(kept: Kept) -> None:
    server = kept.server(Phase.CONSENT)
    assert not server.take(22, signed_by(kept, Phase.MASK, 22, bytes(30)))
    assert "dropped out before" in server.refused[0]


@pytest.mark.parametrize("phase", [Phase.ADVERTISE, Phase.SHARE, Phase.MASK, Phase.CONSENT])
def test_below_the_threshold(kept: Kept, phase: Phase) -> None:
    server = kept.server(phase)
    for name in list(kept.up[phase])[:3]:
        server.take(name, kept.up[phase][name])
    server.take(19, b"nonsense")
    with pytest.raises(Aborted, match=r"3 clients .*, and 4 are needed: nothing is opened") as why:
        server.advance()
    assert why.value.refused == ("client 19 refused: a message of 8 bytes is cut short",)
    assert not server.take(19, kept.up[phase][19])
    with pytest.raises(Mistake, match="closed"):
        server.finish()
    with pytest.raises(Mistake, match="closed"):
        server.advance()


def test_too_few_shares(kept: Kept) -> None:
    server = kept.server(Phase.UNMASK)
    for name in list(kept.up[Phase.UNMASK])[:3]:
        assert server.take(name, kept.up[Phase.UNMASK][name])
    with pytest.raises(Aborted, match="neighbours send a share of client 7, and 3 are needed"):
        server.finish()
    assert server.phase is Phase.CLOSED


def test_out_of_turn(kept: Kept) -> None:
    with pytest.raises(Mistake, match="at phase mask: only the unmask phase"):
        kept.server(Phase.MASK).finish()
    with pytest.raises(Mistake, match="at phase unmask: take the messages and finish"):
        kept.server(Phase.UNMASK).advance()


PAST = P.to_bytes(16, "little")  # no number of the field
LIES = [
    (Phase.ADVERTISE, lambda body: body[:31], "a key of 32 bytes"),
    (Phase.ADVERTISE, lambda body: body[:32] * 2, "a key of 32 bytes"),
    (Phase.SHARE, lambda body: body[:-16], "its secrets among 5 neighbours"),
    (Phase.SHARE, lambda body: body[:COMMITMENT] + PAST + body[COMMITMENT + 16 :], "a number below"),
    (Phase.MASK, lambda body: body + b"\0", "20 numbers of 12 bits take 30 bytes"),
    (Phase.CONSENT, lambda body: b"\x0f", "another set of survivors"),
    (Phase.UNMASK, lambda body: body[:-1], "16 bytes for each of the 5 shares"),
    (Phase.UNMASK, lambda body: body + body[:16], "16 bytes for each of the 5 shares"),
    (Phase.UNMASK, lambda body: PAST + body[16:], "a number below"),
    (Phase.UNMASK, lambda body: body[:-8], "8 for each of the 1 neighbours that dropped out"),
    (Phase.UNMASK, lambda body: b"", "16 bytes for each of the 5 shares"),
]


@pytest.mark.parametrize(("phase", "lie", "sentence"), LIES)
def test_a_clients_own_lies(kept: Kept, phase: Phase, lie: Callable[[bytes], bytes], sentence: str) -> None:
    """Signed as they should be, and still refused: the round goes on without that client where it can."""
    server = kept.server(phase)
    body = lie(kept.up[phase][10][HEAD.size : -SIGNATURE])
    assert not server.take(10, signed_by(kept, phase, 10, body))
    assert sentence in server.refused[0]


def test_a_lie_about_one_share_is_survived(kept: Kept) -> None:
    """Another number as a share of everybody: left out, as long as there is a share to spare."""
    server = kept.server(Phase.UNMASK)
    body = kept.up[Phase.UNMASK][10][HEAD.size : -SIGNATURE]
    lie = bytes([7]) * (len(body) - CHECK) + body[-CHECK:]
    assert server.take(10, signed_by(kept, Phase.UNMASK, 10, lie))
    total, who = kept.rest(server)
    assert np.array_equal(total, plain(kept.agreed, kept.values, who))


def test_a_wrong_check_opens_nothing(kept: Kept) -> None:
    """Of a mask with one that dropped out: whose word is wrong cannot be known, and the sentence accuses neither."""
    server = kept.server(Phase.UNMASK)
    body = kept.up[Phase.UNMASK][10][HEAD.size : -SIGNATURE]
    assert server.take(10, signed_by(kept, Phase.UNMASK, 10, body[:-CHECK] + bytes(CHECK)))
    with pytest.raises(Aborted, match="masks that client 22 sealed are not those of clients 10: it is at fault, or"):
        kept.rest(server)


def test_a_wrong_commitment_opens_nothing(kept: Kept) -> None:
    server = kept.server(Phase.UNMASK)
    server._dealt[1] = replace(server._dealt[1], commitment=commitment(bytes(16), kept.agreed.digest, 1))
    sentence = (
        "the 4 shares sent of client 10 agree with one another and not with what it showed of its secret: it is at"
        " fault, or at least 2 of those who sent them are: nothing is opened"
    )
    with pytest.raises(Aborted, match=sentence):
        kept.rest(server)


def test_shares_that_are_no_numbers_cost_their_dealer_only(kept: Kept) -> None:
    """A client that publishes numbers past the field is out; its neighbours hold all else, and the sum is exact."""
    people = identities(6)
    clients = {name: Client(people[name], kept.agreed, repeatable(b"%d" % name)) for name in people}
    server, asked = Server(kept.agreed), dict.fromkeys(people, b"")
    for phase in PHASES:
        for name, data in asked.items():
            said = answer(clients[name], phase, data, kept.values[name])
            if phase is Phase.SHARE and name == 10:
                body = said[HEAD.size : HEAD.size + COMMITMENT] + PAST + said[HEAD.size + COMMITMENT + 16 : -SIGNATURE]
                lie = from_client(people[10], kept.agreed, phase, 1, data[HEAD.size :], body)
                assert not server.take(10, lie)
            else:
                assert server.take(name, said)
        if phase is not Phase.UNMASK:
            asked = server.advance()
    opened = server.finish()
    assert opened.survivors == (7, 13, 16, 19, 22)
    assert np.array_equal(opened.residues, plain(kept.agreed, kept.values, opened.survivors))
    assert [one.split(":")[0] for one in server.refused] == ["client 10 refused"]


def test_refused_messages_of_a_client_have_a_limit(kept: Kept) -> None:
    """Then nothing of it is looked at, not even what is right; others are not concerned, and the sum is exact."""
    server = kept.server(Phase.MASK)
    for _ in range(REFUSALS + 10):
        assert not server.take(7, b"rubbish")
    assert not server.take(7, kept.up[Phase.MASK][7])
    assert len(server.refused) == REFUSALS + 1
    assert server.refused[-1].endswith(
        f"{REFUSALS} of its messages were refused in this round: none is looked at any more"
    )
    for _ in range(REFUSALS - 1):
        assert not server.take(10, b"rubbish")
    for name in (10, 13, 16, 19):
        assert server.take(name, kept.up[Phase.MASK][name])
    assert not server.take(7, kept.up[Phase.MASK][7])
    assert set(server.advance()) == {10, 13, 16, 19}


def test_a_client_without_enough_neighbours() -> None:
    """In a ring, where one has lost three of six before anything was shared: enough clients, and still no sum."""
    people = identities(20)
    agreed = terms(people, degree=6, shares=4, threshold=11, size=3)
    server = Server(agreed)
    for seat, (name, identity) in enumerate(people.items()):
        if seat not in agreed.neighbours[0][:3]:
            assert server.take(name, Client(identity, agreed, repeatable(b"%d" % name)).advertise())
    with pytest.raises(Aborted, match="too few neighbours of client 7 advertised keys: nothing is opened"):
        server.advance()


def test_a_client_that_was_asked_something_else(kept: Kept) -> None:
    """A neighbour was lost on the way down: its numbers lack a mask, and would have destroyed the sum."""
    client, server = kept.client(Phase.MASK, 7), kept.server(Phase.MASK)
    said = client.mask(to_client(kept.agreed, Phase.MASK, 0, pack_set(range(4), 5)), kept.values[7])
    assert not server.take(7, said)
    assert "answers something else" in server.refused[0]
    total, who = kept.rest(server)  # with the true message
    assert np.array_equal(total, plain(kept.agreed, kept.values, who))


def test_a_committee_without_enough_members() -> None:
    """Four of eight are gone, and everybody has five neighbours left of eight: enough to open, too few to sign."""
    people = identities(30)
    agreed = terms(people, degree=8, shares=5, size=3)
    first = agreed._ring[0]
    gone = {agreed.cohort[first[place]][0] for place in (0, 3, 4, 7)}
    present = [name for name in people if name not in gone]
    sentence = "round 1: 4 clients of the committee masked their numbers, and 5 are needed: nothing is opened"
    assert agreed.stuck(present) == sentence
    assert agreed.stuck(present, 2) is None
    whole = Round(agreed, people)
    whole.begin()
    for name in present:
        assert whole.add(name, np.zeros(3, int))
    with pytest.raises(Aborted, match=sentence):
        whole.finish()
