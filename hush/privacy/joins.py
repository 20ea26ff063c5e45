"""Whose records were used in which rounds, and from that the worst and the middle client's epsilon."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon
from hush.privacy.events import Event, replaced
from hush.privacy.tally import Floats, Members

Counts = npt.NDArray[np.int64]
_GRID = 9  # at so many probabilities epsilon is computed to rank the clients, whose own lie between
_LADDER = sorted({0, *(round(2 ** (i / 2)) for i in range(47))})  # and at so many rounds


class Charge(NamedTuple):
    """What a round takes of a record of a client that is known to be in it."""

    noise: float  # multiplier, over all that one record moves
    steps: int
    batch: float  # see Event: the probability of a record of the smallest client
    mirrored: bool


class Joins:
    """The rounds that each client's records were used in, and their probabilities to be in a batch of their client.

    A round costs O(its clients). Rounds are kept in order, so that `at` can say how things stood after each one.
    probabilities: one per client; without them every record counts as one of the smallest client.
    """

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self._probabilities: Floats | None = None
        self._before: dict[Charge, Counts] = {}  # of a checkpoint
        self._rounds: list[tuple[Charge, Members]] = []

    @property
    def probabilities(self) -> Floats | None:
        """The largest probability of a record of each client to be in one batch: public, and the same in all rounds."""
        return self._probabilities

    @probabilities.setter
    def probabilities(self, values: npt.ArrayLike) -> None:
        found = np.array(values, np.float64)
        if found.shape != (self.clients,) or not (found > 0).all() or not (found <= 1).all():
            raise Mistake(f"probabilities must be {self.clients} numbers in (0, 1], one per client: take batch/records")
        if self and self._probabilities is not None and not np.array_equal(found, self._probabilities):
            raise Mistake("probabilities differ from those of the rounds so far: go on with the same data and batches")
        self._probabilities = found

    def __bool__(self) -> bool:
        return bool(self._before or self._rounds)

    def add(self, event: Event, members: Members) -> None:
        """Charge a round's event to the clients that took part in it."""
        noise = event.noise / (event.reach * replaced(event.batches))
        self._rounds.append((Charge(noise, event.steps, event.batch, event.batches == "fixed"), members))

    def at(self) -> "Joined":
        """How things stand now."""
        return Joined(self, len(self._rounds))

    def counts(self, rounds: int | None = None) -> dict[Charge, Counts]:
        """How often each client was charged, by charge, after the first `rounds` since the checkpoint."""
        found = {charge: counts.copy() for charge, counts in self._before.items()}
        for charge, members in self._rounds[:rounds]:
            found.setdefault(charge, np.zeros(self.clients, np.int64))[members] += 1
        return found

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a checkpoint; none without records."""
        found: dict[str, npt.NDArray[Any]] = (
            {} if self._probabilities is None else {"probabilities": self._probabilities}
        )
        counts = self.counts()
        if counts:
            found |= {"charges": np.array(list(counts), np.float64), "charged clients": np.stack(list(counts.values()))}
        return found

    @classmethod
    def of(cls, clients: int, state: Mapping[str, npt.ArrayLike]) -> "Joins":
        """What `state` described."""
        joins = cls(clients)
        if "probabilities" in state:
            joins.probabilities = state["probabilities"]
        if "charges" in state:
            rows = zip(np.asarray(state["charges"]), np.array(state["charged clients"], np.int64), strict=True)
            for (noise, steps, batch, mirrored), counts in rows:
                joins._before[Charge(float(noise), int(steps), float(batch), bool(mirrored))] = counts
        return joins


@dataclass(frozen=True)
class Joined:
    """What was spent on each client's records up to some round, against someone who knows who took part."""

    joins: Joins
    rounds: int

    def epsilons(self, delta: float, accountant: str = "pld") -> tuple[float, float]:
        """The epsilon of the worst client, and of the median over all of them (the higher of two middle ones).

        A client pays for (rounds joined * steps) releases at its own probability, and epsilon grows with both. So the
        worst one is among those that no other exceeds in both. For the median the clients are ranked by about
        their epsilon, and the largest one of the lower half and one more is stated: whatever the ranking, that is
        never below the median.
        """
        counts = self.joins.counts(self.rounds)
        if not counts:
            return 0.0, 0.0
        charges, table = tuple(counts), np.stack(list(counts.values()))
        probabilities = self.joins.probabilities
        if probabilities is None:
            probabilities = np.full(self.joins.clients, max(charge.batch for charge in charges))
        rates = np.stack([_rates(charge, probabilities) for charge in charges])
        middle = len(probabilities) // 2
        lower = np.argpartition(_ranks(charges, table, rates, delta, accountant), middle)[: middle + 1]
        everybody = np.arange(len(probabilities))
        worst, median = (_worst(charges, table[:, w], rates[:, w], delta, accountant) for w in (everybody, lower))
        return worst, median


def _rates(charge: Charge, probabilities: Floats) -> Floats:
    """The clients' probabilities in a charge. One of other batches (another run) counts as if all were smallest."""
    largest = float(probabilities.max())
    if not math.isclose(charge.batch, largest, rel_tol=1e-5):
        return np.full(len(probabilities), charge.batch)
    return np.minimum(1.0, probabilities * (charge.batch / largest))


def _worst(charges: Sequence[Charge], table: Counts, rates: Floats, delta: float, accountant: str) -> float:
    """The largest epsilon of these clients: of equal counts the largest probability, of these what none exceeds."""
    vectors, where = np.unique(table, axis=1, return_inverse=True)
    best = np.zeros((len(charges), vectors.shape[1]))
    for row, rate in zip(best, rates, strict=True):
        np.maximum.at(row, where.reshape(-1), rate)
    points = np.concatenate([vectors, best])
    front = [
        p for p in points.T if np.count_nonzero((points >= p[:, None]).all(axis=0)) == 1 and p[: len(charges)].any()
    ]
    return max((_client(_releases(charges, p), delta, accountant) for p in front), default=0.0)


def _releases(charges: Sequence[Charge], point: Floats) -> tuple[Release, ...]:
    counts, rates = np.split(point, 2)
    return tuple(
        Release(c.noise, float(rate), int(count) * c.steps, c.mirrored)
        for c, count, rate in zip(charges, counts, rates, strict=True)
        if count
    )


@lru_cache(maxsize=4096)
def _client(releases: tuple[Release, ...], delta: float, accountant: str) -> float:
    return epsilon(releases, delta, accountant)


def _ranks(charges: Sequence[Charge], table: Counts, rates: Floats, delta: float, accountant: str) -> Floats:
    """About each client's epsilon, for the order alone: interpolated; of several charges, their root of squares."""
    squares = np.zeros(table.shape[1])
    for charge, counts, rate in zip(charges, table, rates, strict=True):
        grid = np.unique(np.geomspace(rate.min(), rate.max(), _GRID)) if rate.min() < rate.max() else rate[:1]
        steps = _LADDER[: int(np.searchsorted(_LADDER, counts.max())) + 1]
        rows = [np.interp(rate, grid, [_known(charge, n, p, delta, accountant) for p in grid]) for n in steps]
        above = np.searchsorted(steps, counts).clip(1)
        low, high = np.array(steps)[above - 1], np.array(steps)[above]
        share = (counts - low) / (high - low)
        columns = np.arange(len(counts))
        about = np.minimum(np.stack(rows), 1e100)  # without noise it is infinite
        squares += ((1 - share) * about[above - 1, columns] + share * about[above, columns]) ** 2
    return squares


def _known(charge: Charge, rounds: int, rate: float, delta: float, accountant: str) -> float:
    """Epsilon of a client that joined so many rounds."""
    if rounds == 0:
        return 0.0
    count = min(rounds * charge.steps, 10**7)
    return _client((Release(charge.noise, min(1.0, float(rate)), count, charge.mirrored),), delta, accountant)
