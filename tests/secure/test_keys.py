"""Signatures, derived keys and boxes are for one purpose each."""

import os

import pytest

from hush.errors import Mistake
from hush.secure.keys import (
    Identity,
    agree,
    commitment,
    derive,
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


def test_no_key_is_that_of_another_purpose() -> None:
    secret = bytes([7]) * 32
    found = [
        *(pair_key(secret, digest, *pair) for digest in (DIGEST, OTHER) for pair in ((0, 1), (0, 2), (1, 2))),
        *(self_key(secret, digest, seat) for digest in (DIGEST, OTHER) for seat in (0, 1)),
        *(derive(secret, digest, b"box", *pair) for digest in (DIGEST, OTHER) for pair in ((0, 1), (1, 0))),
        *(commitment(secret, digest, seat) for digest in (DIGEST, OTHER) for seat in (0, 1)),
    ]
    assert len(set(found)) == len(found)


def test_a_key_has_one_spelling() -> None:
    one, key = private(bytes([3]) * 32), public(private(bytes([4]) * 32))
    assert agree(one, key) == agree(private(bytes([4]) * 32), public(one))
    with pytest.raises(Mistake, match="highest bit"):
        agree(one, key[:31] + bytes([key[31] | 0x80]))


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
    Identity(secret, claims).claim("run", 4)
    assert claims == {"run": 4}
    again = Identity(secret, claims)  # after a restart
    for round in (3, 4):
        with pytest.raises(Mistake, match=f"round={round} of run 'run' must be past 4"):
            again.claim("run", round)
    again.claim("run", 5)
    again.claim("another", 1)
    assert claims == {"run": 5, "another": 1}
