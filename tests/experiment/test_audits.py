"""audit.json of a run's directory."""

import json
import math
from pathlib import Path

import pytest

from hush.errors import Mistake
from hush.experiment import audits
from hush.privacy.facts import Finding

FOUND = (
    Finding("mechanism", "model", 1.5, 0.9, 1e-5, 0.95, None, "Noise was drawn."),
    Finding("canary records", "upload", None, math.inf, 1e-5, 0.99, "nothing of the kind", "An upload was read."),
)


def test_what_is_written_is_read(tmp_path):
    assert audits.read(tmp_path) == ()
    audits.write(tmp_path, FOUND)
    assert audits.read(tmp_path) == FOUND
    assert [path.name for path in tmp_path.iterdir()] == ["audit.json"]
    audits.write(tmp_path, FOUND[:1])
    assert audits.read(tmp_path) == FOUND[:1]


def cut(text: str) -> str:
    return text[: len(text) // 2]


def without_words(text: str) -> str:
    content = json.loads(text)
    del content["findings"][0]["words"]
    return json.dumps(content)


@pytest.mark.parametrize(
    "damage",
    [cut, without_words, lambda _: "[]", lambda _: "{}", lambda _: '{"findings": 3}', lambda _: "[" * 10**5],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path: Path, damage):
    audits.write(tmp_path, FOUND)
    place = tmp_path / "audit.json"
    place.write_text(damage(place.read_text()))
    with pytest.raises(Mistake) as refused:
        audits.read(tmp_path)
    said = str(refused.value)
    assert said.startswith(f"{place} is damaged")
    assert "hush audit" in said
    assert "\n" not in said
