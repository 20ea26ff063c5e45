"""What the two servers of a sum in halves say to each other: signed by the one, for the other, under the terms.

A message has magic, version, kind, half and the first 8 bytes of the digest of the terms, then a body and a signature.
The signature covers the whole digest, kind, half, the receiver's key and the body: a message that was changed, or is of
another round, another kind or for another server, is refused. Nothing is asked, so a repeated one says the same again.
"""

import hashlib
import struct
from enum import IntEnum

from hush.errors import Mistake
from hush.secure.keys import Identity, verify
from hush.secure.messages import SIGNATURE, Phase
from hush.secure.terms import Terms

HEAD = struct.Struct("<3sBBB8s")
MAGIC, VERSION = b"hss", 1


class LinkMessage(IntEnum):
    """What a server says of its half."""

    HAS = 0  # that it has this client's
    PRESENT = 1  # whose it has, for good
    SUM = 2  # over whom it added up, and the sum


def say(identity: Identity, other: bytes, terms: Terms, half: Phase, kind: LinkMessage, body: bytes) -> bytes:
    """A message of the server of this half for the one with that key."""
    return _head(terms, half, kind) + body + identity.sign(_words(terms, half, kind, other, body))


def hear(sender: bytes, receiver: bytes, terms: Terms, half: Phase, kind: LinkMessage, data: bytes) -> bytes:
    """The body of what the server of this half, with the sender's key, says to the receiver."""
    head, body, signature = data[: HEAD.size], data[HEAD.size : -SIGNATURE], data[-SIGNATURE:]
    if len(data) < HEAD.size + SIGNATURE or head != _head(terms, half, kind):
        raise Mistake(
            f"the other server's message is not of kind {kind.name.lower()} on the {half.word} under these terms: it is"
            " of another round, or was changed"
        )
    if not verify(sender, signature, _words(terms, half, kind, receiver, body)):
        raise Mistake("the other server's message does not have its signature, or is for another server")
    return body


def _head(terms: Terms, half: Phase, kind: LinkMessage) -> bytes:
    return HEAD.pack(MAGIC, VERSION, kind, half, terms.digest[:8])


def _words(terms: Terms, half: Phase, kind: LinkMessage, receiver: bytes, body: bytes) -> bytes:
    head = b"hush secure sum 1: between servers" + terms.digest + bytes([kind, half]) + receiver
    return head + hashlib.sha256(body).digest()
