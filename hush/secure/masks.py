"""Masks: the key stream of ChaCha20 as numbers modulo 2^bits.

A number takes the lowest bits of a word of 1, 2 or 4 bytes, whichever is the smallest that holds it. A word of a
uniform stream is uniform, and so are its lowest bits: there is no rounding and no rejection. Words are added with
their own overflow, and what is above `bits` is cut off once, at the end, since 2^bits divides the word's modulus.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from hush.errors import Mistake
from hush.secure.bits import Words, word

# Bytes at a time: the numbers stay in the cache while one stream after the other is added.
PIECE = 2**16
TOGETHER = 128  # streams that are open at once
_ZEROS = memoryview(bytes(PIECE))


def residues(numbers: npt.NDArray[np.integer], bits: int, size: int) -> Words:
    """`size` integers modulo 2^bits, in the words that masks are added to: always a copy."""
    if numbers.shape != (size,) or numbers.dtype.kind not in "iu":
        raise Mistake(f"numbers must be {size} integers, and not {numbers.dtype} of shape {numbers.shape}: round first")
    kind = word(bits)
    found: Words = numbers.astype(kind)  # keeps the lowest bits, of negative numbers as well
    found &= kind.type(2**bits - 1)
    return found


def centred(numbers: Words, bits: int) -> npt.NDArray[np.int64]:
    """Each residue as the number from -2^(bits-1) to 2^(bits-1) - 1 that it stands for."""
    found = numbers.astype(np.int64)
    found -= (found >> (bits - 1)) << bits
    return found


def add(numbers: Words, plus: Iterable[bytes], minus: Iterable[bytes]) -> None:
    """Add the masks of some keys to the words and take those of others away, in place."""
    signed = [(np.add, key) for key in plus] + [(np.subtract, key) for key in minus]
    for first in range(0, len(signed), TOGETHER):
        _add(numbers, signed[first : first + TOGETHER])


def _add(numbers: Words, signed: Sequence[tuple[np.ufunc, bytes]]) -> None:
    # Each key has one stream, so the nonce may be zero.
    streams = [(move, Cipher(ChaCha20(key, bytes(16)), None).encryptor()) for move, key in signed]
    room = bytearray(PIECE)
    step = PIECE // numbers.itemsize
    for start in range(0, numbers.size, step):
        part = numbers[start : start + step]
        raw = memoryview(room)[: part.nbytes]
        drawn = np.frombuffer(raw, numbers.dtype)
        for move, stream in streams:
            stream.update_into(_ZEROS[: part.nbytes], raw)
            move(part, drawn, out=part)
