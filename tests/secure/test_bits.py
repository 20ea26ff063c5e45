"""Numbers of any width come back, in as many bytes as they need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import Mistake
from hush.secure.bits import PIECE, length, pack, unpack, word


@given(st.integers(2, 32).flatmap(lambda w: st.tuples(st.just(w), st.lists(st.integers(0, 2**w - 1), max_size=40))))
def test_against_one_long_number(case: tuple[int, list[int]]) -> None:
    width, values = case
    packed = pack(np.array(values, word(width)), width)
    whole = sum(value << width * i for i, value in enumerate(values))
    assert packed == whole.to_bytes(length(len(values), width), "little")
    assert unpack(packed, len(values), width).tolist() == values


@pytest.mark.parametrize("width", [2, 8, 11, 23])
@pytest.mark.parametrize("more", [-1, 0, 1, 13])
def test_pieces_of_many_numbers_fit_together(width: int, more: int) -> None:
    values = np.random.default_rng(1).integers(0, 2**width, PIECE + more).astype(word(width))
    packed = pack(values, width)
    assert len(packed) == length(values.size, width)
    assert np.array_equal(unpack(packed, values.size, width), values)
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[: values.size * width]
    assert np.array_equal(bits.reshape(-1, width) @ (1 << np.arange(width)), values)


@pytest.mark.parametrize("width", [2, 7, 12, 17, 31])
def test_what_is_above_the_width_is_cut_off(width: int) -> None:
    full = np.full(9, -1, np.int64).astype(word(width))
    assert unpack(pack(full, width), 9, width).tolist() == [2**width - 1] * 9
    assert full[0] > 2**width - 1  # and the numbers themselves are left alone


def test_refused() -> None:
    packed = pack(np.arange(5, dtype="<u2"), 12)
    for wrong in (packed[:-1], packed + b"\0", b""):
        with pytest.raises(Mistake, match="5 numbers of 12 bits take 8 bytes"):
            unpack(wrong, 5, 12)
    with pytest.raises(Mistake, match="bits after its 5 numbers"):
        unpack(packed[:-1] + bytes([packed[-1] | 0x10]), 5, 12)
