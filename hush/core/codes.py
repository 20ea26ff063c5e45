"""Codes of 1, 2, 4 or 8 bits side by side in bytes, the first in the highest bits."""

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake

Bytes = npt.NDArray[np.uint8]


def pack_codes(codes: Bytes, bits: int) -> Bytes:
    """Codes of so many bits side by side, the first in the highest bits; what is left of the last byte is 0."""
    if bits == 1:
        return np.packbits(codes)
    each = 8 // bits
    packed = np.zeros(-(-codes.size // each), np.uint8)
    for place in range(each):
        found = codes[place::each]
        packed[: found.size] |= found << (8 - (place + 1) * bits)
    return packed


def unpack_codes(body: memoryview, bits: int, size: int) -> Bytes:
    """The codes again; bits after the last one are refused."""
    packed, each = np.frombuffer(body, np.uint8), 8 // bits
    if bits == 1:
        codes = np.unpackbits(packed)
    else:
        codes = np.empty(packed.size * each, np.uint8)
        for place in range(each):
            codes[place::each] = (packed >> (8 - (place + 1) * bits)) & (2**bits - 1)
    if codes[size:].any():
        raise Mistake(f"there are bits after its {size} numbers")
    return codes[:size]
