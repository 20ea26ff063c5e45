"""Epsilon per adversary: who sees the models, who runs the server, who reads single uploads."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon, gaussian_epsilon
from hush.privacy.events import Event, only_sampling, reach, releases

Floats = npt.NDArray[np.float64]
_FIELDS = ("server", "upload", "rounds")


class Participation:
    """Per client, the sum of (1/multiplier)^2 over the rounds it took part in.

    server counts the noise of the whole sum, upload the client's own share, rounds the updates joined.
    Known cohorts leave plain Gaussians, and these compose to one Gaussian at mu = sqrt(sum).
    """

    def __init__(self, clients: int) -> None:
        if clients < 1:
            raise Mistake(f"clients={clients} must be at least 1: give the number of registered clients")
        self.server: Floats = np.zeros(clients)
        self.upload: Floats = np.zeros(clients)
        self.rounds: npt.NDArray[np.int64] = np.zeros(clients, dtype=np.int64)
        self.charged = 0  # events of the ledger that are counted here

    def add(self, event: Event, members: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Charge an event to the clients that took part in it."""
        who = np.asarray(members, dtype=np.int64)
        if who.size and not (who.min() >= 0 and who.max() < self.rounds.size):
            raise Mistake(f"members must be numbers from 0 to {self.rounds.size - 1}: found {who.min()} to {who.max()}")
        np.add.at(self.server, who, _cost(event.noise, event))
        np.add.at(self.upload, who, _cost(event.share, event))
        self.charged += 1
        if event.label == "update":
            self.join(who)

    def join(self, members: npt.NDArray[np.int64]) -> None:
        """Count a round that these clients took part in."""
        np.add.at(self.rounds, members, 1)

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

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of the arrays, for a checkpoint."""
        return {**{name: getattr(self, name).copy() for name in _FIELDS}, "charged": np.array([self.charged])}

    @classmethod
    def of(cls, state: Mapping[str, npt.ArrayLike]) -> "Participation":
        """The participation that `state` described."""
        arrays = {name: np.asarray(state[name]) for name in _FIELDS}
        whole = cls(arrays["rounds"].size)
        whole.server = arrays["server"].astype(np.float64)
        whole.upload = arrays["upload"].astype(np.float64)
        whole.rounds = arrays["rounds"].astype(np.int64)
        whole.charged = int(np.asarray(state["charged"])[0])
        return whole


def views(
    events: Sequence[Event],
    participation: Participation,
    delta: float,
    accountant: str = "pld",
    secure: bool = False,
) -> dict[str, float | str]:
    """Epsilon by adversary: model, server, and without secure aggregation upload; worst client and median.

    "none" where there is no finite epsilon: nothing noisy was recorded, or a release without noise was.
    """
    names = ["model", "server", "server_median"] + ([] if secure else ["upload", "upload_median"])
    if not events:
        return dict.fromkeys(names, "none")
    only_sampling(events)
    numbers = {"model": model_epsilon(events, delta, accountant)}
    for name, squares in (("server", participation.server), ("upload", participation.upload)):
        # The higher of two middle clients: a median that never understates.
        middle = float(np.quantile(squares, 0.5, method="higher"))
        numbers[name] = gaussian_epsilon(math.sqrt(float(squares.max())), delta, accountant)
        numbers[f"{name}_median"] = gaussian_epsilon(math.sqrt(middle), delta, accountant)
    return {name: stated(numbers[name]) for name in names}


def stated(value: float) -> float | str:
    """A finite epsilon as it is, an infinite one as "none": JSON has no infinity."""
    return value if math.isfinite(value) else "none"


def model_epsilon(events: Sequence[Event], delta: float, accountant: str = "pld", proven: bool = True) -> float:
    """Epsilon against an observer of all released models who does not know the cohorts.

    `proven`: see `releases`. The slack of visible aborts is paid out of delta.
    """
    slack = math.fsum(e.slack for e in events)
    return epsilon(releases(events, proven), delta, accountant, slack)


def paper_epsilon(events: Sequence[Event], delta: float) -> float:
    """The papers' own accounting: moments, every cohort taken as Poisson, one client added or removed."""
    return epsilon([Release(e.noise, e.rate) for e in events], delta, "moments")


def _cost(multiplier: float, event: Event) -> float:
    return (reach(event.sampling) / multiplier) ** 2 if multiplier > 0 else math.inf
