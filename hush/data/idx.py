"""The idx format of MNIST: a magic number, the axes as big-endian 32-bit numbers, then the bytes."""

import struct
from typing import Any

import numpy as np

from hush.errors import Mistake


def parse(content: bytes, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Unsigned bytes of any shape; refuses another magic number, missing bytes and trailing bytes."""
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not content[3]:
        raise Mistake(f"{name} is not an idx file of bytes (magic {content[:4].hex()}): fetch the set again")
    head = 4 + 4 * content[3]
    if len(content) < head:
        raise Mistake(f"{name} is cut off in its header ({len(content)} bytes): fetch the set again")
    shape = struct.unpack(f">{content[3]}I", content[4:head])
    want = head + int(np.prod(shape, dtype=object))
    if len(content) != want:
        what = "cut off" if len(content) < want else "too long"
        raise Mistake(f"{name} is {what}: {len(content)} bytes, not {want}; fetch the set again")
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)
