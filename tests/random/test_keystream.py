"""The key stream: AES-256 of row and block, one block after the other."""

import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hush.random.keystream import LONGEST, KeyStream

KEY = bytes(range(32))


@pytest.mark.parametrize("row", [0, 5, 2**40, 2**64 - 1, -1])
@pytest.mark.parametrize("block", [0, 3, 2**63])
@pytest.mark.parametrize("kind", ["u1", "<u2", "<u4", "<u8"])
def test_equals_single_blocks_of_the_cipher(row: int, block: int, kind: str) -> None:
    cipher = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    wanted = b"".join(cipher.update(struct.pack(">QQ", row % 2**64, block + i)) for i in range(5))
    words = np.empty(72 // np.dtype(kind).itemsize, kind)
    KeyStream(KEY).fill(words, row, block)
    assert words.tobytes() == wanted[:72]


def test_what_was_read_before_does_not_matter() -> None:
    stream, first, again = KeyStream(KEY), np.empty(100, np.uint8), np.empty(100, np.uint8)
    stream.fill(first, 7, 2)
    stream.fill(np.empty(33, np.uint8), 1, 0)
    stream.fill(again, 7, 2)
    assert np.array_equal(first, again)


def test_the_longest_part_is_filled_and_no_longer_one_is_taken() -> None:
    words = np.zeros(LONGEST + 16, np.uint8)
    KeyStream(KEY).fill(words[:-16], 0, 0)
    assert words[LONGEST - 64 : LONGEST].any()
    with pytest.raises(ValueError, match="bytes"):
        KeyStream(KEY).fill(words, 0, 0)
