import struct

import pytest

from hush.data.idx import parse
from hush.errors import Mistake

GOOD = b"\0\0\x08\x03" + struct.pack(">3I", 2, 2, 3) + bytes(range(12))


def test_images_and_labels() -> None:
    assert parse(GOOD, "x").tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
    assert parse(b"\0\0\x08\x01" + struct.pack(">I", 3) + b"\7\0\2", "y").tolist() == [7, 0, 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD[:-1], "cut off: 27 bytes, not 28"),
        (GOOD + b"\0", "too long: 29 bytes, not 28"),
        (b"\0\0\x0d" + GOOD[3:], "not an idx file"),
        (b"\1" + GOOD[1:], "not an idx file"),
        (b"\0\0\x08\0", "not an idx file"),
        (GOOD[:9], "cut off in its header"),
        (b"", "not an idx file"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "cut off"),
    ],
)
def test_a_file_that_is_not_whole(content: bytes, words: str) -> None:
    with pytest.raises(Mistake, match=f"train.*{words}"):
        parse(content, "train")
