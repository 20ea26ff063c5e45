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
from hush.privacy.ledger import Ledger

EVENT = Event(round=1, noise=1.5, share=0.15, rate=0.1, sampling="poisson", slack=1e-9)


def test_what_is_recorded_is_read_back(tmp_path):
    path = tmp_path / "privacy.json"
    ledger = Ledger(path, {"scheme": "fl-top-dp"})
    ledger.record(replace(EVENT, round=0, label="vote"))
    ledger.record(EVENT)
    ledger.write_card({"guarantee": "client"})
    content = json.loads(path.read_text())
    assert list(content) == ["scheme", "events", "card"]
    again = Ledger.load(path)
    assert again.events == ledger.events
    assert [e.label for e in again.events] == ["vote", "update"]
    assert again.header == {"scheme": "fl-top-dp"}
    assert again.card == {"guarantee": "client"}
    again.record(replace(EVENT, round=2))
    assert Ledger.load(path).events == again.events
    assert Ledger.load(path).card == {"guarantee": "client"}
    assert [p.name for p in tmp_path.iterdir()] == ["privacy.json"]


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
