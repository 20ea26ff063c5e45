"""What a client refuses, and what it never says."""

import copy
import pickle

import numpy as np
import pytest

from hush.errors import Aborted, Mistake
from hush.secure import Client, Identity, Server, Terms, binding
from hush.secure.keys import agree, pair_key, private, public, repeatable
from hush.secure.messages import ADVERT, HEAD, SIGNATURE, Phase, from_client, pack_set, to_client
from secure.cohorts import Kept, identities, keep, numbers, plain, terms

PEOPLE = identities(6)
LOW = [bytes(32), bytes([1]) + bytes(31), (2**255 - 19).to_bytes(32, "little"), (2**255 - 18).to_bytes(32, "little")]
LOW += [bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")]


@pytest.fixture(scope="module")
def kept() -> Kept:
    """Six clients, four needed; the one with number 22 is gone after it shared its secrets."""
    return keep(PEOPLE, terms(PEOPLE), gone=(22,))


def survivors(agreed: Terms, seats: list[int], seat: int = 0) -> bytes:
    return to_client(agreed, Phase.CONSENT, seat, pack_set(seats, len(agreed.cohort)))


def test_phases_come_once_and_in_order(kept: Kept) -> None:
    client = kept.client(Phase.MASK, 7)
    for call in (client.advertise, lambda: client.share(kept.down[Phase.SHARE][7])):
        with pytest.raises(Mistake, match="is at phase mask and not at"):
            call()
    with pytest.raises(Mistake, match="is at phase mask and not at consent"):
        client.consent(kept.down[Phase.CONSENT][7])
    client.mask(kept.down[Phase.MASK][7], kept.values[7])
    with pytest.raises(Mistake, match="is at phase consent and not at mask"):
        client.mask(kept.down[Phase.MASK][7], kept.values[7])


def test_one_share_of_a_peer_and_once(kept: Kept) -> None:
    """Asked for the same shares again, or for the other ones, it says no; and it keeps none to be asked for."""
    client = kept.client(Phase.UNMASK, 7)
    before, checks = dict(client._held), dict(client._checks)
    said = client.unmask(kept.down[Phase.UNMASK][7])
    assert len(before) == 5
    for seat, (seed, lock) in before.items():
        assert (seed in said, lock in said) == ((False, True) if seat == 5 else (True, False))
    for seat, check in checks.items():  # masks with survivors stay closed
        assert (check in said) == (seat == 5)
    assert not client._held
    assert not client._checks
    for again in (kept.down[Phase.UNMASK][7], kept.down[Phase.CONSENT][7]):
        with pytest.raises(Mistake, match="each comes once"):
            client.unmask(again)
    with pytest.raises(Mistake, match="each comes once"):
        client.consent(survivors(kept.agreed, [0, 1, 2, 3, 5]))


def test_survivors_below_the_threshold(kept: Kept) -> None:
    client = kept.client(Phase.CONSENT, 7)
    with pytest.raises(Aborted, match="3 clients survive, and 4 are needed"):
        client.consent(survivors(kept.agreed, [0, 1, 2]))
    with pytest.raises(Mistake, match="closed"):
        client.consent(kept.down[Phase.CONSENT][7])


def test_survivors_without_oneself_or_with_strangers(kept: Kept) -> None:
    with pytest.raises(Mistake, match="lack this client"):
        kept.client(Phase.CONSENT, 7).consent(survivors(kept.agreed, [1, 2, 3, 4]))
    with pytest.raises(Mistake, match="no bits after the last"):
        kept.client(Phase.CONSENT, 7).consent(to_client(kept.agreed, Phase.CONSENT, 0, bytes([0xFF])))
    silent = keep(identities(6), terms(PEOPLE))  # with one that never shared anything
    client = silent.client(Phase.MASK, 7)
    client.mask(to_client(silent.agreed, Phase.MASK, 0, pack_set(range(4), 5)), silent.values[7])
    with pytest.raises(Mistake, match="a neighbour that shared nothing"):
        client.consent(survivors(silent.agreed, [0, 1, 2, 3, 4, 5]))


def test_too_few_signatures(kept: Kept) -> None:
    body = kept.down[Phase.UNMASK][7][HEAD.size :]
    three = pack_set([0, 1, 2], 6) + body[1 : 1 + 3 * SIGNATURE]
    client = kept.client(Phase.UNMASK, 7)
    with pytest.raises(Aborted, match="3 clients signed the survivors, and 4 are needed"):
        client.unmask(to_client(kept.agreed, Phase.UNMASK, 0, three))


def test_signatures_on_another_set(kept: Kept) -> None:
    """The server asked others to consent to another set: nothing is told."""
    client = kept.client(Phase.CONSENT, 7)
    client.consent(survivors(kept.agreed, [0, 1, 2, 3, 5]))  # 5 is gone, 4 is not: not what the others saw
    with pytest.raises(Mistake, match="did not sign the survivors"):
        client.unmask(kept.down[Phase.UNMASK][7])
    words = pack_set([0, 1, 2, 3, 5], 6)
    forged = [from_client(PEOPLE[22], kept.agreed, Phase.CONSENT, 5, words, b"")[-SIGNATURE:]] * 4
    body = pack_set([0, 1, 2, 3], 6) + b"".join(forged)
    with pytest.raises(Mistake, match="did not sign the survivors that this client was shown"):
        client.unmask(to_client(kept.agreed, Phase.UNMASK, 0, body))


def test_only_the_committee_signs() -> None:
    """In a ring signatures of others are no use, nor is one less than enough; those of another set are refused."""
    people = identities(20)
    agreed = terms(people, degree=6, shares=5)
    kept = keep(people, agreed)
    name, near = agreed.cohort[agreed.committee[0]][0], agreed.committee
    body = kept.down[Phase.UNMASK][name][HEAD.size :]
    assert len(body) == 1 + 5 * SIGNATURE
    seat, words = agreed.seat(name), pack_set(range(20), 20)
    other = next(seat for seat in range(20) if seat not in near)
    strange = from_client(people[agreed.cohort[other][0]], agreed, Phase.CONSENT, other, words, b"")[-SIGNATURE:]
    for wrong, why, sentence in (
        (pack_set(range(4), 6) + body[1 : 1 + 4 * SIGNATURE], Aborted, "4 clients signed the survivors, and 5 are"),
        (body[:-SIGNATURE] + strange, Mistake, "did not sign the survivors"),
        (pack_set(range(6), 6) + body[1:], Mistake, "a list of 6 times 64 bytes cannot have 320"),
    ):
        with pytest.raises(why, match=sentence):
            kept.client(Phase.UNMASK, name).unmask(to_client(agreed, Phase.UNMASK, seat, wrong))
    assert kept.client(Phase.UNMASK, name).unmask(kept.down[Phase.UNMASK][name]) == kept.up[Phase.UNMASK][name]


def test_all_must_survive() -> None:
    """Then there is one set and nothing to sign: another is refused, and shares are sent without signatures."""
    people = identities(6)
    agreed = terms(people, threshold=6, shares=5)
    kept = keep(people, agreed)
    assert kept.down[Phase.UNMASK][7] == to_client(agreed, Phase.UNMASK, 0, b"")
    with pytest.raises(Aborted, match="5 clients survive, and 6 are needed"):
        kept.client(Phase.CONSENT, 7).consent(survivors(agreed, [0, 1, 2, 3, 4]))
    total, who = kept.rest(kept.server(Phase.ADVERTISE))
    assert who == tuple(people)
    assert np.array_equal(total, plain(agreed, kept.values, who))


def roster(kept: Kept, change: dict[int, bytes]) -> bytes:
    """The roster of the first seat, with other keys for some seats, rightly signed by their owners."""
    rows = []
    for seat, (key, _) in enumerate(ADVERT.iter_unpack(kept.down[Phase.SHARE][7][HEAD.size + 1 :]), 1):
        key, identity = change.get(seat, key), PEOPLE[kept.agreed.cohort[seat][0]]
        signature = from_client(identity, kept.agreed, Phase.ADVERTISE, seat, b"", key)[-SIGNATURE:]
        rows.append(ADVERT.pack(key, signature))
    return to_client(kept.agreed, Phase.SHARE, 0, pack_set(range(5), 5) + b"".join(rows))


@pytest.mark.parametrize("low", LOW)
def test_points_of_low_order(kept: Kept, low: bytes) -> None:
    with pytest.raises(Mistake, match=r"low order|not below 2\^255 - 19"):
        kept.client(Phase.SHARE, 7).share(roster(kept, {2: low}))
    server = Server(kept.agreed)
    assert not server.take(10, from_client(PEOPLE[10], kept.agreed, Phase.ADVERTISE, 1, b"", low))
    assert "low order" in server.refused[0] or "not below 2^255 - 19" in server.refused[0]
    assert kept.client(Phase.SHARE, 7).share(roster(kept, {2: public(private(bytes([5]) * 32))}))


def test_its_own_key(kept: Kept) -> None:
    mine = kept.up[Phase.ADVERTISE][7][HEAD.size : -SIGNATURE]
    with pytest.raises(Mistake, match="own key"):
        kept.client(Phase.SHARE, 7).share(roster(kept, {1: mine}))


def test_one_key_for_masks_and_shares(kept: Kept) -> None:
    """What opens the masks of a client opens none of its shares: these are in no message, nor in what was sealed."""
    everything = b"".join(data for way in (kept.up, kept.down) for phase in way.values() for data in phase.values())
    server = kept.server(Phase.UNMASK)
    for name, data in kept.up[Phase.UNMASK].items():
        server.take(name, data)
    told = {seat: server._told(seat, server._got[seat][0]) for seat in range(5)}
    sent, checks = ({seat: one[i][5] for seat, one in told.items()} for i in (0, 1))
    revealed = server._behind(5, server._secret(5, sent, False, {}), checks)
    for seat, (name, _) in enumerate(kept.agreed.cohort[:5]):
        pair = kept.pairs(name)[5]
        assert revealed[seat] == pair.mask
        assert sent[seat] == pair.held[1]
        assert pair.held[1] in everything
        for hidden in (pair.mask, pair.held[0], *pair.dealt):  # as 22 holds of the others, it never said
            assert hidden not in everything
            assert hidden not in b"".join(value for value in revealed.values() if value != pair.mask)


def secrets_in(client: Client) -> bytes:
    """All bytes that a client keeps."""

    def flat(value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
        return b" ".join(map(flat, values))

    return flat([value for field, value in vars(client).items() if field not in ("terms", "_identity")])


def test_what_it_forgets(kept: Kept) -> None:
    """Its key and the shares dealt when it has shared, masks and seed when it has masked, all shares at the end."""
    pair = kept.pairs(7)[5]
    closed = kept.client(Phase.UNMASK, 7)
    closed.unmask(kept.down[Phase.UNMASK][7])
    stages = [secrets_in(kept.client(phase, 7)) for phase in (Phase.SHARE, Phase.MASK, Phase.CONSENT)]
    key, seed = kept.client(Phase.SHARE, 7)._key, kept.client(Phase.MASK, 7)._seed
    assert [key in stage for stage in stages] == [True, False, False]
    assert [seed in stage for stage in stages[1:]] == [True, False]
    for secret, kept_at in ((pair.mask, [True, False]), (pair.held[1], [True, True]), (pair.dealt[0], [False, False])):
        assert [secret in stage for stage in stages[1:]] == kept_at
    assert not any(secret in secrets_in(closed) for secret in (key, seed, pair.mask, *pair.held, *pair.dealt))


def test_keys_spelled_in_two_ways(kept: Kept) -> None:
    """u and u + p are one point: of the nineteen that have two spellings the second is refused by both sides."""
    for u in range(2**255 - 19, 2**255):
        second = u.to_bytes(32, "little")
        with pytest.raises(Mistake, match=r"not below 2\^255 - 19"):
            kept.client(Phase.SHARE, 7).share(roster(kept, {2: second}))
        server = Server(kept.agreed)
        assert not server.take(10, from_client(PEOPLE[10], kept.agreed, Phase.ADVERTISE, 1, b"", second))
        assert "not below 2^255 - 19" in server.refused[0]


def test_it_cannot_be_stored(kept: Kept) -> None:
    """A client that is restored would answer a second time."""
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot pickle"):
            store(kept.client(Phase.MASK, 7))


def test_too_few_neighbours(kept: Kept) -> None:
    body = kept.down[Phase.SHARE][7][HEAD.size :]
    two = pack_set([0, 1], 5) + body[1 : 1 + 2 * ADVERT.size]
    with pytest.raises(Aborted, match="2 neighbours advertise keys, and 3 are needed"):
        kept.client(Phase.SHARE, 7).share(to_client(kept.agreed, Phase.SHARE, 0, two))


def test_strangers_and_doubles_on_the_roster(kept: Kept) -> None:
    body = kept.down[Phase.SHARE][7][HEAD.size :]
    bits, first, rest = body[:1], body[1 : 1 + ADVERT.size], body[1 + ADVERT.size :]
    for wrong, sentence in (
        (body + first, "a list of 5 times 96 bytes cannot have 576"),
        (bytes([0xFF]) + body[1:], "no bits after the last"),
        (bits + first + first + rest[ADVERT.size :], "the keys of client 13 do not have its signature"),
        (bits + rest + first, "the keys of client 10 do not have its signature"),
    ):
        with pytest.raises(Mistake, match=sentence):
            kept.client(Phase.SHARE, 7).share(to_client(kept.agreed, Phase.SHARE, 0, wrong))


def test_a_neighbour_that_was_not_on_the_roster(kept: Kept) -> None:
    client = kept.client(Phase.SHARE, 7)
    body = kept.down[Phase.SHARE][7][HEAD.size :]
    client.share(to_client(kept.agreed, Phase.SHARE, 0, pack_set(range(4), 5) + body[1 : -ADVERT.size]))
    with pytest.raises(Mistake, match="shared its secrets that was not on the roster"):
        client.mask(kept.down[Phase.MASK][7], kept.values[7])


def test_wrong_numbers(kept: Kept) -> None:
    client = kept.client(Phase.MASK, 7)
    for wrong in (np.zeros(20), np.zeros(21, int), np.zeros((1, 20), int)):
        with pytest.raises(Mistake, match="numbers must be 20 integers"):
            client.mask(kept.down[Phase.MASK][7], wrong)
    before = kept.values[7].copy()
    assert client.mask(kept.down[Phase.MASK][7], kept.values[7]) == kept.up[Phase.MASK][7]
    assert np.array_equal(kept.values[7], before)


def test_not_of_the_cohort() -> None:
    with pytest.raises(Mistake, match="meant for others"):
        Client(Identity.new(), terms(PEOPLE))


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


CHANGES = {
    "plan": lambda t: {"binding": binding(flipped(b"plan"), b"model")},
    "model": lambda t: {"binding": binding(b"plan", flipped(b"model"))},
    "cohort": lambda t: {"cohort": (*t.cohort[:-1], (t.cohort[-1][0], flipped(t.cohort[-1][1])))},
    "number": lambda t: {"cohort": (*t.cohort[:-1], (t.cohort[-1][0] + 1, t.cohort[-1][1]))},
    "order": lambda t: {"cohort": (*t.cohort[:-2], t.cohort[-1], t.cohort[-2])},
    "run": lambda t: {"run": "other"},
    "round": lambda t: {"round": 2, "binding": t.binding},
    "threshold": lambda t: {"threshold": 5},
    "shares": lambda t: {"shares": 5},
    "bits": lambda t: {"bits": 13},
    "size": lambda t: {"size": 21},
}


@pytest.mark.parametrize("what", CHANGES)
def test_one_bit_of_the_terms(what: str) -> None:
    """A client with other terms is refused by the server, and by each client that it is shown to."""
    people = identities(6)
    agreed = terms(people, shares=4)
    other = terms(people, **({"shares": 4} | CHANGES[what](agreed)))
    assert other.digest != agreed.digest
    odd, server = Client(people[7], other), Server(agreed)
    said = odd.advertise()
    assert not server.take(7, said)
    # A server that helps it along: it takes its keys out and passes them on as if they were signed for these terms.
    honest = Client(people[10], agreed)
    honest.advertise()
    body = pack_set([0], 5) + ADVERT.pack(said[HEAD.size : -SIGNATURE], said[-SIGNATURE:])
    with pytest.raises(Mistake, match="keys of client 7 do not have its signature"):
        honest.share(to_client(agreed, Phase.SHARE, 1, body))


def test_other_terms_make_other_masks() -> None:
    """Even past all signatures, the masks of a pair with different terms do not cancel: the sum is destroyed."""
    people = identities(6)
    agreed = terms(people, shares=4)
    others = [terms(people, **({"shares": 4} | change(agreed))) for change in CHANGES.values()]
    digests = {one.digest for one in (agreed, *others)}
    assert len(digests) == len(CHANGES) + 1
    shared = agree(private(bytes([1]) * 32), public(private(bytes([2]) * 32)))
    assert len({pair_key(shared, digest, 0, 1) for digest in digests}) == len(digests)


def test_a_mask_that_does_not_cancel_destroys_the_sum() -> None:
    """A server that rebuilds everything under terms that one client does not have gets noise."""
    people = identities(6)
    agreed = terms(people, size=4000)
    kept = keep(people, agreed)
    client = kept.client(Phase.MASK, 7)
    client.terms = copy.copy(agreed)
    object.__setattr__(client.terms, "binding", binding(b"plan", flipped(b"model")))
    del client.terms.__dict__["digest"]
    body = kept.down[Phase.MASK][7][HEAD.size :]
    said = client.mask(to_client(client.terms, Phase.MASK, 0, body), kept.values[7])
    forged = from_client(people[7], agreed, Phase.MASK, 0, body, said[HEAD.size : -SIGNATURE])
    kept.up[Phase.MASK][7] = forged
    total, who = kept.rest(kept.server(Phase.MASK))
    off = (total - plain(agreed, kept.values, who)) % 2**12
    counts = np.bincount(off >> 8, minlength=16)
    assert ((counts - 250) ** 2 / 250).sum() < 45  # chi-square of 15 degrees: 45 is passed once in 10^4
    assert counts.max() < 400


def test_a_message_of_another_round() -> None:
    people = identities(4)
    first, second = keep(people, terms(people)), keep(people, terms(people, round=2), seed=2)
    for phase in (Phase.SHARE, Phase.MASK, Phase.CONSENT, Phase.UNMASK):
        client = second.client(phase, 7)
        with pytest.raises(Mistake, match="under other terms"):
            getattr(client, phase.word)(first.down[phase][7], *([second.values[7]] if phase is Phase.MASK else []))
        with pytest.raises(Mistake, match=f"seat 1, not of {phase:d} and 0"):
            getattr(client, phase.word)(second.down[phase][10], *([second.values[7]] if phase is Phase.MASK else []))


def test_uploads_of_two_rounds_share_no_mask() -> None:
    """With the same numbers twice, the uploads differ by uniform numbers."""
    people = identities(4)
    ups = []
    for round in (1, 2):
        agreed = terms(people, round=round, size=16_000, bits=8)
        kept = keep(people, agreed, seed=0)  # the same secrets, even: the round alone makes other masks
        ups.append(np.frombuffer(kept.up[Phase.MASK][7][HEAD.size : -SIGNATURE], np.uint8))
    counts = np.bincount(ups[0] - ups[1], minlength=256)
    assert ((counts - 62.5) ** 2 / 62.5).sum() < 350  # of 255 degrees: passed once in 10^4
    assert numbers(agreed)[7].any()


def test_every_secret_is_fresh() -> None:
    people = identities(4)
    agreed = terms(people)
    one = Client(people[7], agreed, repeatable(b"1")).advertise()
    assert one == Client(identities(4)[7], agreed, repeatable(b"1")).advertise()
    assert one != Client(identities(4)[7], agreed).advertise() != Client(identities(4)[7], agreed).advertise()
