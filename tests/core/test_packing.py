"""Forms: there and back without loss, as many bytes as they say, and nothing else taken."""

import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hush.core.integers import Integers
from hush.core.packing import Buckets, Codes, Few, Floats, Form
from hush.errors import Mistake, Refused
from hush.federation import messages

FORMS = [Floats(), *map(Codes, (1, 2, 4, 8)), *(Buckets(w, b) for w in (2, 4, 8) for b in (1, 5, 512)), Few(3)]
FORMS += map(Integers, (2, 3, 7, 8, 9, 12, 16, 17, 25, 31, 32))
TINY = 2.0**-149  # the smallest float32


def held(form: Form, size: int, seed: int) -> torch.Tensor:
    """A row that the form holds."""
    rng = np.random.default_rng(seed)
    row = rng.standard_normal(size).astype(np.float32)
    if isinstance(form, Codes):
        row = rng.integers(0, form.top, size, endpoint=True) * 2 - form.top
    if isinstance(form, Buckets):
        levels = rng.integers(-form.top, form.top, size, endpoint=True)
        levels[:: form.bucket] = form.top
        row = form.values(levels.astype(np.float32), form.scales(row))
    if isinstance(form, Integers):
        edge = 2 ** (form.width - 1)
        whole = rng.integers(-edge, edge, size)
        whole[:2] = -edge, edge - 1
        return torch.from_numpy(whole.astype(np.int32))
    if isinstance(form, Few):
        row[rng.permutation(size)[form.count - seed % 2 :]] = 0
    return torch.from_numpy(row.astype(np.float32))


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit."""
    return one.dtype == other.dtype != torch.float64 and torch.equal(one.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("size", [3, 4, 5, 7, 8, 9, 511, 512, 513, 1030])
def test_there_and_back(form: Form, size: int) -> None:
    for seed in range(4):
        row = held(form, size, seed)
        body = form.pack(row)
        assert memoryview(body).nbytes == form.length(size)
        assert same(form.unpack(memoryview(bytes(body)), size), row)
        message = messages.pack_upload(row, 1, b"8 bytes.", form)
        assert message.payload == form.length(size)
        assert same(messages.unpack_upload(message.data, size, 1, b"8 bytes.", form)[0], row)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_other_lengths_are_refused(form: Form) -> None:
    body = bytes(form.pack(held(form, 9, 0)))
    for wrong in (body[:-1], body + b"\0", b""):
        with pytest.raises(Mistake, match=f"9 numbers take {len(body)} bytes and not {len(wrong)}"):
            form.unpack(memoryview(wrong), 9)


def test_every_kind_of_form_has_a_number_of_its_own() -> None:
    found = [form.bits for form in (Floats(), *map(Codes, (1, 2, 4, 8)), *(Buckets(w, 9) for w in (2, 4, 8)), Few(2))]
    assert found == [32, 1, 2, 4, 8, 258, 260, 264, 64]
    assert [Integers(width).bits for width in (2, 12, 32)] == [514, 524, 544]
    message = messages.pack_upload(torch.zeros(8), 1, b"8 bytes.", Buckets(4, 8)).data
    with pytest.raises(Refused, match="does not begin"):
        messages.unpack_upload(message, 8, 1, b"8 bytes.", Codes(8))


@pytest.mark.parametrize("row", [[1.0, 0.0], [1.0, 3.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_numbers_that_are_no_codes_are_refused(row: list[float]) -> None:
    with pytest.raises(Mistake, match="1-bit codes"):
        Codes(1).pack(torch.tensor(row))


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_bits_after_the_last_code_are_refused(bits: int) -> None:
    body = bytearray(Codes(bits).pack(held(Codes(bits), 9, 0)))
    body[-1] |= 1
    with pytest.raises(Mistake, match="bits after its 9 numbers"):
        Codes(bits).unpack(memoryview(body), 9)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Codes(3), "bits=3 must be 1, 2, 4 or 8"),
        (lambda: Buckets(1, 8), "bits=1 must be 2, 4 or 8"),
        (lambda: Buckets(4, 0), "bucket=0 must be at least 1"),
        (lambda: Few(0), "count=0 must be at least 1"),
        (lambda: Integers(1), "bits=1 must be from 2 to 32"),
        (lambda: Integers(33), "bits=33 must be from 2 to 32"),
    ],
)
def test_wrong_numbers(wrong, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        wrong()


def test_buckets_on_the_wire() -> None:
    """Two scales, then the codes level + 7, the first in the high half of a byte; the last half is 0."""
    row = torch.tensor([0.5, -0.25 * 4 / 7, 0.0, -3.0, 3.0 * np.float32(1 / 7)], dtype=torch.float32)
    body = bytes(Buckets(4, 3).pack(row))
    assert body == struct.pack("<ff", 0.5, 3.0) + bytes([0xE << 4 | 5, 7 << 4 | 0, 8 << 4])


def laid(scales: list[float], codes: list[int]) -> memoryview:
    """Eight bits a level."""
    return memoryview(np.array(scales, "<f4").tobytes() + bytes(codes))


@pytest.mark.parametrize(
    ("scales", "codes", "sentence"),
    [
        ([1.0, math.inf], [254, 0, 254], "negative or not finite"),
        ([math.nan, 1.0], [254, 0, 254], "negative or not finite"),
        ([-1.0, 1.0], [254, 0, 254], "negative or not finite"),
        ([1.0, -0.0], [254, 0, 127], "negative or not finite"),
        ([1.0, 1.0], [254, 255, 254], "past the last of 255 levels"),
        ([1.0, 1.0], [253, 1, 254], "not its largest"),
        ([1.0, 0.0], [254, 1, 128], "not its largest"),
    ],
)
def test_buckets_that_no_client_makes_are_refused(scales: list[float], codes: list[int], sentence: str) -> None:
    form = Buckets(8, 2)
    assert form.unpack(laid([2.0, 0.0], [254, 127, 127]), 3).tolist() == [2.0, 0.0, 0.0]
    with pytest.raises(Mistake, match=sentence):
        form.unpack(laid(scales, codes), 3)


def test_bits_after_the_last_level_are_refused() -> None:
    body = bytearray(Buckets(4, 8).pack(torch.ones(3)))
    body[-1] |= 1
    with pytest.raises(Mistake, match="bits after its 3 numbers"):
        Buckets(4, 8).unpack(memoryview(body), 3)


@pytest.mark.parametrize(
    "wrong",
    [[1.0, 0.5], [1.0, -0.0], [1.0, math.nan], [1.0, math.inf], [7.0, np.nextafter(np.float32(1), np.float32(2))]],
)
def test_rows_between_the_levels_are_refused(wrong: list[float]) -> None:
    with pytest.raises(Mistake, match="none of their 15 levels"):
        Buckets(4, 2).pack(torch.tensor(wrong, dtype=torch.float32))


@given(
    st.sampled_from([2, 4, 8]),
    st.integers(1, 5),
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 2.0**127, width=32) | st.integers(1, 400)), min_size=1),
)
def test_levels_of_any_scale_come_back(width: int, bucket: int, drawn: list[tuple[float, float]]) -> None:
    """Down to the smallest float32, where levels fall together: the numbers are the same ones."""
    form = Buckets(width, bucket)
    numbers = np.array([u * (s if isinstance(s, float) else s * TINY) for u, s in drawn], np.float32)
    scales = form.scales(numbers)
    row = torch.from_numpy(form.values(np.rint(form.levels(numbers, scales)), scales))
    assert same(form.unpack(form.pack(row), row.numel()), row)


@given(
    st.lists(st.floats(0, 2.0**127, width=32), min_size=2, max_size=2),
    st.lists(st.sampled_from([0, 14, 7, 3]), min_size=4, max_size=4),
)
def test_what_is_unpacked_can_be_packed(scales: list[float], codes: list[int]) -> None:
    """A body is refused, or else it is a row's, and the row's alone."""
    form = Buckets(4, 2)
    body = struct.pack("<ff", *scales) + bytes([codes[0] << 4 | codes[1], codes[2] << 4 | codes[3]])
    fits = [
        any(code in (0, 14) for code in pair) if scale else all(code == 7 for code in pair)
        for scale, pair in zip(scales, (codes[:2], codes[2:]), strict=True)
    ]
    if not all(fits):
        with pytest.raises(Mistake, match="not its largest"):
            form.unpack(memoryview(body), 4)
        return
    row = form.unpack(memoryview(body), 4)
    again = form.pack(row)
    assert same(form.unpack(again, 4), row)
    if all(scale == 0 or scale > 2.0**-120 for scale in scales):  # far smaller ones have levels that fall together
        assert bytes(again) == body


def test_few_on_the_wire() -> None:
    """Positions ascending, then numbers; where there are fewer than three the first zeros fill up."""
    row = torch.tensor([0.0, 0.0, -2.5, 0.0, 7.0])
    assert bytes(Few(3).pack(row)) == struct.pack("<IIIfff", 0, 2, 4, 0.0, -2.5, 7.0)
    assert bytes(Few(2).pack(row)) == struct.pack("<IIff", 2, 4, -2.5, 7.0)


def test_a_negative_zero_is_a_number() -> None:
    row = torch.tensor([0.0, -0.0, 1.0])
    assert same(Few(2).unpack(Few(2).pack(row), 3), row)
    with pytest.raises(Mistake, match="holds 2 of 3"):
        Few(1).pack(row)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([1.0, 2.0, 3.0], "holds 3 of 3 that are not zero"),
        ([1.0], "holds 1 of 1"),
        ([0.0, math.nan, 0.0], "not finite"),
        ([-math.inf, 0.0, 0.0], "not finite"),
    ],
)
def test_rows_of_more_than_few_are_refused(row: list[float], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        Few(2).pack(torch.tensor(row))


@pytest.mark.parametrize(
    ("places", "numbers", "sentence"),
    [
        ((1, 1), (1.0, 2.0), "not ascending"),
        ((2, 1), (1.0, 2.0), "not ascending"),
        ((0, 3), (1.0, 2.0), "past the 3"),
        ((0, 2**32 - 1), (1.0, 2.0), "past the 3"),
        ((0, 2), (1.0, math.nan), "not finite"),
        ((0, 2), (math.inf, 1.0), "not finite"),
    ],
)
def test_few_that_no_client_sends_are_refused(places: tuple, numbers: tuple, sentence: str) -> None:
    assert Few(2).unpack(memoryview(struct.pack("<IIff", 0, 2, 1.0, 2.0)), 3).tolist() == [1.0, 0.0, 2.0]
    with pytest.raises(Mistake, match=sentence):
        Few(2).unpack(memoryview(struct.pack("<IIff", *places, *numbers)), 3)


@pytest.mark.parametrize("width", range(2, 33))
def test_whole_numbers_of_every_width(width: int) -> None:
    """Their bits in one long line, written out from the end: the last number first, its highest bit first."""
    form = Integers(width)
    for size in (1, 2, 7, 8, 9, 100):
        row = held(form, max(2, size), size)[:size]
        line = "".join(format(k % 2**width, f"0{width}b") for k in reversed(row.tolist()))
        body = bytes(form.pack(row))
        assert body == int(line, 2).to_bytes(math.ceil(len(line) / 8), "little")
        assert len(body) == form.length(size) == math.ceil(size * width / 8)
        assert same(form.unpack(memoryview(body), size), row)


@given(st.integers(2, 32), st.integers(0, 40), st.data())
def test_any_body_is_one_row_or_refused(width: int, size: int, data: st.DataObject) -> None:
    form = Integers(width)
    body = data.draw(st.binary(min_size=form.length(size), max_size=form.length(size)))
    if int.from_bytes(body, "little") >> size * width:
        with pytest.raises(Mistake, match=f"bits after its {size} numbers"):
            form.unpack(memoryview(body), size)
    else:
        row = form.unpack(memoryview(body), size)
        assert row.dtype == torch.int32
        assert bytes(form.pack(row)) == body


@pytest.mark.parametrize("bad", [4.0, -5.0, 0.5, math.nan, math.inf, 2.0**31, 2.0**40, -(2.0**32)])
def test_numbers_that_are_not_whole_or_too_large_are_refused(bad: float) -> None:
    form = Integers(3)
    assert form.unpack(form.pack(torch.tensor([3.0, -4.0])), 2).tolist() == [3, -4]
    for kind in (torch.float32, torch.float64, *([torch.int64] if bad.is_integer() else [])):
        with pytest.raises(Mistake, match="3-bit integers"):
            form.pack(torch.tensor([1.0, bad], dtype=torch.float64).to(kind))
