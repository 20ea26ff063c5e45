"""`--log-to`: which tracker, its place for this run, and each round once, however often the run was stopped."""

import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from hush.data import files
from hush.errors import Mistake
from hush.experiment.settings import Config
from hush.experiment.trackers.public import figures, settings

# By the word before the colon: the package that it needs, which is also the name of the extra and of the module here.
KINDS = {"tensorboard": "tensorboard", "mlflow": "mlflow"}
KEPT = "trackers.json"  # in a run's directory: where each tracker has it


class Lost(Exception):
    """A tracker that cannot be reached or written; the sentence says why."""


class Tracker(Protocol):
    """One run at one tracker. What fails in it is `Lost`."""

    name: str  # what finds this run there again
    last: int  # the last round that it has, 0 at first

    def begin(self, chosen: dict[str, str]) -> None:
        """The settings of the run, once."""

    def put(self, number: int, found: dict[str, float]) -> None:
        """The figures of a round."""

    def close(self) -> None:
        """Nothing more comes."""


def check(words: list[str]) -> None:
    """Refuse what cannot be a tracker here, before anything is loaded."""
    for word in words:
        kind, _, place = word.partition(":")
        if kind not in KINDS or not place:
            known = " or ".join(f"{one}:DIR" for one in KINDS)
            raise Mistake(f"--log-to {word} names no tracker: write {known}, or mlflow:URI")
        if "@" in urlsplit(place).netloc:
            raise Mistake(
                f"--log-to {kind}: the address has a user or a password, which a run's directory would keep: give them"
                " in the environment (MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD)"
            )
        if find_spec(KINDS[kind]) is None:
            raise Mistake(f"--log-to {word} needs a package that is not installed: pip install 'hush-fl[{kind}]'")


class Feed:
    """The rows of a run's directory on their way to its trackers."""

    def __init__(self, words: list[str], path: Path, name: str, config: Config, say: Callable[[str], None]) -> None:
        self.path, self.say, self.begun = path, say, False
        self.trackers: dict[str, Tracker] = {}
        kept = path / KEPT
        known: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
        for word in words:
            kind, _, place = word.partition(":")
            opened = import_module(f"hush.experiment.trackers.{KINDS[kind]}").opened
            try:
                tracker: Tracker = opened(place, name, known.get(word))
                if word not in known:
                    tracker.begin(settings(config))
            except Lost as error:
                raise Mistake(f"--log-to {word} cannot be written ({error}): correct it, or leave it out") from None
            self.trackers[word], known[word] = tracker, tracker.name
        if words:
            files.write(kept, json.dumps(known).encode())

    def put(self, row: dict[str, Any]) -> None:
        """A round that is in rounds.jsonl, and before it those that a tracker has not got."""
        if not self.begun:
            self._catch_up()
        self._put(row)

    def close(self) -> None:
        """After the last round; a run that was finished before may still be new to a tracker."""
        self._catch_up()
        for word in list(self.trackers):
            self._try(word, lambda one: one.close())

    def _catch_up(self) -> None:
        self.begun, log = True, self.path / "rounds.jsonl"
        if self.trackers and log.exists():
            for line in log.read_text().splitlines():
                self._put(json.loads(line))

    def _put(self, row: dict[str, Any]) -> None:
        number = row["round"]
        for word, tracker in list(self.trackers.items()):
            if number > tracker.last:
                self._try(word, lambda one: one.put(number, figures(row)))
                tracker.last = number

    def _try(self, word: str, call: Callable[[Tracker], None]) -> None:
        """A tracker that fails is left behind: the training goes on."""
        try:
            call(self.trackers[word])
        except Lost as error:
            del self.trackers[word]
            self.say(f"{word} is lost ({error}): the run goes on; --resume with --log-to adds the missing rounds")
