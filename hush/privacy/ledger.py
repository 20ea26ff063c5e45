"""The record of what a run has released, on disk before each release leaves."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from threading import RLock
from typing import Any

from hush.data import files
from hush.errors import Mistake
from hush.privacy.events import Event, only_level

_RESERVED = ("events", "chain", "card")
_FIRST = ("round", "noise", "share", "rate", "sampling", "slack", "label")
_KINDS: dict[str, type | tuple[type, ...]] = {
    "round": int,
    "noise": (int, float),
    "share": (int, float),
    "rate": (int, float),
    "sampling": str,
    "slack": (int, float),
    "label": str,
    "level": str,
    "steps": int,
    "batch": (int, float),
    "reach": int,
    "batches": str,
    "server": (int, float, type(None)),
    "colluding": (int, float, type(None)),
}
_ONE = RLock()  # threads that share a ledger take turns; one for all, so that ledgers can be copied
# Fields that came later are left out at their default, so that older ledgers keep their chain.
_LATER = {field.name: field.default for field in fields(Event) if field.name not in _FIRST}


class Ledger:
    """Events in order, and the card of the run; with a path, a JSON file and a journal beside it.

    The file is replaced as a whole with the first event of a process and with each card. Events in between
    are appended to the journal (privacy.jsonl beside privacy.json), a line each, so that an event costs the
    same however many there are. A running SHA-256 over all events detects a file or a journal that was
    changed, or shortened anywhere but at the end of the journal.
    Guarantee: when `record` returns, the event is on disk. A process that dies at any moment leaves a
    complete record of at least what was released.
    """

    def __init__(self, path: Path | None = None, header: Mapping[str, object] | None = None) -> None:
        self.path = path
        self.header = dict(header or {})
        for key in _RESERVED:
            if key in self.header:
                raise Mistake(f"header key {key} belongs to the ledger itself: choose another name")
        self.card: dict[str, Any] | None = None
        self._events: list[Event] = []
        self._places: dict[tuple[int, str], list[Event]] = {}
        self._chain = b""
        self._known = False  # whether what stands at the path is in this object
        self._whole = False  # whether this process wrote the file: only then may a line follow it

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, oldest first."""
        return tuple(self._events)

    @classmethod
    def load(cls, path: Path) -> "Ledger":
        """Read a ledger back; it goes on writing to the same file."""
        # The journal first: should a live run replace the file meanwhile, the file only holds more.
        lines = _lines(journal(path))
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
        ledger.card, ledger._known = card, True
        seals = [ledger._read(_event(path, number, item)) for number, item in enumerate(content["events"], 1)]
        if content.get("chain", ledger._chain.hex()) != ledger._chain.hex():
            raise _corrupt(path, "its events are not those that were written")
        for number, item, seal in lines:
            event = _event(journal(path), number, item)
            if number == len(seals) + 1:
                seals.append(ledger._read(event))
            # A line that the file has taken up was left by a process killed in between.
            if not 1 <= number <= len(seals) or (event, seal) != (ledger._events[number - 1], seals[number - 1]):
                raise _corrupt(journal(path), f"event {number} does not follow those before it")
        only_level(ledger._events)
        return ledger

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes to it meanwhile, in this process or another, and what others wrote is read first.

        For whoever decides by what the ledger holds and shares the file: the federations of one client.
        """
        with _ONE, nullcontext() if self.path is None else files.alone(self.path):
            if self._known and self.path is not None:
                self._read_on(Ledger.load(self.path))
            yield

    def _read_on(self, found: "Ledger") -> None:
        """Take up what others have added to the file."""
        if found._chain == self._chain:
            return
        if found._events[: len(self._events)] != self._events:
            raise Mistake(f"{self.path} no longer holds the events that were written to it: restore it from a copy")
        self.card, self._events, self._places, self._chain = found.card, found._events, found._places, found._chain
        self._whole = False  # another process wrote last: its last line may be cut short

    def record(self, event: Event, replay: bool = False) -> None:
        """Append an event before its release.

        replay: a resumed simulation repeats a round with the same seeds; the very same event was paid for
        already and is not counted twice. Without replay every release counts.
        """
        if replay:
            known = self._places.get((event.round, event.label), [])
            if event in known:
                return
            if known:
                raise Mistake(
                    f"round={event.round} was recorded with another {event.label} event: "
                    "resume with the configuration that the run began with"
                )
        only_level([*self._events[:1], event])
        chain = _chained(self._chain, event)
        if self.path is not None and self._whole:
            line = {"number": len(self._events) + 1, "event": _entry(event), "chain": chain.hex()}
            self._whole = False  # unless the line arrives whole
            files.append(journal(self.path), (json.dumps(line, allow_nan=False) + "\n").encode())
            self._whole = True
        else:
            self._write([*self._events, event], chain.hex(), self.card)
        self._add(event, chain)

    def write_card(self, card: Mapping[str, Any]) -> None:
        """Add the run's card, or replace it."""
        self._write(self._events, self._chain.hex(), dict(card))
        self.card = dict(card)

    def _write(self, events: list[Event], chain: str, card: dict[str, Any] | None) -> None:
        if self.path is None:
            return
        if not self._known and (self.path.exists() or journal(self.path).exists()):
            raise Mistake(f"{self.path} holds a ledger already: go on with Ledger.load, or choose another path")
        content = {**self.header, "events": [_entry(e) for e in events], "chain": chain, "card": card}
        files.write(self.path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
        self._known = self._whole = True
        journal(self.path).unlink(missing_ok=True)

    def _read(self, event: Event) -> str:
        self._add(event, _chained(self._chain, event))
        return self._chain.hex()

    def _add(self, event: Event, chain: bytes) -> None:
        self._events.append(event)
        self._places.setdefault((event.round, event.label), []).append(event)
        self._chain = chain


def journal(path: Path) -> Path:
    """Where the events are that came after the ledger's file was last written."""
    return path.with_name(path.name + "l")


def _lines(path: Path) -> list[tuple[int, object, object]]:
    """Number, event and chain of each line. A last line cut short was never answered for: it is left out."""
    *lines, tail = path.read_bytes().split(b"\n") if path.exists() else [b""]
    found = [_line(path, line) for line in lines]
    try:
        return [*found, _line(path, tail)]
    except Mistake:
        return found


def _line(path: Path, line: bytes) -> tuple[int, object, object]:
    try:
        content = json.loads(line)
        return int(content["number"]), content["event"], content["chain"]
    except (ValueError, KeyError, TypeError):
        raise _corrupt(path, "a line of it is no event") from None


def _chained(chain: bytes, event: Event) -> bytes:
    return hashlib.sha256(chain + json.dumps(_entry(event), sort_keys=True).encode()).digest()


def _entry(event: Event) -> dict[str, Any]:
    """The event as it is written and hashed."""
    return {name: value for name, value in vars(event).items() if name not in _LATER or value != _LATER[name]}


def _event(path: Path, number: int, item: object) -> Event:
    if not isinstance(item, dict) or not set(_FIRST) <= set(item) <= set(_KINDS):
        raise _corrupt(path, f"event {number} has not the fields of an event")
    for name, value in item.items():
        if not isinstance(value, _KINDS[name]) or isinstance(value, bool):
            raise _corrupt(path, f"event {number} has {name}={value!r}")
    try:
        return Event(**item)
    except Mistake as mistake:
        raise _corrupt(path, f"event {number}: {mistake}") from None


def _corrupt(path: Path, reason: str) -> Mistake:
    return Mistake(f"{path} is not a whole ledger ({reason}): restore it from a copy or start a new run")
