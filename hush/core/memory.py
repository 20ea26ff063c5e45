"""What clients keep between rounds: one row of numbers each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hush.errors import Mistake

Members = npt.NDArray[np.int64]  # as in hush.core.spec, which needs this module


class Memory:
    """One row per client, of those that have kept one. In a deployment it stays with the client.

    What is noted in a round is kept with `settle`: a round that fails is discarded whole, and several threads
    may note at once. Rows are never changed in place. All rows have one length.
    """

    def __init__(self, kept: Mapping[int, Tensor] | None = None) -> None:
        self._kept = dict(kept or {})
        self._noted: list[dict[int, Tensor]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def rows(self, clients: Members, size: int) -> Tensor:
        """A copy of what these clients kept, zeros where there is nothing yet."""
        self._check(size)
        found = torch.zeros(len(clients), size)
        for row, client in zip(found, clients.tolist(), strict=True):
            kept = self._kept.get(client)
            if kept is not None:
                row.copy_(kept)
        return found

    def note(self, clients: Members, rows: Tensor) -> None:
        """What these clients are to keep of this round."""
        if len(rows) != len(clients):
            raise Mistake(f"{len(rows)} rows for {len(clients)} clients: give one for each to keep")
        self._check(rows.shape[1])
        # Each row for itself: a view would hold on to all rows of its block.
        own = rows.to(torch.float32)
        self._noted.append({client: row.clone() for client, row in zip(clients.tolist(), own, strict=True)})

    def forget(self, clients: Members) -> None:
        """These clients keep what they had: nothing of this round counts for them."""
        gone = set(clients.tolist())
        self._noted = [{k: row for k, row in note.items() if k not in gone} for note in self._noted]

    def own(self, *clients: int) -> "Memory":
        """A memory with the rows of these clients alone: what is on the machine that they are on."""
        return Memory({client: self._kept[client].clone() for client in clients if client in self._kept})

    def take_over(self, own: "Memory") -> None:
        """Note what some clients' own memory has noted."""
        self._noted += own._noted

    def settled(self) -> "Memory":
        """A memory as this one would be, were what is noted kept."""
        found = self.copy()
        found.take_over(self)
        found.settle()
        return found

    @property
    def noted(self) -> bool:
        """Whether there is anything to keep or to discard."""
        return any(self._noted)

    def settle(self) -> None:
        """Keep what was noted."""
        noted, self._noted = self._noted, []
        for rows in noted:
            self._kept.update(rows)

    def discard(self) -> None:
        """Forget what was noted and not yet kept."""
        self._noted = []

    def copy(self) -> "Memory":
        """A memory of its own, with what is kept so far."""
        return Memory(self._kept)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What is kept as arrays, for a checkpoint: clients, ascending, and their rows; none while nothing is kept."""
        if not self._kept:
            return {}
        clients = sorted(self._kept)
        rows = torch.stack([self._kept[client] for client in clients]).numpy()
        return {"clients": np.array(clients, np.int64), "rows": rows}

    @classmethod
    def of(cls, state: Mapping[str, npt.NDArray[Any]]) -> "Memory":
        """The memory that `state` described, with rows of its own."""
        memory = cls()
        if state:
            memory.note(state["clients"], torch.from_numpy(state["rows"]))
            memory.settle()
        return memory

    def _check(self, size: int) -> None:
        for known in (self._kept, *self._noted[:1]):
            length = next((row.numel() for row in known.values()), size)
            if length != size:
                raise Mistake(
                    f"size={size} is not the {length} numbers that each client keeps: another model or other"
                    " coordinates need a run of their own"
                )


@dataclass(frozen=True)
class Kept:
    """What some clients keep, and nothing of others: client i's row is that of the name `names[i]`."""

    memory: Memory
    names: tuple[int, ...]

    def rows(self, size: int) -> Tensor:
        """A copy of what these clients kept, zeros where there is nothing yet."""
        return self.memory.rows(np.array(self.names, np.int64), size)

    def note(self, rows: Tensor) -> None:
        """What these clients are to keep of this round."""
        self.memory.note(np.array(self.names, np.int64), rows)

    def pick(self, places: Sequence[int]) -> "Kept":
        """That of some of them."""
        return Kept(self.memory, tuple(self.names[place] for place in places))
