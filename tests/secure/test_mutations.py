"""Messages that were changed on their way: refused by either side, never a crash, never another sum."""

from functools import lru_cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import Aborted, Mistake
from hush.secure.driver import answer
from hush.secure.messages import PHASES, Phase
from secure.cohorts import Kept, identities, keep, plain, terms

EACH = 1700  # messages of one example: 105,400 in all


@lru_cache
def kept() -> Kept:
    """Five clients, of which one is gone after it shared its secrets."""
    people = identities(5)
    return keep(people, terms(people, size=9), gone=(7,))


def mutated(data: bytes, others: list[bytes], draw: np.random.Generator) -> bytes:
    """Bits flipped, bytes replaced, a block zeroed, cut, doubled or moved, a piece of another message, or another."""
    found, at = bytearray(data), int(draw.integers(0, len(data) + 1))
    length = int(draw.integers(1, 70))
    match int(draw.integers(0, 9)):
        case 0:
            place = int(draw.integers(0, 8 * len(data)))
            found[place // 8] ^= 1 << place % 8
        case 1:
            found[at : at + 1] = draw.bytes(1)
        case 2:
            found[at : at + length] = bytes(len(found[at : at + length]))
        case 3:
            del found[at:]
        case 4:
            del found[at : at + length]
        case 5:
            found[at:at] = found[at : at + length] or b"\0"
        case 6:
            found += draw.bytes(length)
        case 7:
            other = others[int(draw.integers(0, len(others)))]
            found[at : at + length] = other[at : at + length]
        case _:
            found = bytearray(others[int(draw.integers(0, len(others)))])
    return bytes(found)


@settings(max_examples=36)
@given(st.integers(0, 2**32), st.sampled_from(PHASES))
def test_server(seed: int, phase: Phase) -> None:
    """It refuses every one with a sentence, and then takes the true ones as if nothing had been."""
    round, draw = kept(), np.random.default_rng(seed)
    server, names = round.server(phase), list(round.up[phase])
    everything = [data for messages in (*round.up.values(), *round.down.values()) for data in messages.values()]
    count = 0
    for _ in range(EACH):
        name = names[int(draw.integers(0, len(names)))]
        data = mutated(round.up[phase][name], everything, draw)
        if data != round.up[phase][name]:
            assert not server.take(name, data)
            count += 1
    assert len(server.refused) == count > EACH // 2
    total, survivors = round.rest(server)
    assert survivors == tuple(round.up[Phase.MASK])
    assert np.array_equal(total, plain(round.agreed, round.values, survivors))


@settings(max_examples=26)
@given(st.integers(0, 2**32), st.sampled_from(PHASES[1:]))
def test_client(seed: int, phase: Phase) -> None:
    """It refuses, or its answer says what it was asked, and the server refuses that."""
    round, draw = kept(), np.random.default_rng(seed)
    server, names = round.server(phase), list(round.up[phase])
    everything = [data for messages in (*round.up.values(), *round.down.values()) for data in messages.values()]
    refused = 0
    for _ in range(EACH):
        name = names[int(draw.integers(0, len(names)))]
        data = mutated(round.down[phase][name], everything, draw)
        if data == round.down[phase][name]:
            continue
        client = round.client(phase, name)
        try:
            said = answer(client, phase, data, round.values[name])
        except Mistake:  # nothing was said, and the right message is still answered as before
            refused += 1
            assert client._phase is phase
            continue
        except Aborted:
            refused += 1
            assert client._phase is Phase.CLOSED
            continue
        assert not server.take(name, said)
    assert refused > EACH // 4
    total, survivors = round.rest(server)
    assert np.array_equal(total, plain(round.agreed, round.values, survivors))
