"""A message for one receiver alone: who else carries it cannot open it, nor use it elsewhere."""

import pytest

from hush.errors import Mistake
from hush.secure.keys import Identity
from hush.secure.sealed import disclose, enclose, introduced, introduction, sealing

SECRET, OTHER, DIGEST = bytes(range(32)), bytes(range(1, 33)), b"d" * 32


def test_the_receiver_alone_opens_it():
    _, key = introduced(introduction(SECRET))
    box = enclose(key, DIGEST, 3, b"a seed")
    assert disclose(sealing(SECRET), DIGEST, 3, box) == b"a seed"
    assert b"a seed" not in box
    assert enclose(key, DIGEST, 3, b"a seed") != box
    with pytest.raises(Mistake, match="not sealed for this server"):
        disclose(sealing(OTHER), DIGEST, 3, box)


@pytest.mark.parametrize(
    ("digest", "seat", "cut"), [(b"e" * 32, 3, 0), (DIGEST, 4, 0), (DIGEST, 3, 1), (DIGEST, 3, 60)]
)
def test_it_is_of_one_seat_under_one_digest_and_whole(digest, seat, cut):
    _, key = introduced(introduction(SECRET))
    box = enclose(key, DIGEST, 3, b"a seed")
    with pytest.raises(Mistake, match="not sealed"):
        disclose(sealing(SECRET), digest, seat, box[: len(box) - cut])


def test_an_introduction_is_its_owner_s():
    own, key = introduced(introduction(SECRET))
    assert own == Identity(SECRET).public
    assert key != own
    for place in (0, 40, 100):
        changed = bytearray(introduction(SECRET))
        changed[place] ^= 1
        with pytest.raises(Mistake, match="no introduction"):
            introduced(bytes(changed))
    with pytest.raises(Mistake, match="no introduction"):
        introduced(b"")
