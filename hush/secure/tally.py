"""Bytes of every phase, per client, as they were sent."""

import numpy as np

Table = dict[str, dict[str, dict[str, float]]]


class Tally:
    """Bytes up and down of each phase (row) and seat (column)."""

    def __init__(self, phases: tuple[str, ...], clients: int) -> None:
        self.phases = phases
        self.up = np.zeros((len(phases), clients), np.int64)
        self.down = np.zeros((len(phases), clients), np.int64)

    def summary(self) -> Table:
        """Mean over the cohort and the largest, of each phase and of all: {"share": {"up": {"mean": ..}, ..}, ..}."""
        table: Table = {}
        for row, phase in enumerate((*self.phases, "all")):
            table[phase] = {}
            for way, counts in (("up", self.up), ("down", self.down)):
                each = counts.sum(axis=0) if phase == "all" else counts[row]
                table[phase][way] = {"mean": float(each.mean()), "max": float(each.max())}
        return table
