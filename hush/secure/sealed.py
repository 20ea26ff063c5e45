"""A message for one receiver alone, whoever carries it: an X25519 key of its own, agreed with the receiver's.

The half of a client that is for the second server travels so through the first, which cannot open it.
"""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hush.errors import Mistake
from hush.secure.keys import Identity, agree, derive, private, public, seal, unseal, verify

KEY, SIGNED = 32, 64
RECEIVER = 2**32 - 1  # no seat
_WORDS = b"hush secure sum 1: sealing key"


def sealing(secret: bytes) -> X25519PrivateKey:
    """The key that opens what is sealed for the owner of this identity's secret."""
    return private(derive(secret, bytes(32), b"sealing key"))


def introduction(secret: bytes) -> bytes:
    """An identity's public key, its sealing key, and its signature that this is it."""
    own, key = Identity(secret), public(sealing(secret))
    return own.public + key + own.sign(_WORDS + key)


def introduced(data: bytes) -> tuple[bytes, bytes]:
    """The public key and the sealing key of an introduction that its owner has signed."""
    own, key, signature = data[:KEY], data[KEY : 2 * KEY], data[2 * KEY :]
    if len(data) != 2 * KEY + SIGNED or not verify(own, signature, _WORDS + key):
        raise Mistake("this is no introduction of a second server: its signature is not right")
    return own, key


def enclose(receiver: bytes, digest: bytes, seat: int, plain: bytes) -> bytes:
    """Sealed for the owner of this sealing key, as from this seat under these terms."""
    once = X25519PrivateKey.generate()
    return public(once) + seal(agree(once, receiver), digest, seat, RECEIVER, plain)


def disclose(own: X25519PrivateKey, digest: bytes, seat: int, data: bytes) -> bytes:
    """What is in it; a Mistake where it is not right."""
    found = None
    if len(data) > KEY:
        found = unseal(agree(own, data[:KEY]), digest, seat, RECEIVER, data[KEY:])
    if found is None:
        raise Mistake("its half was not sealed for this server under these terms")
    return found
