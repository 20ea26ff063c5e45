"""The slow twin of the noise: one pair after the other, in float64, from single blocks of the cipher."""

import math
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

CHUNK = 262_144


def normals(key: bytes, row: int, size: int) -> list[float]:
    """The first `size` numbers of a row's stream, chunk by chunk."""
    numbers: list[float] = []
    while len(numbers) < size:
        numbers += _chunk(key, row, len(numbers) * 6 // 16, min(CHUNK, size - len(numbers)))
    return numbers


def _chunk(key: bytes, row: int, count: int, size: int) -> list[float]:
    pairs = 4 * math.ceil(size / 8)
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = (struct.pack(">qQ", row, count + i) for i in range(12 * pairs // 16))
    stream = b"".join(cipher.update(block) for block in blocks)
    first, second = [], []
    for i in range(pairs):
        (a,) = struct.unpack_from("<q", stream, 8 * i)
        (b,) = struct.unpack_from("<i", stream, 8 * pairs + 4 * i)
        radius = math.sqrt(-2 * math.log(max(abs(a), 1) / 2**63))
        angle = math.pi / 2 * b / 2**31
        first.append(math.copysign(radius, a) * math.cos(angle))
        second.append(radius * math.sin(angle))
    return (first + second)[:size]
