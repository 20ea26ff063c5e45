"""Masks are uniform, cancel to the last bit, and are what ChaCha20 says."""

from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from hush.errors import Mistake
from hush.secure import masks
from hush.secure.bits import unpack, word
from hush.secure.messages import HEAD, SIGNATURE, Phase
from secure.cohorts import identities, keep, terms

KEYS = [bytes([i]) * 32 for i in range(1, 6)]


@pytest.mark.parametrize("bits", [3, 8, 12, 16, 20, 32])
def test_against_the_stream_itself(bits: int) -> None:
    """Longer than a piece, so that a stream goes on where it was."""
    size = masks.PIECE + 77
    numbers = np.arange(size)
    words = masks.residues(numbers, bits, size)
    masks.add(words, KEYS[:2], KEYS[2:3])
    signed = zip((1, 1, -1), KEYS[:3], strict=True)
    want = numbers.copy()
    for sign, key in signed:
        raw = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(size * word(bits).itemsize))
        want += sign * np.frombuffer(raw, word(bits)).astype(np.int64)
    assert np.array_equal(words.astype(np.int64) % 2**bits, want % 2**bits)


def test_they_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "TOGETHER", 2)
    words = masks.residues(np.arange(1000), 12, 1000)
    masks.add(words, KEYS, [])
    assert not np.array_equal(words & 4095, np.arange(1000))
    masks.add(words, [], KEYS)
    assert np.array_equal(words & 4095, np.arange(1000))


@pytest.mark.parametrize("bits", [2, 8, 12, 32])
def test_centred_undoes_residues(bits: int) -> None:
    top = 2 ** (bits - 1)
    values = np.array([-top, 1 - top, -1, 0, 1, top - 1])
    found = masks.residues(values, bits, 6)
    assert found.dtype == word(bits)
    assert found.tolist() == [value % 2**bits for value in values.tolist()]
    assert np.array_equal(masks.centred(found, bits), values)
    assert masks.residues(values + 2**bits, bits, 6).tolist() == found.tolist()


def test_only_whole_numbers() -> None:
    fractions: Any = np.zeros(3)
    with pytest.raises(Mistake, match="numbers must be 3 integers, and not float64"):
        masks.residues(fractions, 12, 3)


def test_an_upload_is_uniform() -> None:
    """One client's masked numbers, all of them 5, over 10^6 values: chi-square of 4,096 and of pairs of neighbours."""
    people = identities(3)
    agreed = terms(people, size=1_000_000)
    kept = keep(people, agreed)
    client = kept.client(Phase.MASK, 10)
    said = client.mask(kept.down[Phase.MASK][10], np.full(agreed.size, 5))
    values = unpack(said[HEAD.size : -SIGNATURE], agreed.size, 12).astype(np.int64)
    for cells, count in ((values, 4096), (values[1:] // 64 * 64 + values[:-1] // 64, 4096)):
        found, want = np.bincount(cells, minlength=count), cells.size / count
        score = ((found - want) ** 2 / want).sum()
        assert abs(score - 4095) < 4 * np.sqrt(2 * 4095)
