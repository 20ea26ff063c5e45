"""What travels between the server and a site around the messages of rounds: who is there, the charter, questions.

header  b"hush", the version of this layout (1 byte), the kind (1 byte), the number of the question (8 bytes)
body    JSON for small facts, tensors with text beside them (safetensors) for a charter, else the bytes of a round
"""

import enum
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hush.errors import Refused

HEAD = struct.Struct("<4sBBQ")
TAKEN = struct.Struct("<q")
MAGIC, VERSION = b"hush", 1
NONE = -1  # no round's upload was taken
LONGEST = 400  # characters of a sentence that a peer sends


class Kind(enum.IntEnum):
    """Upwards from 1, downwards from 16."""

    HELLO = 1  # a process of a site is there: its version, a random name of the process
    JOIN = 2  # what the site registers: how many records it has, where that is asked for
    ACCEPT = 3  # the charter with this digest
    DECLINE = 4  # the charter, or to join at all: why
    ANSWER = 5  # to a question
    REFUSAL = 6  # of a question: why
    WELCOME = 16  # what the federation is about, before its charter
    CHARTER = 17  # the charter, the roster, the public batch
    ASK = 18  # a question: a message of a round, and which round's upload was taken last
    OVER = 19  # the run is finished
    REJECT = 20  # the site cannot take part: why


class Envelope(NamedTuple):
    """One of these, opened."""

    kind: Kind
    number: int
    body: bytes

    @property
    def facts(self) -> dict[str, Any]:
        """The body, where it is a JSON object."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Refused(f"the body of {self.kind.name} is no JSON object: refused")
        return found

    @property
    def sentence(self) -> str:
        """The body, where it is one: short, in one line, and nothing that a terminal would obey."""
        return one_line(self.body[: 4 * LONGEST].decode("utf-8", "replace"))


def one_line(text: str) -> str:
    """Words of a peer as they may be shown."""
    words = " ".join(text[: 4 * LONGEST].split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:LONGEST]


def seal(kind: Kind, body: bytes | str | dict[str, Any] = b"", number: int = 0) -> bytes:
    """An envelope as bytes."""
    if isinstance(body, dict):
        body = json.dumps(body)
    return HEAD.pack(MAGIC, VERSION, kind, number) + (
        body.encode("utf-8", "replace") if isinstance(body, str) else body
    )


def unseal(data: bytes | memoryview) -> Envelope:
    """An envelope from bytes; what is none is refused. The body is copied once, out of the transport's memory."""
    if len(data) < HEAD.size:
        raise Refused(f"a message of {len(data)} bytes is no envelope of hush: refused")
    magic, version, kind, number = HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION or kind not in set(Kind):
        raise Refused(f"this is no envelope of hush of version {VERSION}: install the same version of hush everywhere")
    return Envelope(Kind(kind), number, bytes(memoryview(data)[HEAD.size :]))


def seal_tensors(kind: Kind, tensors: dict[str, Tensor], texts: dict[str, str]) -> bytes:
    """Tensors, and texts beside them."""
    return seal(kind, save(tensors, metadata=texts))


def unseal_tensors(body: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the texts."""
    try:
        length = int.from_bytes(body[:8], "little")
        texts = json.loads(body[8 : 8 + length]).get("__metadata__", {})
        return load(body), {str(name): str(text) for name, text in texts.items()}
    except (SafetensorError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise Refused(f"the charter did not arrive whole ({type(error).__name__}): refused") from None


def ask(number: int, data: bytes, taken: int) -> bytes:
    """A question to a site, and the last round of which its upload was taken."""
    return seal(Kind.ASK, TAKEN.pack(taken) + data, number)


def asked(envelope: Envelope) -> tuple[bytes, int]:
    """The message, and the last round of which the upload was taken."""
    if len(envelope.body) < TAKEN.size:
        raise Refused("a question has no message: refused")
    return envelope.body[TAKEN.size :], TAKEN.unpack_from(envelope.body)[0]


def greeting(federation: str, site: str, process: str) -> bytes:
    """What a process of a site signs when it says hello."""
    return "\n".join(("hush hello", federation, site, process)).encode()


def proof(facts: Mapping[str, object]) -> bytes:
    """The signature of a hello."""
    try:
        return bytes.fromhex(str(facts.get("proof", "")))
    except ValueError:
        return b""
