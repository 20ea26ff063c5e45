"""Rounds that a client has answered: each once, whatever happens to its process."""

import json
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

from hush.data import files
from hush.errors import Mistake, Refused


class Claims:
    """The last round that was answered, of each run, and its charter; with a path, on disk before the answer is made.

    Processes that share the path take turns, and read what the others wrote.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self._lock = path, Lock()
        self._last: dict[str, tuple[str, int]] = {}
        self._read()

    def claim(self, run: str, charter: str, round: int) -> None:
        """Take a round of a run, whose charter has this digest, once, and none before one that was taken."""
        with self._lock, nullcontext() if self.path is None else files.alone(self.path):
            self._read()
            known, last = self._last.get(run, (charter, -1))
            if known != charter:
                raise Refused("this client has answered a run of the same name under another charter: refused")
            if round <= last:
                raise Refused(f"round {round} is not past round {last}, the last that this client answered: refused")
            after = {**self._last, run: (charter, round)}
            if self.path is not None:
                files.write(self.path, json.dumps(after).encode())
            self._last = after

    def last(self, run: str) -> int:
        """The last round of a run that was claimed; 0 if none was."""
        return max(0, self._last.get(run, ("", 0))[1])

    def _read(self) -> None:
        if self.path is None or not self.path.exists():
            return
        try:
            held = json.loads(self.path.read_text())
            found = {str(run): (str(charter), int(last)) for run, (charter, last) in held.items()}
        except (ValueError, AttributeError, TypeError, OSError) as error:
            raise Mistake(f"{self.path} cannot be read ({error}): restore it from a copy") from None
        self._last = found
