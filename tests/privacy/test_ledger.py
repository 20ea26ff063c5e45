import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hush.errors import Mistake
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger, journal

EVENT = Event(round=1, noise=1.5, share=0.15, rate=0.1, sampling="poisson", slack=1e-9)


def test_what_is_recorded_is_read_back(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = Ledger(path, {"scheme": "fl-top-dp"})
    ledger.record(replace(EVENT, round=0, label="vote"))
    ledger.record(EVENT)
    ledger.write_card({"guarantee": "client"})
    content = json.loads(path.read_text())
    assert list(content) == ["scheme", "events", "chain", "card"]
    again = Ledger.load(path)
    assert again.events == ledger.events
    assert [e.label for e in again.events] == ["vote", "update"]
    assert again.header == {"scheme": "fl-top-dp"}
    assert again.card == {"guarantee": "client"}
    again.record(replace(EVENT, round=2))
    assert Ledger.load(path).events == again.events
    assert Ledger.load(path).card == {"guarantee": "client"}
    assert [p.name for p in tmp_path.iterdir()] == ["privacy.json"]


def filled(path, rounds=3):
    """The first event is in the file, the others in the journal."""
    ledger = Ledger(path)
    for number in range(1, rounds + 1):
        ledger.record(replace(EVENT, round=number))
    return ledger


def test_an_event_costs_a_line_however_many_there_are(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = filled(path)
    whole, lines = path.read_bytes(), journal(path).read_bytes().splitlines()
    assert len(lines) == 2
    ledger.record(replace(EVENT, round=4))
    assert path.read_bytes() == whole
    assert journal(path).read_bytes().splitlines()[:2] == lines
    assert Ledger.load(path).events == ledger.events
    assert [e.round for e in ledger.events] == [1, 2, 3, 4]


def test_a_resumed_ledger_takes_the_journal_up(tmp_path):
    path = tmp_path / "privacy.json"
    filled(path)
    again = Ledger.load(path)
    again.record(replace(EVENT, round=4))
    assert not journal(path).exists()
    assert [e["round"] for e in json.loads(path.read_text())["events"]] == [1, 2, 3, 4]


def test_a_journal_left_by_a_kill_between_the_two_writes_is_not_counted_twice(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = filled(path)
    left = journal(path).read_bytes()
    ledger.write_card({"guarantee": "client"})
    journal(path).write_bytes(left)
    assert Ledger.load(path).events == ledger.events


def test_a_last_line_cut_short_was_never_answered_for(tmp_path):
    """All its beginnings are read as the events before it; a line that lacks its end of line alone counts."""
    path = tmp_path / "privacy.json"
    ledger = filled(path)
    first, second = journal(path).read_bytes().splitlines(keepends=True)
    for end in range(len(second)):
        journal(path).write_bytes(first + second[:end])
        found = Ledger.load(path).events
        assert found == ledger.events[: 3 if end == len(second) - 1 else 2]
    again = Ledger.load(path)
    again.record(replace(EVENT, round=9))
    assert [e.round for e in Ledger.load(path).events] == [1, 2, 3, 9]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[1:],
        lambda lines: [lines[0], lines[2]],
        lambda lines: [lines[1], lines[0], lines[2]],
        lambda lines: [lines[0].replace(b"1.5", b"9.5"), *lines[1:]],
        lambda lines: [lines[0][:-9] + b"\n", *lines[1:]],
        lambda lines: [*lines, lines[0].replace(b"1.5", b"9.5")],
        lambda lines: [b"\n", *lines],
        lambda lines: [*lines[:2], b"\0" * len(lines[2]) + b"\n"],
        lambda lines: [lines[0].replace(b'"number": 2', b'"number": 0'), *lines[1:]],
    ],
)
def test_a_damaged_journal_is_refused(tmp_path, damage):
    path = tmp_path / "privacy.json"
    filled(path, 4)
    lines = journal(path).read_bytes().splitlines(keepends=True)
    journal(path).write_bytes(b"".join(damage(lines)))
    with pytest.raises(Mistake, match="not a whole ledger"):
        Ledger.load(path)


def test_a_file_without_one_of_its_events_is_refused(tmp_path):
    """Whether or not lines follow it."""
    path = tmp_path / "privacy.json"
    ledger = filled(path)
    lines = journal(path).read_bytes()
    ledger.write_card({})
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "events": content["events"][1:]}))
    with pytest.raises(Mistake, match="not those that were written"):
        Ledger.load(path)
    path.write_text(json.dumps({**content, "events": content["events"][:1], "chain": None}))
    with pytest.raises(Mistake, match="not those that were written"):
        Ledger.load(path)
    del content["chain"]
    path.write_text(json.dumps({**content, "events": [*content["events"][:1], content["events"][0]]}))
    journal(path).write_bytes(lines)
    with pytest.raises(Mistake, match="does not follow"):
        Ledger.load(path)


def test_a_ledger_of_before_is_read(tmp_path):
    """Version 0.1 wrote no chain."""
    path = tmp_path / "privacy.json"
    path.write_text(json.dumps({"task": "a", "events": [vars(EVENT)], "card": None}))
    ledger = Ledger.load(path)
    assert (ledger.events, ledger.header) == ((EVENT,), {"task": "a"})
    ledger.record(replace(EVENT, round=2))
    assert [e.round for e in Ledger.load(path).events] == [1, 2]


def test_a_ledger_is_never_written_over(tmp_path):
    path = tmp_path / "privacy.json"
    filled(path)
    with pytest.raises(Mistake, match=r"holds a ledger already: go on with Ledger\.load"):
        Ledger(path).record(EVENT)
    path.unlink()
    with pytest.raises(Mistake, match="holds a ledger already"):
        Ledger(path).write_card({})


def test_after_a_failed_line_the_file_is_written_whole(tmp_path, monkeypatch):
    """A full disk may leave half a line: nothing may be appended to it."""
    path = tmp_path / "privacy.json"
    ledger = filled(path, 2)

    def full(path, data):
        with path.open("ab") as file:
            file.write(data[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("hush.data.files.append", full)
        with pytest.raises(OSError, match="No space"):
            ledger.record(replace(EVENT, round=3))
    assert len(ledger.events) == 2
    ledger.record(replace(EVENT, round=4))
    ledger.record(replace(EVENT, round=5))
    assert [e.round for e in Ledger.load(path).events] == [1, 2, 4, 5]


def test_a_replayed_round_counts_once_and_any_other_twice():
    ledger = Ledger()
    ledger.record(EVENT, replay=True)
    ledger.record(EVENT, replay=True)
    assert ledger.events == (EVENT,)
    ledger.record(EVENT, replay=False)
    assert ledger.events == (EVENT, EVENT)
    ledger.record(replace(EVENT, label="vote"), replay=True)
    assert len(ledger.events) == 3


def test_a_replay_that_differs_is_refused():
    ledger = Ledger()
    ledger.record(EVENT)
    with pytest.raises(Mistake, match="round=1 was recorded with another update event"):
        ledger.record(replace(EVENT, noise=1.0), replay=True)
    assert ledger.events == (EVENT,)


def test_an_event_that_cannot_be_written_is_not_counted_as_written(tmp_path):
    (tmp_path / "occupied").touch()
    ledger = Ledger(tmp_path / "occupied" / "privacy.json")
    with pytest.raises(OSError, match="occupied"):
        ledger.record(EVENT)
    assert ledger.events == ()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "not a whole ledger"),
        (lambda text: "", "not a whole ledger"),
        (lambda text: "[]", "no list of events"),
        (lambda text: text.replace('"noise"', '"noize"'), "event 1 has not the fields"),
        (lambda text: text.replace("1.5", '"1.5"'), "event 1 has noise='1.5'"),
        (lambda text: text.replace("1.5", "-1.5"), "event 1: noise=-1.5"),
        (lambda text: text.replace("poisson", "often"), "event 1: sampling=often"),
        (lambda text: text.replace('"card": null', '"card": 3'), "card is not an object"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damage, reason):
    path = tmp_path / "privacy.json"
    Ledger(path).record(EVENT)
    text = path.read_text()
    assert damage(text) != text
    path.write_text(damage(text))
    with pytest.raises(Mistake, match=reason):
        Ledger.load(path)


def test_a_missing_file_is_a_mistake(tmp_path):
    with pytest.raises(Mistake, match="cannot be read"):
        Ledger.load(tmp_path / "privacy.json")
    with pytest.raises(Mistake, match="header key card"):
        Ledger(header={"card": 1})


RECORDER = """
import sys
from pathlib import Path
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for t in range(1, 100000):
    ledger.record(Event(t, 1.5, 0.15, 0.1, "poisson"))
    print(t, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 23, 60])
def test_a_killed_process_leaves_at_least_what_it_spent(tmp_path, lines):
    path = tmp_path / "privacy.json"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", RECORDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        released = lines + len([line for line in process.stdout if line.endswith("\n")])
    assert process.returncode == -signal.SIGKILL
    rounds = [e.round for e in Ledger.load(path).events]
    assert rounds == list(range(1, len(rounds) + 1))
    assert released <= len(rounds) <= released + 1


RECORD = Event(1, 1.08, 1.08, 3 / 314, "fixed", level="record", steps=2, batch=300 / 804, reach=2, batches="fixed")


def test_the_chain_of_a_ledger_of_before_records_still_holds(tmp_path):
    """Written by hand as version 0.2 did: seven fields, and SHA-256 over their JSON in the order of names."""
    path = tmp_path / "privacy.json"
    old = '{"label": "update", "noise": 1.5, "rate": 0.1, "round": %d, '
    old += '"sampling": "poisson", "share": 0.15, "slack": 1e-09}'
    first = hashlib.sha256((old % 1).encode()).digest()
    second = hashlib.sha256(first + (old % 2).encode()).hexdigest()
    path.write_text(json.dumps({"events": [json.loads(old % 1)], "chain": first.hex(), "card": None}))
    journal(path).write_text(json.dumps({"number": 2, "event": json.loads(old % 2), "chain": second}) + "\n")
    ledger = Ledger.load(path)
    assert ledger.events == (EVENT, replace(EVENT, round=2))
    ledger.record(replace(EVENT, round=3))
    assert json.loads(path.read_text())["events"][:2] == [json.loads(old % 1), json.loads(old % 2)]
    assert len(Ledger.load(path).events) == 3


def test_record_events_are_read_back_and_their_fields_are_in_the_chain(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = Ledger(path)
    for number in (1, 2, 3):
        ledger.record(replace(RECORD, round=number))
    assert Ledger.load(path).events == ledger.events
    whole, lines = path.read_text(), journal(path).read_text()
    for mine, other in (('"reach": 2', '"reach": 1'), ('"level": "record", ', ""), (', "batches": "fixed"', "")):
        assert mine in lines
        journal(path).write_text(lines.replace(mine, other, 1))
        with pytest.raises(Mistake, match="not a whole ledger"):
            Ledger.load(path)
    journal(path).write_text(lines)
    path.write_text(whole.replace('"steps": 2', '"steps": true'))
    with pytest.raises(Mistake, match="event 1 has steps=True"):
        Ledger.load(path)


def test_one_ledger_holds_one_level(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = Ledger(path)
    ledger.record(RECORD)
    with pytest.raises(Mistake, match="level=client and record are mixed in one ledger"):
        ledger.record(replace(EVENT, round=2))
    assert Ledger.load(path).events == (RECORD,)
    path.write_text(json.dumps({"events": [vars(RECORD), vars(EVENT)], "card": None}))
    with pytest.raises(Mistake, match="mixed in one ledger"):
        Ledger.load(path)


WRITER = """
import sys
from pathlib import Path
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger
ledger = Ledger.load(Path(sys.argv[1]))
for round in range(1, 16):
    with ledger.alone():
        before = len(ledger.events)
        ledger.record(Event(round, 1.0, 0.5, 0.1, "poisson", label=sys.argv[2]))
        assert len(ledger.events) == before + 1
"""


def test_processes_that_share_a_ledger_lose_nothing(tmp_path):
    path = tmp_path / "privacy.json"
    Ledger(path).write_card({})
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, label]) for label in ("update", "vote", "update")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    events = Ledger.load(path).events
    assert len(events) == 45
    for label, times in (("update", 2), ("vote", 1)):
        assert sorted(e.round for e in events if e.label == label) == sorted(times * list(range(1, 16)))


def test_a_ledger_that_lost_events_is_not_gone_on_with(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = Ledger(path)
    ledger.write_card({})
    kept = path.read_bytes()
    with ledger.alone():
        ledger.record(Event(1, 1.0, 0.5, 0.1, "poisson"))
    journal(path).unlink(missing_ok=True)
    path.write_bytes(kept)
    with pytest.raises(Mistake, match="no longer holds the events"), ledger.alone():
        pass
