"""Bytes as they were packed, per client."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from hush.spec import Members

KINDS = ("up payload", "up protocol", "down payload", "down protocol")
Counts = npt.NDArray[np.int64]
Bytes = dict[str, dict[str, dict[str, float]]]


class Message(Protocol):
    """What is counted of a message."""

    @property
    def payload(self) -> int: ...
    @property
    def protocol(self) -> int: ...


class Traffic:
    """Bytes up and down, payload and protocol, of every registered client since the start.

    A message is noted first and counted with the next `settle`, which costs O(its clients): a round that
    fails is discarded whole, and several threads may note at once.
    """

    def __init__(self, clients: int, counts: Counts | None = None) -> None:
        self.clients = clients
        self._counts = np.zeros((len(KINDS), clients), np.int64) if counts is None else counts
        self._totals = [int(row.sum()) for row in self._counts]
        self._largest = [int(row.max(initial=0)) for row in self._counts]
        self._noted: list[tuple[int, Members, tuple[int, int]]] = []

    def down(self, members: Members, message: Message) -> None:
        """A message that went to each of the members."""
        self._noted.append((2, members, (message.payload, message.protocol)))

    def up(self, members: Members, message: Message) -> None:
        """A message of this size that came from each of the members."""
        self._noted.append((0, members, (message.payload, message.protocol)))

    def settle(self) -> None:
        """Count what was noted."""
        noted, self._noted = self._noted, []
        for first, members, sizes in noted:
            for kind, size in enumerate(sizes, first):
                if len(members) and size:
                    row = self._counts[kind]
                    sums = row[members] + size
                    row[members] = sums
                    self._totals[kind] += size * len(members)
                    self._largest[kind] = max(self._largest[kind], int(sums.max()))

    def discard(self) -> None:
        """Forget what was noted and not yet counted."""
        self._noted = []

    @property
    def counts(self) -> Counts:
        """The bytes of each kind (row) and client (column)."""
        self.settle()
        return self._counts

    def summary(self) -> Bytes:
        """Mean over all registered clients and the largest, by direction and kind."""
        self.settle()
        table: Bytes = {"up": {}, "down": {}}
        for kind, total, largest in zip(KINDS, self._totals, self._largest, strict=True):
            direction, part = kind.split()
            table[direction][part] = {"mean": total / self.clients, "max": largest}
        return table
