"""Identities that sign, keys that two clients share, and what is derived from them.

Ed25519 signs, X25519 agrees, HKDF-SHA256 derives. Every signature and every derivation contains the digest of the
terms and its purpose, so that nothing made for one of them is of use for another.
"""

import hashlib
import os
import threading
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hush.errors import Mistake
from hush.secure.shares import element

Draw = Callable[[int], bytes]  # so many secret bytes: os.urandom, or a repeatable one in a simulation
P = 2**255 - 19  # of the curve
PAIR, CHECK = 16, 8  # bytes of the secret of a pair's mask, and of a check of it
_NONCE = bytes(12)
_DOMAIN = b"hush secure sum 1: "
_CLAIMS = threading.Lock()  # of all identities: two objects may share one record of claims


def _weak() -> frozenset[bytes]:
    """Ed25519 keys under which anybody can sign (points of order 1, 2, 4 and 8), and second spellings (y >= p)."""
    eighth = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # y of a point of order 8
    ys = [0, 1, P - 1, eighth, P - eighth, *range(P, 2**255)]
    return frozenset((y + (sign << 255)).to_bytes(32, "little") for y in ys for sign in (0, 1))


WEAK = _weak()


def repeatable(key: bytes) -> Draw:
    """Secrets that repeat, for simulations and tests only: the key stream of ChaCha20, read on and on."""
    stream = Cipher(ChaCha20(hashlib.sha256(_DOMAIN + b"repeatable" + key).digest(), bytes(16)), None).encryptor()
    return lambda count: stream.update(bytes(count))


class Identity:
    """A client's long-term key, and what it took part in: a round of a run, and a binding, at most once each.

    `claims` has the last round of each run, `bindings` the run and round of each binding, in hexadecimal digits. A
    deployment gives mappings that are on disk.
    """

    def __init__(
        self,
        secret: bytes,
        claims: MutableMapping[str, int] | None = None,
        bindings: MutableMapping[str, tuple[str, int]] | None = None,
    ) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()
        self.claims: MutableMapping[str, int] = {} if claims is None else claims
        self.bindings: MutableMapping[str, tuple[str, int]] = {} if bindings is None else bindings

    @classmethod
    def new(cls, draw: Draw = os.urandom) -> "Identity":
        """A fresh one."""
        return cls(draw(32))

    def sign(self, words: bytes) -> bytes:
        """64 bytes."""
        return self._key.sign(words)

    def claim(self, run: str, round: int, binding: bytes) -> None:
        """Take part in a round with this plan and model; once only, and never in an earlier round."""
        with _CLAIMS:
            last = self.claims.get(run)
            if last is not None and round <= last:
                raise Mistake(
                    f"round={round} of run {run!r} must be past {last}, the last one that this client took part in: two"
                    " secure sums of one round would reveal what differs"
                )
            if (before := self.bindings.get(binding.hex())) is not None:
                raise Mistake(
                    f"round={round} of run {run!r} must have another plan or model than round {before[1]} of run"
                    f" {before[0]!r}, where this client took part: two secure sums of the same numbers would reveal"
                    " what differs"
                )
            self.bindings[binding.hex()] = (run, round)
            self.claims[run] = round


def verify(public: bytes, signature: bytes, words: bytes) -> bool:
    """Whether the owner of the key signed the words."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, words)
    except (InvalidSignature, ValueError):
        return False
    return True


def private(secret: bytes) -> X25519PrivateKey:
    """An X25519 key of 32 secret bytes."""
    return X25519PrivateKey.from_private_bytes(secret)


def public(key: X25519PrivateKey) -> bytes:
    """Its public half."""
    return key.public_key().public_bytes_raw()


def agree(key: X25519PrivateKey, peer: bytes) -> bytes:
    """The secret that it shares with a public key; points of low order, and second spellings of one, are refused."""
    if int.from_bytes(peer, "little") >= P:  # the exchange ignores the highest bit, and reduces modulo p
        raise Mistake("a public key is not below 2^255 - 19: spelled in two ways, one key would count as two")
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:  # the shared secret would be zero
        raise Mistake("a public key is a point of low order, with which everybody shares the same secret") from None


def derive(secret: bytes, digest: bytes, purpose: bytes, *seats: int, length: int = 32) -> bytes:
    """Bytes for one purpose, HKDF-SHA256 with the digest as salt; purpose and seats are its info."""
    info = _DOMAIN + purpose + b"".join(seat.to_bytes(4, "little") for seat in seats)
    return HKDF(algorithm=SHA256(), length=length, salt=digest, info=info).derive(secret)


@dataclass(frozen=True)
class Agreement:
    """What a client has in common with a neighbour: the secret of their mask, and shares.

    `dealt` are those that the neighbour holds of this client's two secrets, `held` those that this client holds of the
    neighbour's: of the seed, then of the lock. None of the five reveals anything of another.
    """

    mask: bytes
    dealt: tuple[bytes, bytes]
    held: tuple[bytes, bytes]


def pair(agreed: bytes, digest: bytes, own: int, other: int) -> Agreement:
    """All that two seats derive from what they agreed on; one's `dealt` is the other's `held`."""
    found = derive(agreed, digest, b"pair", min(own, other), max(own, other), length=PAIR + 4 * 32)
    low, high = ((element(found[at : at + 32]), element(found[at + 32 : at + 64])) for at in (PAIR, PAIR + 64))
    return Agreement(found[:PAIR], *((low, high) if own < other else (high, low)))


def pair_key(secret: bytes, digest: bytes, one: int, other: int) -> bytes:
    """The key of the mask that two seats share, the same for both."""
    return derive(secret, digest, b"pair mask", min(one, other), max(one, other))


def pair_check(secret: bytes, digest: bytes, one: int, other: int) -> bytes:
    """What one of two seats says of the secret of their mask, so that what the other sealed can be held against it."""
    return derive(secret, digest, b"pair check", min(one, other), max(one, other), length=CHECK)


def self_key(seed: bytes, digest: bytes, seat: int) -> bytes:
    """The key of a client's own mask."""
    return derive(seed, digest, b"self mask", seat)


def commitment(seed: bytes, digest: bytes, seat: int) -> bytes:
    """What the server can hold a rebuilt seed against; it reveals nothing of 128 random bits."""
    return hashlib.sha256(_DOMAIN + b"commitment" + digest + seat.to_bytes(4, "little") + seed).digest()


def seal(agreed: bytes, digest: bytes, sender: int, receiver: int, plain: bytes) -> bytes:
    """A box that only the receiver can open, and only as one from this sender under these terms.

    The key is for one message in one direction, so that its nonce may be zero.
    """
    key = derive(agreed, digest, b"box", sender, receiver)
    return ChaCha20Poly1305(key).encrypt(_NONCE, plain, digest)


def unseal(agreed: bytes, digest: bytes, sender: int, receiver: int, box: bytes) -> bytes | None:
    """What is in it, or None where the box is not right."""
    key = derive(agreed, digest, b"box", sender, receiver)
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, box, digest)
    except InvalidTag:
        return None
