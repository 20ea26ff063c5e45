"""The idx format of MNIST: a magic number, the axes as big-endian 32-bit numbers, then the bytes."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.errors import Mistake

Array = np.ndarray[Any, np.dtype[np.uint8]]
Images = tuple[Array, Array, Array, Array]  # training images (n, channels, height, width), classes; the same of test


def images(contents: Mapping[str, bytes]) -> Images:
    """Grey images and their classes, of training and of test, from four files in this order."""
    train_x, train_y, test_x, test_y = (parse(content, name) for name, content in contents.items())
    return train_x[:, None], train_y, test_x[:, None], test_y


def parse(content: bytes, name: str) -> Array:
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
