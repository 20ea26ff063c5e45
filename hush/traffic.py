"""Bytes as they were packed, per client."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hush.spec import Members
from hush.wire import Message

KINDS = ("up payload", "up protocol", "down payload", "down protocol")
Bytes = dict[str, dict[str, dict[str, float]]]


@dataclass
class Traffic:
    """Bytes up and down, payload and protocol, of every registered client since the start."""

    clients: int
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    totals: list[int] = field(default_factory=lambda: [0] * len(KINDS))
    largest: list[int] = field(default_factory=lambda: [0] * len(KINDS))

    def __post_init__(self) -> None:
        if self.counts.size == 0:
            self.counts = np.zeros((len(KINDS), self.clients), np.int64)
        self.totals = [int(row.sum()) for row in self.counts]
        self.largest = [int(row.max(initial=0)) for row in self.counts]

    def down(self, members: Members, message: Message) -> None:
        """A message that went to each of the members."""
        self._add(members, 2, message)

    def up(self, members: Members, message: Message) -> None:
        """A message of this size that came from each of the members."""
        self._add(members, 0, message)

    def _add(self, members: Members, first: int, message: Message) -> None:
        for kind, size in ((first, message.payload), (first + 1, message.protocol)):
            if len(members):
                self.counts[kind, members] += size
                self.totals[kind] += size * len(members)
                self.largest[kind] = max(self.largest[kind], int(self.counts[kind, members].max()))

    def summary(self) -> Bytes:
        """Mean over all registered clients and the largest, by direction and kind."""
        table: Bytes = {"up": {}, "down": {}}
        for kind, total, largest in zip(KINDS, self.totals, self.largest, strict=True):
            direction, part = kind.split()
            table[direction][part] = {"mean": total / self.clients, "max": largest}
        return table
