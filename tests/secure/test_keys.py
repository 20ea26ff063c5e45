"""Signatures, derived keys and boxes are for one purpose each."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hush.errors import Mistake
from hush.secure.keys import (
    CHECK,
    WEAK,
    Identity,
    P,
    agree,
    commitment,
    derive,
    pair,
    pair_check,
    pair_key,
    private,
    public,
    seal,
    self_key,
    unseal,
    verify,
)

DIGEST, OTHER = bytes(32), bytes([1]) * 32


def test_both_sides_agree() -> None:
    one, other = private(os.urandom(32)), private(os.urandom(32))
    shared = agree(one, public(other))
    assert shared == agree(other, public(one))
    assert pair_key(shared, DIGEST, 3, 8) == pair_key(shared, DIGEST, 8, 3)
    assert pair_check(shared, DIGEST, 3, 8) == pair_check(shared, DIGEST, 8, 3)


def test_what_a_pair_derives() -> None:
    """One's shares are what the other deals; all five are apart, and others under other terms and for other seats."""
    shared = bytes([7]) * 32
    one, other = pair(shared, DIGEST, 3, 8), pair(shared, DIGEST, 8, 3)
    assert one.mask == other.mask
    assert (one.dealt, one.held) == (other.held, other.dealt)
    others = [pair(shared, OTHER, 3, 8), pair(shared, DIGEST, 3, 9), pair(bytes(32), DIGEST, 3, 8)]
    found = [value for each in (one, *others) for value in (each.mask, *each.dealt, *each.held)]
    assert len(set(found)) == len(found) == 20


def test_no_key_is_that_of_another_purpose() -> None:
    secret = bytes([7]) * 32
    found = [
        *(pair_key(secret, digest, *pair) for digest in (DIGEST, OTHER) for pair in ((0, 1), (0, 2), (1, 2))),
        *(self_key(secret, digest, seat) for digest in (DIGEST, OTHER) for seat in (0, 1)),
        *(pair_check(secret, digest, *pair) for digest in (DIGEST, OTHER) for pair in ((0, 1), (0, 2), (1, 2))),
        *(derive(secret, digest, b"box", *pair) for digest in (DIGEST, OTHER) for pair in ((0, 1), (1, 0))),
        *(commitment(secret, digest, seat) for digest in (DIGEST, OTHER) for seat in (0, 1)),
    ]
    assert len({value[:CHECK] for value in found}) == len(found)


def test_a_key_has_one_spelling() -> None:
    one, key = private(bytes([3]) * 32), public(private(bytes([4]) * 32))
    assert agree(one, key) == agree(private(bytes([4]) * 32), public(one))
    for second in (key[:31] + bytes([key[31] | 0x80]), *((2**255 - 19 + u).to_bytes(32, "little") for u in range(19))):
        with pytest.raises(Mistake, match=r"not below 2\^255 - 19: spelled in two ways"):
            agree(one, second)


def test_a_box_opens_for_its_receiver_under_its_terms() -> None:
    secret = bytes([9]) * 32
    box = seal(secret, DIGEST, 1, 2, b"shares")
    assert unseal(secret, DIGEST, 1, 2, box) == b"shares"
    assert unseal(secret, DIGEST, 2, 1, box) is None
    assert unseal(secret, OTHER, 1, 2, box) is None
    assert unseal(bytes(32), DIGEST, 1, 2, box) is None
    assert unseal(secret, DIGEST, 1, 2, box[:-1] + bytes([box[-1] ^ 1])) is None


def test_signatures() -> None:
    identity = Identity.new()
    signature = identity.sign(b"words")
    assert verify(identity.public, signature, b"words")
    assert not verify(identity.public, signature, b"other")
    assert not verify(Identity.new().public, signature, b"words")
    assert not verify(identity.public, signature[:-1], b"words")
    assert not verify(b"\xff" * 32, signature, b"words")


def test_claims_go_up_and_can_be_kept() -> None:
    claims: dict[str, int] = {}
    secret = os.urandom(32)
    Identity(secret, claims).claim("run", 4, b"4")
    assert claims == {"run": 4}
    again = Identity(secret, claims)  # after a restart
    for round in (3, 4):
        with pytest.raises(Mistake, match=f"round={round} of run 'run' must be past 4"):
            again.claim("run", round, b"%d" % round)
    again.claim("run", 5, b"5")
    again.claim("another", 1, b"1")
    assert claims == {"run": 5, "another": 1}


def test_a_binding_is_claimed_once() -> None:
    """The same plan and model under another run or round: two sums of the same numbers would reveal what differs."""
    claims: dict[str, int] = {}
    bindings: dict[str, tuple[str, int]] = {}
    secret = os.urandom(32)
    Identity(secret, claims, bindings).claim("run", 4, b"plan and model")
    again = Identity(secret, claims, bindings)  # after a restart
    for run, round in (("run", 5), ("another", 1)):
        with pytest.raises(Mistake, match=f"round={round} of run '{run}' must have another plan or model than round 4"):
            again.claim(run, round, b"plan and model")
    assert (claims, len(bindings)) == ({"run": 4}, 1)  # what was refused claims nothing
    again.claim("run", 5, b"another")


def test_claims_of_many_threads() -> None:
    """One of them has the round, whichever object of the identity it asks."""
    secret, claims = os.urandom(32), SlowClaims()
    people, start = [Identity(secret, claims) for _ in range(8)], threading.Barrier(8)

    def claim(one: Identity) -> bool:
        start.wait()
        try:
            one.claim("run", 1, os.urandom(32))
        except Mistake:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, people)) == 1


class SlowClaims(dict[str, int]):
    """As a record on disk: other threads run between a look and what follows from it."""

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        time.sleep(0.001)
        return found


@pytest.mark.parametrize("y", [0, 1, P - 1, P, P + 1, 2**255 - 1])
def test_keys_for_which_anybody_signs(y: int) -> None:
    for sign in (0, 1):
        assert (y + (sign << 255)).to_bytes(32, "little") in WEAK


def test_weak_keys_are_those_of_small_order_and_second_spellings() -> None:
    """All eight points of order 1, 2, 4 and 8, found by the curve's own law of addition; and 38 spellings of y >= p."""
    d = -121665 * pow(121666, -1, P) % P

    def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        (a, b), (x, y) = one, other
        cross = d * a * b * x * y % P
        return (a * y + b * x) * pow(1 + cross, -1, P) % P, (b * y + a * x) * pow(1 - cross, -1, P) % P

    low = [key for key in WEAK if int.from_bytes(key, "little") % 2**255 < P]
    found = set()
    for key in low:
        y = int.from_bytes(key, "little") % 2**255
        square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
        x = pow(square, (P + 3) // 8, P)
        x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
        assert x * x % P == square  # on the curve
        eight = (x, y)
        for _ in range(3):
            eight = add(eight, eight)
        assert eight == (0, 1)
        found |= {(x, y), (-x % P, y)}
    assert (len(found), len(WEAK) - len(low)) == (8, 38)
    assert Identity.new().public not in WEAK
