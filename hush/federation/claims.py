"""Rounds that a client has answered: each once, whatever happens to its process."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from hush.data import files
from hush.errors import Mistake, Refused


class Claims:
    """The last round that was answered, of each run; with a path, on disk before the answer is made.

    Processes that share the path take turns, and read what the others wrote.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self._lock = path, Lock()
        self._last: dict[str, int] = {}
        self._read()

    def claim(self, run: str, round: int) -> None:
        """Take a round, once, and none before one that was taken."""
        with self._lock, self._alone():
            self._read()
            last = self._last.get(run, -1)
            if round <= last:
                raise Refused(f"round {round} is not past round {last}, the last that this client answered: refused")
            after = {**self._last, run: round}
            if self.path is not None:
                files.write(self.path, json.dumps(after).encode())
            self._last = after

    def _read(self) -> None:
        if self.path is None or not self.path.exists():
            return
        try:
            found = {str(run): int(last) for run, last in json.loads(self.path.read_text()).items()}
        except (ValueError, AttributeError, TypeError, OSError) as error:
            raise Mistake(f"{self.path} cannot be read ({error}): restore it from a copy") from None
        self._last = found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process claims meanwhile."""
        if self.path is None:
            yield
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f"{self.path.name}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
