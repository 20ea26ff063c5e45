"""Integers of any width from 2 to 32 bits, side by side in bytes.

Number i has the bits from i * width on; bit 0 is the lowest of byte 0. What is left of the last byte is 0. Eight
numbers are `width` bytes, so that all eights are packed at once, a byte of each at a time.
"""

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake

Words = npt.NDArray[np.unsignedinteger]
PIECE = 2**17  # numbers at a time, a multiple of eight


def word(width: int) -> np.dtype[np.unsignedinteger]:
    """The smallest word of whole bytes that holds so many bits: 1, 2 or 4 bytes, little-endian."""
    return np.dtype("u1" if width <= 8 else "<u2" if width <= 16 else "<u4")


def length(size: int, width: int) -> int:
    """Bytes of so many numbers."""
    return (size * width + 7) // 8


def pack(numbers: Words, width: int) -> bytes:
    """The lowest `width` bits of each number, of the type that word() names."""
    if width == 8 * numbers.dtype.itemsize:
        return numbers.tobytes()
    # In pieces: a large array for each step costs more in fresh memory than in shifts.
    pieces = (numbers[first : first + PIECE] for first in range(0, numbers.size, PIECE))
    return b"".join(_pack(piece, width) for piece in pieces)


def _pack(numbers: Words, width: int) -> bytes:
    eights = -(-numbers.size // 8)
    padded = np.zeros((eights, 8), numbers.dtype)
    padded.reshape(-1)[: numbers.size] = numbers
    columns = np.ascontiguousarray(padded.T)
    columns &= columns.dtype.type(2**width - 1)
    rows = np.zeros((width, eights), np.uint8)
    for i, j, up in _meetings(width):
        rows[j] |= (columns[i] << up if up >= 0 else columns[i] >> -up).astype(np.uint8)
    return np.ascontiguousarray(rows.T).tobytes()[: length(numbers.size, width)]


def unpack(body: bytes | memoryview, size: int, width: int) -> Words:
    """The numbers again; bits after the last one are refused."""
    kind = word(width)
    if len(body) != length(size, width):
        raise Mistake(f"{size} numbers of {width} bits take {length(size, width)} bytes and not {len(body)}")
    if width == 8 * kind.itemsize:
        return np.frombuffer(body, kind).copy()
    eights = -(-size // 8)
    padded = np.zeros((eights, width), np.uint8)
    padded.reshape(-1)[: len(body)] = np.frombuffer(body, np.uint8)
    rows = np.ascontiguousarray(padded.T)
    columns = np.zeros((8, eights), kind)
    for i, j, up in _meetings(width):
        byte = rows[j].astype(kind)
        columns[i] |= byte >> up if up >= 0 else byte << -up
    columns &= kind.type(2**width - 1)
    numbers: Words = np.ascontiguousarray(columns.T).reshape(-1)
    if numbers[size:].any():
        raise Mistake(f"there are bits after its {size} numbers")
    return numbers[:size]


def _meetings(width: int) -> list[tuple[int, int, int]]:
    """Number i of an eight and byte j of its bytes that have bits in common: the number moved up by i width - 8 j."""
    pairs = ((i, j, i * width - 8 * j) for i in range(8) for j in range(width))
    return [(i, j, up) for i, j, up in pairs if -width < up < 8]
