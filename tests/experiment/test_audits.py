"""audit.json of a run's directory."""

import json
import math
from dataclasses import replace
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
    audits.add(tmp_path, FOUND, ["a sum wraps"], 2000)
    assert audits.read(tmp_path) == FOUND[::-1]  # canaries first
    assert (audits.wrong(tmp_path), audits.trials(tmp_path)) == (("a sum wraps",), 2000)
    assert [path.name for path in tmp_path.iterdir()] == ["audit.json"]


def test_another_audit_takes_the_place_of_one_of_its_kind(tmp_path):
    audits.add(tmp_path, FOUND)
    again = replace(FOUND[0], shown=0.2)
    audits.add(tmp_path, [again])
    assert audits.read(tmp_path) == (FOUND[1], again)
    assert audits.alarms(tmp_path) == []


def test_an_alarm_stays_whatever_comes_after_it(tmp_path):
    loud, canaries = replace(FOUND[0], shown=1.6), replace(FOUND[1], stated=1.0, shown=1.1)
    audits.add(tmp_path, [loud, canaries], ["a sum wraps"], 20_000)
    audits.add(tmp_path, [FOUND[0], replace(canaries, shown=0.0)], [], 100)
    assert audits.read(tmp_path) == (canaries, loud)
    assert len(audits.alarms(tmp_path)) == 3
    assert audits.trials(tmp_path) == 20_000
    louder = replace(loud, shown=3.0)
    audits.add(tmp_path, [louder])
    assert audits.read(tmp_path) == (canaries, louder)
    audits.add(tmp_path, [loud])
    assert audits.read(tmp_path) == (canaries, louder)
    assert audits.sentence(tmp_path) == "more is shown than is proven: see the warnings"


def test_trials_that_nobody_counted_were_tried(tmp_path):
    """Of a version before: an alarm of theirs stays as well."""
    assert not audits.tried(tmp_path)
    audits.add(tmp_path, FOUND[1:])
    assert not audits.tried(tmp_path)
    loud = replace(FOUND[0], shown=1.6)
    audits.add(tmp_path, [loud])
    assert audits.tried(tmp_path)
    assert audits.trials(tmp_path) == 0
    audits.add(tmp_path, [FOUND[0]], trials=1000)
    assert audits.read(tmp_path) == (FOUND[1], loud)


def test_what_else_is_wrong_is_not_said_to_be_shown(tmp_path):
    audits.add(tmp_path, FOUND[:1], ["a sum wraps"])
    assert audits.sentence(tmp_path) == "something is not as it should be: see the warnings"


def test_a_sentence_says_what_is_proven_of(tmp_path):
    assert audits.sentence(tmp_path) == "nothing was tried"
    audits.add(tmp_path, FOUND[:1])
    assert audits.sentence(tmp_path) == "mechanism: shows epsilon 0.90 or more, 1.50 is proven of such a trial"


def cut(text: str) -> str:
    return text[: len(text) // 2]


def uncounted(text: str) -> str:
    return text.replace('"trials": 0', '"trials": 1e400')


def without_words(text: str) -> str:
    content = json.loads(text)
    del content["findings"][0]["words"]
    return json.dumps(content)


@pytest.mark.parametrize(
    "damage",
    [cut, without_words, uncounted, lambda _: "[]", lambda _: "{}", lambda _: '{"findings": 3}', lambda _: "[" * 10**5],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path: Path, damage):
    audits.add(tmp_path, FOUND)
    place = tmp_path / "audit.json"
    place.write_text(damage(place.read_text()))
    with pytest.raises(Mistake) as refused:
        audits.read(tmp_path)
    said = str(refused.value)
    assert said.startswith(f"{place} is damaged")
    assert "hush audit" in said
    assert "\n" not in said
