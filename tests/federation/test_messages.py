"""Messages that are not exactly right are refused."""

import math
import zlib
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.packing import Codes, Floats
from hush.core.plain import All
from hush.core.protocols import Coordinates
from hush.core.spec import Plan
from hush.errors import Mistake, Refused
from hush.federation import messages
from hush.parts.coordinates import RandomK, Vote

START = torch.arange(10, dtype=torch.float32)
LIVE = torch.tensor([1, 4, 9])
VOTE = Vote(0.3, 0.1, 1, 1, 1.0)
FIXED, FRESH = RandomK(0.3, fresh=False), RandomK(0.3, fresh=True)
ANSWERS = b"12345678"


def plan(round: int = 2, live: torch.Tensor | None = LIVE) -> Plan:
    weights = START.clone()
    weights[LIVE] = torch.tensor([0.5, -1e-30, 3e38])
    return Plan(round, weights, live, 5.0, 4.5, 0.25)


MESSAGES = {
    "all": (messages.pack_plan(plan(live=None), All()).data, None, All()),
    "fixed": (messages.pack_plan(plan(), FIXED).data, LIVE, FIXED),
    "vote": (messages.pack_plan(plan(), VOTE).data, None, VOTE),
}
UPLOAD = messages.pack_upload(torch.tensor([1.0, -2.0, math.pi]), 7, ANSWERS).data


@pytest.mark.parametrize("coordinates", [All(), FIXED, FRESH, VOTE], ids=["all", "fixed", "fresh", "vote"])
@pytest.mark.parametrize("round", [1, 2])
def test_plan_there_and_back(coordinates: Coordinates, round: int) -> None:
    sent = plan(round, None if isinstance(coordinates, All) else LIVE)
    if round == 1:
        sent = replace(sent, weights=START)
    derived = sent.live if coordinates.derivable else None
    found = messages.unpack_plan(messages.pack_plan(sent, coordinates).data, START, derived, coordinates)
    assert torch.equal(found.weights, sent.weights)
    assert (found.live is None) == (sent.live is None)
    assert found.live is None or torch.equal(found.live, LIVE)
    assert (found.round, found.cohort, found.floor, found.clip) == (round, 5.0, 4.5, 0.25)


def test_sizes() -> None:
    """Header 56 and 28; w_0 never travels; the set travels where it cannot be derived."""
    sizes = {
        (coordinates, round): messages.pack_plan(
            plan(round, None if isinstance(coordinates, All) else LIVE), coordinates
        ).payload
        for coordinates in (All(), FIXED, FRESH, VOTE)
        for round in (1, 2)
    }
    assert [sizes[c, 1] for c in (All(), FIXED, FRESH, VOTE)] == [0, 0, 0, 12]
    assert [sizes[c, 2] for c in (All(), FIXED, FRESH, VOTE)] == [40, 12, 40, 24]
    assert messages.pack_plan(plan(), FIXED).protocol == 56
    message = messages.pack_upload(torch.zeros(3), 7, ANSWERS)
    assert (message.protocol, message.payload, len(message.data)) == (28, 12, 40)


def test_a_row_that_does_not_lie_in_a_row() -> None:
    """Packed number by number, whatever the strides."""
    columns = torch.arange(6, dtype=torch.float32).reshape(3, 2)
    assert messages.pack_upload(columns[:, 1], 7, ANSWERS) == messages.pack_upload(
        torch.tensor([1.0, 3.0, 5.0]), 7, ANSWERS
    )


def test_no_adaptive_clip_is_none() -> None:
    message = messages.pack_plan(replace(plan(), clip=None), FIXED)
    assert messages.unpack_plan(message.data, START, LIVE, FIXED).clip is None


@given(st.lists(st.floats(width=32), max_size=40))
def test_upload_there_and_back(values: list[float]) -> None:
    row = torch.tensor(values, dtype=torch.float32)
    data = messages.pack_upload(row, 3, ANSWERS).data
    if not row.isfinite().all():
        with pytest.raises(Refused, match="not finite"):
            messages.unpack_upload(data, len(values), 3, ANSWERS)
        return
    found = messages.unpack_upload(data, len(values), 3, ANSWERS)[0]
    assert torch.equal(found.view(torch.int32), row.view(torch.int32))


@settings(max_examples=150)
@given(st.data())
def test_a_flipped_bit_of_an_upload(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 8 * len(UPLOAD) - 1))
    with pytest.raises(Refused):
        messages.unpack_upload(flipped(UPLOAD, place), 3, 7, ANSWERS)


@pytest.mark.parametrize("kind", MESSAGES)
@settings(max_examples=150)
@given(data=st.data())
def test_a_flipped_bit_of_a_plan(kind: str, data: st.DataObject) -> None:
    message, live, coordinates = MESSAGES[kind]
    place = data.draw(st.integers(0, 8 * len(message) - 1))
    with pytest.raises(Refused):
        messages.unpack_plan(flipped(message, place), START, live, coordinates)


def flipped(message: bytes, place: int) -> bytes:
    changed = bytearray(message)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


@pytest.mark.parametrize("change", ["shorter", "longer"])
def test_wrong_length(change: str) -> None:
    """Every truncation, and anything after the end."""
    lengths = range(len(UPLOAD)) if change == "shorter" else range(len(UPLOAD) + 1, len(UPLOAD) + 9)
    for length in lengths:
        with pytest.raises(Refused, match="refused"):
            messages.unpack_upload(UPLOAD.ljust(length, b"\0")[:length], 3, 7, ANSWERS)
    for message, live, coordinates in MESSAGES.values():
        extra = [message[:length] for length in range(len(message))] if change == "shorter" else [message + b"\0"]
        for wrong in extra:
            with pytest.raises(Refused):
                messages.unpack_plan(wrong, START, live, coordinates)


@pytest.mark.parametrize(
    ("size", "round", "answers", "sentence"),
    [
        (3, 8, ANSWERS, "upload of round 7 came in round 8"),
        (3, 7, b"87654321", "answers another plan"),
        (4, 7, ANSWERS, "carries 3 numbers in 12 bytes where 4 in 16 were expected"),
        (2, 7, ANSWERS, "carries 3 numbers in 12 bytes where 2 in 8 were expected"),
    ],
)
def test_an_upload_to_another_question(size: int, round: int, answers: bytes, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        messages.unpack_upload(UPLOAD, size, round, answers)


def test_kinds_are_not_mixed() -> None:
    with pytest.raises(Refused):
        messages.unpack_upload(MESSAGES["all"][0], 3, 2, ANSWERS)
    with pytest.raises(Refused):
        messages.unpack_plan(UPLOAD.ljust(60, b"\0"), START, None, All())


def test_digest_tells_plans_apart() -> None:
    """Another round, another weight, another bound: each is another plan."""
    other = plan().weights.clone()
    other[4] += 1e-3
    changes = [{}, {"round": 3}, {"weights": other}, {"clip": 0.5}, {"floor": 4.0}]
    digests = {messages.pack_plan(replace(plan(), **change), FIXED).digest for change in changes}
    assert len(digests) == len(changes)


@pytest.mark.parametrize("count", [0, 9, 11])
def test_a_plan_with_another_number_of_weights(count: int) -> None:
    """After round 1 all expected weights are there: none at all would mean w_0 in silence."""
    wrong = replace(plan(live=None), weights=torch.zeros(count))
    with pytest.raises(Refused):
        messages.unpack_plan(messages.pack_plan(wrong, All()).data, START, None, All())


@pytest.mark.parametrize("round", [1, 2])
def test_a_plan_with_a_coordinate_that_is_not_there(round: int) -> None:
    wrong = replace(plan(round), weights=torch.zeros(11), live=torch.tensor([1, 4, 10]))
    with pytest.raises(Refused):
        messages.unpack_plan(messages.pack_plan(wrong, VOTE).data, START, None, VOTE)


def test_a_plan_that_must_name_its_set() -> None:
    """The vote's set cannot be derived: a plan without it says nothing of what to train."""
    without = messages.pack_plan(plan(1, None), VOTE)
    with pytest.raises(Refused):
        messages.unpack_plan(without.data, START, None, VOTE)


def test_a_plan_that_names_another_set() -> None:
    """Where the set is derived from public data the server cannot choose it."""
    chosen = messages.pack_plan(plan(live=torch.tensor([0, 2, 3])), VOTE)
    with pytest.raises(Refused):
        messages.unpack_plan(chosen.data, START, LIVE, FIXED)


@given(st.lists(st.sampled_from([1.0, -1.0]), min_size=1, max_size=40))
def test_signs_come_back(values: list[float]) -> None:
    message = messages.pack_upload(torch.tensor(values), 3, ANSWERS, form=Codes(1))
    assert message.payload == (len(values) + 7) // 8
    assert messages.unpack_upload(message.data, len(values), 3, ANSWERS, form=Codes(1))[0].tolist() == values


def test_signs_that_are_none_are_refused() -> None:
    with pytest.raises(Mistake, match="numbers that are none of them"):
        messages.pack_upload(torch.tensor([1.0, 0.0]), 3, ANSWERS, form=Codes(1))
    signs = messages.pack_upload(torch.ones(3), 7, ANSWERS, form=Codes(1)).data
    for place in range(len(signs)):
        with pytest.raises(Refused):
            messages.unpack_upload(flipped(signs, place), 3, 7, ANSWERS, form=Codes(1))
    for data, size, form in (
        (signs, 3, Floats()),
        (UPLOAD, 3, Codes(1)),
        (signs, 3, Codes(2)),
        (signs, 11, Codes(1)),
        (signs + b"\0", 3, Codes(1)),
        (signs[:-1], 3, Codes(1)),
    ):
        with pytest.raises(Refused):
            messages.unpack_upload(data, size, 7, ANSWERS, form)
    longer = messages.pack_upload(torch.ones(5), 7, ANSWERS, form=Codes(1)).data
    head = messages.UPLOAD.pack(messages.MAGIC, messages.VERSION, 2, 1, 7, 3, ANSWERS)
    padded = (
        head
        + messages.CRC.pack(zlib.crc32(longer[messages.UPLOAD_HEADER :], zlib.crc32(head)))
        + longer[messages.UPLOAD_HEADER :]
    )
    with pytest.raises(Refused, match="bits after its 3 numbers"):
        messages.unpack_upload(padded, 3, 7, ANSWERS, form=Codes(1))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40, unique=True).map(sorted))
def test_a_cohort_there_and_back(cohort: list[int]) -> None:
    """Any numbers, ascending, in front of any plan; as many bytes as are counted."""
    plan = messages.Message(b"plan", 3)
    sent = messages.with_cohort(plan, cohort)
    assert messages.split_cohort(sent.data, 40) == (b"plan", tuple(cohort))
    assert (sent.payload, sent.protocol) == messages.counted(plan, cohort) == (1, len(sent.data) - 1)


def test_a_cohort_takes_a_byte_a_client() -> None:
    assert messages.with_cohort(messages.Message(b"", 0), range(0, 6000, 20)).protocol == 5 + 300
    assert messages.with_cohort(messages.Message(b"", 0), range(0, 60_000, 200)).protocol == 5 + 600 - 1


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "does not begin with a cohort of version 2"),
        (b"\x2c\x01\0\0" + bytes(40) * 300, "does not begin with a cohort of version 2"),  # with keys, as it was before
        (b"\x02\0\0\0\0", "names a cohort of 0"),
        (b"\x02\x0b\0\0\0" + bytes(11), "names a cohort of 11, and there are 10 clients"),
        (b"\x02\x03\0\0\0\x02\x02", "ends in its list of 3 clients"),
        (b"\x02\x01\0\0\0" + b"\xff" * 8, "ends in its list of 1 clients"),
        (b"\x02\x01\0\0\0" + b"\x80\0" + b"plan", "spells its list of 1 clients in a second way"),  # 0, overlong
        (b"\x02\x01\0\0\0" + b"\x82\x80\0" + b"plan", "in a second way"),
        (b"\x02\x02\0\0\0" + b"\x02\x82\0" + b"plan", "in a second way"),
        (b"\x02\x01\0\0\0" + b"\xfe" + b"\xff" * 9 + b"plan", "in a second way"),  # a step without an end
        (b"\x02\x01\0\0\0" + b"\xff" * 10 + b"plan", "out of order, or one twice"),  # and negative
        (b"\x02\x02\0\0\0" + b"\xff" * 20, "out of order, or one twice"),
        (b"\x02\x01\0\0\0" + b"\x01", "out of order, or one twice"),  # -1
        (b"\x02\x02\0\0\0" + b"\x06\x01", "out of order, or one twice"),  # 3, 2
        (b"\x02\x02\0\0\0" + b"\x06\0", "out of order, or one twice"),  # 3, 3
    ],
)
def test_a_cohort_that_is_none(data: bytes, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        messages.split_cohort(data, 10)


@given(st.binary(min_size=1, max_size=30), st.integers(1, 4))
def test_a_cohort_has_one_spelling(rest: bytes, count: int) -> None:
    """What is read is written again as the same bytes."""
    data = messages.COHORT.pack(messages.LISTED, count) + rest
    try:
        plan, cohort = messages.split_cohort(data, 4)
    except Refused:
        return
    assert messages.with_cohort(messages.Message(plan, 0), cohort).data == data
    assert list(cohort) == sorted(set(cohort))
    assert cohort[0] >= 0
