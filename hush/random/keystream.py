"""The key stream that all noise, coins and rounding are made of: AES-256 in counter mode.

The counter of a block of 16 bytes is the row's number (8 bytes, modulo 2^64) and the block's number within the row's
stream (8 bytes), both big-endian. So rows never meet, and any part of a row's stream is made without what is before it:
the bytes depend on key, row and block alone, whatever the thread and whatever else is drawn.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

BLOCK = 16  # bytes
LONGEST = 6 * 2**18  # bytes of one call
_ZEROS = memoryview(bytes(LONGEST))


class KeyStream:
    """The streams of one key, one for each row."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(AES256(key), CTR(bytes(BLOCK))).encryptor()

    def fill(self, words: npt.NDArray[Any], row: int, block: int) -> None:
        """Fill the array with the bytes of the row's stream from this block on; at most LONGEST."""
        if words.nbytes > LONGEST:  # what is beyond it would stay as it was, and be no noise
            raise ValueError(f"{words.nbytes} bytes of key stream are more than {LONGEST}: draw them in parts")
        self._cipher.reset_nonce(((row % 2**64 << 64) + block).to_bytes(BLOCK, "big"))
        self._cipher.update_into(_ZEROS[: words.nbytes], words.view(np.uint8).data)
