"""What attacks found, on the card and as JSON."""

import json
import math
from dataclasses import replace

import pytest
from privacy.known import FACTS

from hush.privacy.card import audited, card, render
from hush.privacy.facts import Finding
from hush.privacy.findings import alarms, parsed, row, written

QUIET = Finding("mechanism", "model", 3.0972, 0.9199, 1e-5, 0.95, None, "Noise was drawn with and without the client.")
LOUD = Finding("canary clients", "server", 21.5, 23.456, 1e-5, 0.999, "the scores are Gaussian", "A client was put in.")
NOTHING = Finding("canary records", "upload", None, math.inf, 1e-5, 0.95, None, "An upload was read.")
ALL = (QUIET, LOUD, NOTHING)


def test_an_alarm_is_more_than_is_proven_and_nothing_less():
    assert [one.alarm for one in ALL] == [False, True, False]
    assert not replace(QUIET, shown=3.0972).alarm
    assert replace(QUIET, shown=3.0973).alarm
    assert replace(QUIET, shown=math.inf).alarm
    assert not replace(QUIET, stated=math.inf, shown=math.inf).alarm


@pytest.mark.parametrize("finding", ALL)
def test_there_and_back_in_valid_json(finding):
    text = json.dumps(written(finding), allow_nan=False)
    assert parsed(json.loads(text)) == finding


@pytest.mark.parametrize(
    "changed",
    [
        {"shown": None},
        {"shown": "none"},
        {"shown": -1},
        {"shown": True},
        {"shown": math.nan},
        {"shown": math.inf},
        {"stated": "infinite"},
        {"stated": None},
        {"delta": 1.0},
        {"confidence": "95 %"},
        {"view": "nobody"},
        {"words": ""},
        {"assumes": 3},
        {"attack": None},
        {"more": 1},
    ],
)
def test_what_is_no_finding_is_refused(changed):
    with pytest.raises(ValueError, match=r" (is|are) "):
        parsed({**written(QUIET), **changed})


def test_a_finding_without_its_sentence_is_refused():
    with pytest.raises(ValueError, match="fields"):
        parsed({name: value for name, value in written(QUIET).items() if name != "words"})


def test_the_card_lists_them_with_their_meaning_and_the_alarm_first():
    found = card(replace(FACTS, audit=ALL))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [one["alarm"] for one in found["audit"]] == [False, True, False]
    assert found["audit"][2] | {"stated": "none", "shown": "infinite"} == found["audit"][2]
    assert found["warnings"] == [*alarms(found["audit"]), *card(FACTS)["warnings"]]
    assert len(alarms(found["audit"])) == 1
    page = render(found)
    text = " ".join(page.split())
    warned = (
        "Warnings - the attack 'canary clients' shows epsilon 23.45 for the server view, and 21.50 is proven"
        " (99.9 % confidence)"
    )
    for words in (
        warned,
        "mechanism model 3.10 0.91 95 %",
        "canary clients server 21.50 23.45 99.9 %",
        "canary records upload none infinite 95 %",
        "canary clients server 21.50 23.45 99.9 % alarm",
        "canary clients: A client was put in. Assumed: the scores are Gaussian.",
        "canary records: An upload was read.",
        "with this confidence, no epsilon below it can hold",
    ):
        assert words in text, words
    assert "no audit was run" not in text
    assert max(map(len, page.splitlines())) <= 100


def test_without_an_audit_the_card_says_so():
    assert card(FACTS)["audit"] == []
    assert "no audit was run: hush audit RUN" in render(card(FACTS))
    assert "no audit was run: hush audit RUN" in render(card(replace(FACTS, private=False)))


def test_findings_that_come_later_are_those_that_came_with_the_facts():
    assert audited(card(FACTS), ALL) == card(replace(FACTS, audit=ALL))
    assert audited({"scheme": 3}, [QUIET]) == {"scheme": 3, "audit": [row(QUIET)], "warnings": []}
