"""Epsilon per adversary: who sees the models, who runs the server, who reads single uploads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon, gaussian_epsilon
from hush.privacy.events import Event, Kind, counted_releases, kinds, only_sampling, reach
from hush.privacy.tally import Floats, Members, Tally


class Participation:
    """Per client, the sum of (1/multiplier)^2 over the rounds it took part in.

    server counts the noise of the whole sum, upload the client's own share, rounds the updates joined.
    Known cohorts leave plain Gaussians, and these compose to one Gaussian at mu = sqrt(sum).
    """

    def __init__(self, clients: int) -> None:
        if clients < 1:
            raise Mistake(f"clients={clients} must be at least 1: give the number of registered clients")
        self._server, self._upload = Tally(np.zeros(clients)), Tally(np.zeros(clients))
        self.rounds: npt.NDArray[np.int64] = np.zeros(clients, dtype=np.int64)
        self.charged = 0  # events of the ledger that are counted here

    @property
    def server(self) -> Floats:
        """The sums against the server."""
        return self._server.values

    @property
    def upload(self) -> Floats:
        """The sums against a reader of single uploads."""
        return self._upload.values

    def add(self, event: Event, members: Sequence[int] | Members) -> None:
        """Charge an event to the clients that took part in it."""
        who = np.asarray(members, dtype=np.int64)
        if who.size and not (who.min() >= 0 and who.max() < self.rounds.size):
            raise Mistake(f"members must be numbers from 0 to {self.rounds.size - 1}: found {who.min()} to {who.max()}")
        if np.unique(who).size < who.size:
            raise Mistake("members name a client twice, but it moves the sum only once: name each one once")
        self._server.add(who, _cost(event.noise, event))
        self._upload.add(who, _cost(event.share, event))
        self.charged += 1
        if event.label == "update":
            self.join(who)

    def join(self, members: Members) -> None:
        """Count a round that these clients took part in."""
        self.rounds[members] += 1

    def catch_up(self, events: Sequence[Event]) -> None:
        """Charge events whose members nobody remembers (another training, a killed process) to everybody."""
        for event in events[self.charged :]:
            self.add(event, np.arange(self.rounds.size))

    def worst(self) -> int:
        """The most rounds that one client joined."""
        return int(self.rounds.max())

    def median(self) -> float:
        """The median over all registered clients of the rounds joined."""
        return float(np.median(self.rounds))

    def extremes(self) -> dict[str, float]:
        """mu of the worst and of the median client, by view. The higher of two middle clients: never understated."""
        found: dict[str, float] = {}
        for name, tally in (("server", self._server), ("upload", self._upload)):
            found |= {name: math.sqrt(tally.largest), f"{name}_median": math.sqrt(tally.median)}
        return found

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays themselves, for a checkpoint."""
        arrays = {"server": self.server, "upload": self.upload, "rounds": self.rounds}
        return {**arrays, "charged": np.array([self.charged])}

    @classmethod
    def of(cls, state: Mapping[str, npt.ArrayLike]) -> "Participation":
        """The participation that `state` described, with arrays of its own."""
        whole = cls.__new__(cls)
        whole._server, whole._upload = (Tally(np.array(state[name], np.float64)) for name in ("server", "upload"))
        whole.rounds = np.array(state["rounds"], np.int64)
        whole.charged = int(np.asarray(state["charged"])[0])
        return whole


@dataclass(frozen=True)
class Spent:
    """What was spent up to a round, in a few numbers: epsilon can be asked for at any later time."""

    kinds: tuple[tuple[Kind, int], ...]  # of the events, how many of each
    extremes: Mapping[str, float]  # see Participation.extremes

    def epsilon(self, delta: float, accountant: str = "pld", secure: bool = False) -> dict[str, float | str]:
        """Epsilon by adversary: model, server, and without secure aggregation upload; worst client and median.

        "none" where there is no finite epsilon: nothing noisy was recorded, or a release without noise was.
        """
        names = ["server", "server_median"] + ([] if secure else ["upload", "upload_median"])
        if not self.kinds:
            return dict.fromkeys(["model", *names], "none")
        only_sampling(kind for kind, _ in self.kinds)
        numbers = {"model": _model_epsilon(dict(self.kinds), delta, accountant, True)}
        numbers |= {name: gaussian_epsilon(self.extremes[name], delta, accountant) for name in names}
        return {name: stated(value) for name, value in numbers.items()}


def views(
    events: Iterable[Event],
    participation: Participation,
    delta: float,
    accountant: str = "pld",
    secure: bool = False,
) -> dict[str, float | str]:
    """Epsilon by adversary of these events and participations; see Spent."""
    return Spent(tuple(kinds(events).items()), participation.extremes()).epsilon(delta, accountant, secure)


def stated(value: float) -> float | str:
    """A finite epsilon as it is, an infinite one as "none": JSON has no infinity."""
    return value if math.isfinite(value) else "none"


def model_epsilon(events: Iterable[Event], delta: float, accountant: str = "pld", proven: bool = True) -> float:
    """Epsilon against an observer of all released models who does not know the cohorts.

    `proven`: see `releases`. The slack of visible aborts is paid out of delta.
    """
    return _model_epsilon(kinds(events), delta, accountant, proven)


def _model_epsilon(counts: Mapping[Kind, int], delta: float, accountant: str, proven: bool) -> float:
    slack = float(sum(Fraction(kind.slack) * count for kind, count in counts.items()))
    return epsilon(counted_releases(counts, proven), delta, accountant, slack)


def paper_epsilon(events: Iterable[Event], delta: float) -> float:
    """The papers' own accounting: moments, every cohort taken as Poisson, one client added or removed."""
    return epsilon([Release(k.noise, k.rate, count) for k, count in kinds(events).items()], delta, "moments")


def _cost(multiplier: float, event: Event) -> float:
    return (reach(event.sampling) / multiplier) ** 2 if multiplier > 0 else math.inf
