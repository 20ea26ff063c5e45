"""Bytes as they were packed, per client."""

from typing import NotRequired, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from hush.core.spec import Members
from hush.secure.tally import CARRIERS, Tally

KINDS = ("up payload", "up protocol", "down payload", "down protocol")
WAYS = ("up", "down")
Counts = npt.NDArray[np.int64]
Part = dict[str, dict[str, float]]


class Bytes(TypedDict):
    """{"up": {"payload": {"mean": .., "max": ..}, "protocol": ..}, "down": ..}, and of secure sums each phase."""

    up: Part
    down: Part
    phases: NotRequired[dict[str, Part]]


class Sized(Protocol):
    """What is counted of a message."""

    @property
    def payload(self) -> int: ...
    @property
    def protocol(self) -> int: ...


class Traffic:
    """Bytes up and down, payload and protocol, of every registered client since the start.

    A message is noted first and counted with the next `settle`, which costs O(its clients): a round that
    fails is discarded whole, and several threads may note at once. Reading counts nothing: what was noted may still be
    discarded. What phases of secure sums took is counted once more, by phase.
    """

    def __init__(self, clients: int, counts: Counts | None = None, phases: dict[str, Counts] | None = None) -> None:
        self.clients = clients
        self._counts = np.zeros((len(KINDS), clients), np.int64) if counts is None else counts
        self._kinds = [_Row(row) for row in self._counts]
        self._phases = {} if phases is None else phases
        self._by_phase = {name: [_Row(row) for row in both] for name, both in self._phases.items()}
        self._noted: list[tuple[int, Members, tuple[int, int]]] = []
        self._sums: list[tuple[Members, dict[str, Counts], Counts]] = []

    def down(self, members: Members, message: Sized) -> None:
        """A message that went to each of the members."""
        self._noted.append((2, members, (message.payload, message.protocol)))

    def up(self, members: Members, message: Sized) -> None:
        """A message of this size that came from each of the members."""
        self._noted.append((0, members, (message.payload, message.protocol)))

    def summed(self, members: Members, tally: Tally, payload: int) -> None:
        """The messages of a secure sum; `payload` of what a member sent with its numbers is these, packed.

        Members are in the order of their seats. All that is not payload is protocol.
        """
        carried = next(row for row, phase in enumerate(tally.phases) if phase in CARRIERS)
        sent = np.minimum(tally.up[carried], payload)
        kinds = np.stack([sent, tally.up.sum(axis=0) - sent, np.zeros_like(sent), tally.down.sum(axis=0)])
        both = {phase: np.stack([tally.up[row], tally.down[row]]) for row, phase in enumerate(tally.phases)}
        self._sums.append((members, both, kinds))

    def settle(self) -> None:
        """Count what was noted."""
        noted, self._noted = self._noted, []
        for first, members, sizes in noted:
            for kind, size in enumerate(sizes, first):
                self._kinds[kind].add(members, size)
        sums, self._sums = self._sums, []
        for members, phases, kinds in sums:
            for kind, each in enumerate(kinds):
                self._kinds[kind].add(members, each)
            for phase, both in phases.items():
                if phase not in self._phases:
                    self._phases[phase] = np.zeros((len(WAYS), self.clients), np.int64)
                    self._by_phase[phase] = [_Row(row) for row in self._phases[phase]]
                for row, each in zip(self._by_phase[phase], both, strict=True):
                    row.add(members, each)

    def discard(self) -> None:
        """Forget what was noted and not yet counted."""
        self._noted, self._sums = [], []

    @property
    def counts(self) -> Counts:
        """The bytes of each kind (row) and client (column), as of the last `settle`."""
        return self._counts

    @property
    def phases(self) -> dict[str, Counts]:
        """Of each phase of secure sums, in order: the bytes up and down (rows) of each client (column)."""
        return self._phases

    def copy(self) -> "Traffic":
        """What was counted so far, to go on separately."""
        return Traffic(self.clients, self.counts.copy(), {name: both.copy() for name, both in self.phases.items()})

    def summary(self) -> Bytes:
        """Mean over all registered clients and the largest, by direction and kind, and by phase where there are any."""
        parts = [row.summary() for row in self._kinds]
        table: Bytes = {
            "up": {"payload": parts[0], "protocol": parts[1]},
            "down": {"payload": parts[2], "protocol": parts[3]},
        }
        if self._by_phase:
            table["phases"] = {
                name: {way: row.summary() for way, row in zip(WAYS, rows, strict=True)}
                for name, rows in self._by_phase.items()
            }
        return table


class _Row:
    """Counts of each client, with their sum and the largest kept up to date."""

    def __init__(self, counts: Counts) -> None:
        self.counts, self.total, self.largest = counts, int(counts.sum()), int(counts.max(initial=0))

    def add(self, members: Members, size: int | Counts) -> None:
        """The same size for each of the members, or a size each."""
        if len(members) and np.any(size):
            before = self.counts[members]
            after = self.counts[members] = before + size
            self.total += int((after - before).sum())
            self.largest = max(self.largest, int(after.max()))

    def summary(self) -> dict[str, float]:
        """Mean and largest."""
        return {"mean": self.total / self.counts.size, "max": self.largest}
