"""Sums per client that only grow, with their largest and their median always at hand."""

import heapq
from collections import Counter

import numpy as np
import numpy.typing as npt

Members = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Costs:
    """One sum per client. An addition costs O(its clients), whatever the population and the past.

    The median is the higher of two middle clients. Sums never shrink, so it only moves up: the clients at
    or below it are counted, and the sums above it wait in a heap, equal ones together.
    """

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.largest = float(values.max())
        self.median = float(np.partition(values, len(values) // 2)[len(values) // 2])
        found, counts = np.unique(values[values > self.median], return_counts=True)
        self._within = len(values) - int(counts.sum())  # clients at or below the median
        self._above: dict[float, int] = dict(zip(found.tolist(), counts.tolist(), strict=True))
        self._heap: list[float] = found.tolist()  # in order, so a heap; it may also hold sums that are gone

    def add(self, members: Members, amount: float) -> None:
        """Add to the sums of these clients, each named once; the amount is not negative."""
        if not members.size:
            return
        before = self.values[members]
        after = before + amount
        self.values[members] = after
        self.largest = max(self.largest, float(after.max()))
        was, now = before > self.median, after > self.median
        self._leave(before[was])
        self._within -= int(np.count_nonzero(now) - np.count_nonzero(was))
        self._enter(after[now])
        while self._within <= len(self.values) // 2:
            self._rise()

    def _leave(self, sums: Floats) -> None:
        for value, count in Counter(sums.tolist()).items():
            self._above[value] -= count
            if not self._above[value]:
                del self._above[value]

    def _enter(self, sums: Floats) -> None:
        for value, count in Counter(sums.tolist()).items():
            if value not in self._above:
                heapq.heappush(self._heap, value)
            self._above[value] = self._above.get(value, 0) + count
        if len(self._heap) > 2 * len(self._above) + 1000:
            self._heap = sorted(self._above)

    def _rise(self) -> None:
        """The median goes on to the next sum that somebody has."""
        value = heapq.heappop(self._heap)
        count = self._above.pop(value, 0)  # 0: nobody has it any more
        if count:
            self.median = value
            self._within += count
