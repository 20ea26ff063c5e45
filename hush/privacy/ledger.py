"""The record of what a run has released, on disk before each release leaves."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from hush import files
from hush.errors import Mistake
from hush.privacy.events import Event

_RESERVED = ("events", "card")
_KINDS: dict[str, type | tuple[type, ...]] = {
    "round": int,
    "noise": (int, float),
    "share": (int, float),
    "rate": (int, float),
    "sampling": str,
    "slack": (int, float),
    "label": str,
}


class Ledger:
    """Events in order, and the card of the run; with a path, a JSON file that is replaced as a whole.

    Guarantee: when `record` returns, the event is on disk. A process that dies at any moment leaves a
    complete file that holds at least what was released.
    """

    def __init__(self, path: Path | None = None, header: Mapping[str, object] | None = None) -> None:
        self.path = path
        self.header = dict(header or {})
        for key in _RESERVED:
            if key in self.header:
                raise Mistake(f"header key {key} belongs to the ledger itself: choose another name")
        self.events: tuple[Event, ...] = ()
        self.card: dict[str, Any] | None = None

    @classmethod
    def load(cls, path: Path) -> "Ledger":
        """Read a ledger back; it goes on writing to the same file."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise Mistake(f"{path} cannot be read ({error.strerror}): name the folder of a run") from None
        except ValueError as error:
            raise _corrupt(path, str(error)) from None
        if not isinstance(content, dict) or not isinstance(content.get("events"), list):
            raise _corrupt(path, "it holds no list of events")
        card = content.get("card")
        if card is not None and not isinstance(card, dict):
            raise _corrupt(path, "its card is not an object")
        ledger = cls(path, {key: value for key, value in content.items() if key not in _RESERVED})
        ledger.events = tuple(_event(path, number, item) for number, item in enumerate(content["events"], 1))
        ledger.card = card
        return ledger

    def record(self, event: Event, replay: bool = False) -> None:
        """Append an event before its release.

        replay: a resumed simulation repeats a round with the same seeds; the very same event was paid for
        already and is not counted twice. Without replay every release counts.
        """
        if replay:
            known = [e for e in self.events if (e.round, e.label) == (event.round, event.label)]
            if event in known:
                return
            if known:
                raise Mistake(
                    f"round={event.round} was recorded with another {event.label} event: "
                    "resume with the configuration that the run began with"
                )
        self._write((*self.events, event), self.card)

    def write_card(self, card: Mapping[str, Any]) -> None:
        """Add the run's card, or replace it."""
        self._write(self.events, dict(card))

    def _write(self, events: tuple[Event, ...], card: dict[str, Any] | None) -> None:
        if self.path is not None:
            content = {**self.header, "events": [asdict(e) for e in events], "card": card}
            files.write(self.path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
        self.events, self.card = events, card


def _event(path: Path, number: int, item: object) -> Event:
    if not isinstance(item, dict) or set(item) != {field.name for field in fields(Event)}:
        raise _corrupt(path, f"event {number} has not the fields of an event")
    for name, kind in _KINDS.items():
        if not isinstance(item[name], kind) or isinstance(item[name], bool):
            raise _corrupt(path, f"event {number} has {name}={item[name]!r}")
    try:
        return Event(**item)
    except Mistake as mistake:
        raise _corrupt(path, f"event {number}: {mistake}") from None


def _corrupt(path: Path, reason: str) -> Mistake:
    return Mistake(f"{path} is not a whole ledger ({reason}): restore it from a copy or start a new run")
