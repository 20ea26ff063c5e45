"""Epsilon per adversary: who sees the models, who runs the server, who reads single uploads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon, gaussian_epsilon
from hush.privacy.events import Event, EventKind, counted_releases, kinds, only_sampling, replaced
from hush.privacy.joins import Joined, Joins
from hush.privacy.tally import Costs, Floats, Members

_TALLIES = ("model", "server", "upload")  # and colluding, from the first secure sum on: until then it is upload


class Participation:
    """Per client, the sum of (1/multiplier)^2 over the rounds it took part in.

    server counts the noise of those who answered, colluding that of the honest ones among them, upload the client's own
    share, rounds the updates joined; model what the models' readers face, where they know who takes part as well
    (sampling once).
    Known cohorts leave plain Gaussians, and these compose to one Gaussian at mu = sqrt(sum).
    Rounds that protect records are in `joins`: within its client a record is still drawn.
    """

    def __init__(self, clients: int) -> None:
        if clients < 1:
            raise Mistake(f"clients={clients} must be at least 1: give the number of registered clients")
        self._tallies = {name: Costs(np.zeros(clients)) for name in _TALLIES}
        self.rounds: npt.NDArray[np.int64] = np.zeros(clients, dtype=np.int64)
        self.charged = 0  # events of the ledger that are counted here
        self.summed = False  # whether a secure sum is among them, for which colluding is a view of its own
        self.joins = Joins(clients)

    @property
    def server(self) -> Floats:
        """The sums against the server."""
        return self._tallies["server"].values

    @property
    def upload(self) -> Floats:
        """The sums against a reader of single uploads."""
        return self._tallies["upload"].values

    def add(self, event: Event, members: Sequence[int] | Members) -> None:
        """Charge an event to the clients that took part in it."""
        who = np.asarray(members, dtype=np.int64)
        if who.size and not (who.min() >= 0 and who.max() < self.rounds.size):
            raise Mistake(f"members must be numbers from 0 to {self.rounds.size - 1}: found {who.min()} to {who.max()}")
        if not (who[1:] > who[:-1]).all() and np.unique(who).size < who.size:
            raise Mistake("members name a client twice, but it moves the sum only once: name each one once")
        if event.level == "record":
            self.joins.add(event, who)
        else:
            if event.colluding is not None and not self.summed:
                self.summed, self._tallies["colluding"] = True, Costs(self.upload.copy())
            for name, cost in _costs(event).items():
                if name in self._tallies:
                    self._tallies[name].add(who, cost)
        self.charged += 1
        if event.label == "update":
            self.join(who)

    def join(self, members: Members) -> None:
        """Count a round that these clients took part in."""
        self.rounds[members] += 1

    def catch_up(self, events: Sequence[Event], unfinished: int = 0) -> None:
        """Charge events whose members nobody remembers (another training, a killed process) to everybody.

        Nor does anybody remember how many answered: against the server of a plain sum a single share is left. The last
        `unfinished` have released no sum, and count as they were planned.
        """
        last = len(events) - unfinished
        for number, event in enumerate(events[self.charged :], self.charged):
            self.add(event if number >= last else least(event), np.arange(self.rounds.size))

    def worst(self) -> int:
        """The most rounds that one client joined."""
        return int(self.rounds.max())

    def median(self) -> float:
        """The median over all registered clients of the rounds joined."""
        return float(np.median(self.rounds))

    @property
    def probabilities(self) -> Floats | None:
        """Of each client, the probability of one of its records to be in a batch; see Joins."""
        return self.joins.probabilities

    @probabilities.setter
    def probabilities(self, values: npt.ArrayLike) -> None:
        self.joins.probabilities = values

    def extremes(self) -> dict[str, float] | Joined:
        """mu of the worst and of the median client, by view. The higher of two middle clients: never understated.

        Of records, what their epsilon can be found from when it is asked for.
        """
        if self.joins:
            return self.joins.at()
        found = {"model": math.sqrt(self._tallies["model"].largest)}  # of turns that are public, else 0
        for name in ("server", *["colluding"] * self.summed, "upload"):
            tally = self._tallies[name]
            found |= {name: math.sqrt(tally.largest), f"{name}_median": math.sqrt(tally.median)}
        return found

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays themselves, for a checkpoint."""
        arrays = {"server": self.server, "upload": self.upload, "rounds": self.rounds}
        arrays |= {"model": self._tallies["model"].values} if self._tallies["model"].largest else {}
        arrays |= {"colluding": self._tallies["colluding"].values} if self.summed else {}
        return {**arrays, "charged": np.array([self.charged]), **self.joins.state()}

    @classmethod
    def of(cls, state: Mapping[str, npt.ArrayLike]) -> "Participation":
        """The participation that `state` described, with arrays of its own."""
        whole = cls.__new__(cls)
        whole.rounds = np.array(state["rounds"], np.int64)
        nothing = np.zeros(whole.rounds.size)
        whole.summed = "colluding" in state
        values = {name: state.get(name, nothing) for name in (*_TALLIES, *["colluding"] * whole.summed)}
        whole._tallies = {name: Costs(np.array(value, np.float64)) for name, value in values.items()}
        whole.charged = int(np.asarray(state["charged"])[0])
        whole.joins = Joins.of(whole.rounds.size, state)
        return whole


@dataclass(frozen=True)
class Spent:
    """What was spent up to a round, in a few numbers: epsilon can be asked for at any later time."""

    kinds: tuple[tuple[EventKind, int], ...]  # of the events, how many of each
    extremes: Mapping[str, float] | Joined  # see Participation.extremes

    def epsilon(self, delta: float, accountant: str = "pld", secure: bool = False) -> dict[str, float | str]:
        """Epsilon by adversary: model, server, of a secure sum colluding, and upload; worst client and median.

        "none" where there is no finite epsilon: nothing noisy was recorded, or a release without noise was.
        """
        wanted = ["server", "colluding"] + ([] if secure else ["upload"])
        if isinstance(self.extremes, Joined) or "colluding" not in self.extremes:
            wanted.remove("colluding")
        names = [name for view in wanted for name in (view, f"{view}_median")]
        if not self.kinds:
            return dict.fromkeys(["model", *names], "none")
        if only_sampling(kind for kind, _ in self.kinds) == "once" and not isinstance(self.extremes, Joined):
            numbers = {"model": gaussian_epsilon(self.extremes["model"], delta, accountant)}
        else:
            numbers = {"model": _model_epsilon(dict(self.kinds), delta, accountant, True)}
        if isinstance(self.extremes, Joined):
            worst, median = self.extremes.epsilons(delta, accountant)  # an upload is as noisy as a client's sums
            numbers |= {name: median if name.endswith("_median") else worst for name in names}
        else:
            numbers |= {name: gaussian_epsilon(self.extremes[name], delta, accountant) for name in names}
        return {name: stated(value) for name, value in numbers.items()}


def views(
    events: Iterable[Event],
    participation: Participation,
    delta: float,
    accountant: str = "pld",
    secure: bool = False,
) -> dict[str, float | str]:
    """Epsilon by adversary of these events and participations; see Spent.

    The ledger may be ahead of the participations, after a kill. Such an event is everybody's; the last one is that of a
    round that was not finished.
    """
    events = tuple(events)
    if len(events) > participation.charged:
        participation = Participation.of(participation.state())
        participation.catch_up(events, unfinished=1)
    return Spent(tuple(kinds(events).items()), participation.extremes()).epsilon(delta, accountant, secure)


def stated(value: float) -> float | str:
    """A finite epsilon as it is, an infinite one as "none": JSON has no infinity."""
    return value if math.isfinite(value) else "none"


def model_epsilon(events: Iterable[Event], delta: float, accountant: str = "pld", proven: bool = True) -> float:
    """Epsilon against an observer of all released models who does not know the cohorts.

    `proven`: see `releases`. The slack of visible aborts is paid out of delta.
    """
    return _model_epsilon(kinds(events), delta, accountant, proven)


def _model_epsilon(counts: Mapping[EventKind, int], delta: float, accountant: str, proven: bool) -> float:
    slack = float(sum(Fraction(kind.slack) * count for kind, count in counts.items()))
    return epsilon(counted_releases(counts, proven), delta, accountant, slack)


def paper_epsilon(events: Iterable[Event], delta: float) -> float:
    """The papers' own accounting: moments, everything drawn taken as Poisson and added or removed.

    Of records, Theorem 3.1: rate C p in the first step of a round, p in the others, whatever one record moves.
    """
    return epsilon([r for k, count in kinds(events).items() for r in _amplified(k, count, k.noise)], delta, "moments")


def unnoticed_epsilon(events: Iterable[Event], delta: float, accountant: str = "pld") -> float:
    """The model view's epsilon of records if the models did not show whether a client took part. Not proven.

    A record then counts as drawn with probability C p in the first step of a round, and pld takes the steps of a round
    together, drawn with probability C: the paper's assumption, here with all that one record moves.
    """
    counts = kinds(events)
    together = [replace(r, noticed=False) for r in counted_releases(counts)]
    separate = [
        replace(r, mirrored=k.batches == "fixed")
        for k, count in counts.items()
        for r in _amplified(k, count, k.noise / (k.reach * replaced(k.batches)))
    ]
    if accountant == "pld" and any(k.steps > 1 for k in counts):
        return epsilon(together, delta)
    return min(epsilon(separate, delta, accountant), epsilon(together, delta, accountant))


def _amplified(k: EventKind, count: int, noise: float) -> list[Release]:
    """Releases at the product of the client's probability and the record's, and those of later steps at the latter."""
    later = [Release(noise, k.batch, count * (k.steps - 1))] if k.steps > 1 else []
    return [Release(noise, max(1e-9, k.rate * k.batch), count), *later]


def _costs(event: Event) -> dict[str, float]:
    """What an event adds to the sums of those who took part; against readers of the models where they know who did."""
    found = {"server": _cost(event.noise if event.server is None else event.server, event)}
    found["upload"] = _cost(event.share, event)
    # Without a secure sum colluding clients need not help: the server sees the uploads.
    found["colluding"] = found["upload"] if event.colluding is None else _cost(event.colluding, event)
    return found | ({"model": _cost(event.noise, event)} if event.sampling == "once" else {})


def least(event: Event) -> Event:
    """The event if one client alone answered, where nothing kept the server from a sum of so few."""
    if event.level == "record" or event.colluding is not None:
        return event
    return replace(event, server=min(event.share, event.noise if event.server is None else event.server))


def _cost(multiplier: float, event: Event) -> float:
    return (replaced(event.sampling) / multiplier) ** 2 if multiplier > 0 else math.inf
