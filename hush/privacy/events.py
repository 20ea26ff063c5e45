"""What a run releases, as values: one event per noisy sum, and the releases that accountants compose."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hush.errors import Mistake
from hush.privacy.accountants import Release

Sampling = Literal["poisson", "fixed"]
SAMPLINGS: tuple[Sampling, ...] = ("poisson", "fixed")


@dataclass(frozen=True)
class Event:
    """One noisy sum that leaves the clients.

    round     0 is the vote before training
    noise     multiplier of the sum: its deviation / S, where one client moves the sum by at most S
    share     multiplier of one client's own noise share: what protects a single upload
    rate      the chance that a given client is in the cohort (1: all)
    slack     the chance that the round's visible abort tells a client apart
    """

    round: int
    noise: float
    share: float
    rate: float
    sampling: Sampling
    slack: float = 0.0
    label: str = "update"

    def __post_init__(self) -> None:
        Release(self.noise, self.rate)
        if self.round < 0:
            raise Mistake(f"round={self.round} must be zero or positive: 0 is the vote before training")
        if not 0 <= self.share < math.inf:
            raise Mistake(f"share={self.share:g} must be zero or positive and finite: give a noise multiplier")
        if not 0 <= self.slack <= 1:
            raise Mistake(f"slack={self.slack:g} must lie between 0 and 1: give a probability")
        check_sampling(self.sampling)


class Kind(NamedTuple):
    """What an accountant sees of an event: events of one kind are counted, not kept."""

    noise: float
    rate: float
    sampling: Sampling
    slack: float


def kind(event: Event) -> Kind:
    """The kind of an event."""
    return Kind(event.noise, event.rate, event.sampling, event.slack)


def kinds(events: Iterable[Event]) -> Counter[Kind]:
    """How many events there are of each kind."""
    return Counter(map(kind, events))


def check_sampling(sampling: str) -> None:
    """Refuse a sampling that no analysis here covers."""
    if sampling not in SAMPLINGS:
        raise Mistake(f"sampling={sampling} is not known: take one of {', '.join(SAMPLINGS)}")


def reach(sampling: Sampling) -> int:
    """How far one client moves the sum, in units of S: added or removed 1, replaced 2."""
    return 1 if sampling == "poisson" else 2


def relation(sampling: Sampling) -> str:
    """The neighbour relation in words."""
    return "add or remove one client" if sampling == "poisson" else "replace one client by another"


def repeated(noise: float, rate: float, rounds: int, sampling: Sampling, proven: bool = True) -> Release:
    """`rounds` equal sums as one release; see `releases` for fixed-size cohorts and `proven`."""
    check_sampling(sampling)
    if not 0 <= noise < math.inf:
        raise Mistake(f"noise={noise:g} must be zero or positive and finite: give a noise multiplier")
    return Release(noise / reach(sampling), rate, rounds, mirrored=proven and sampling == "fixed")


def releases(events: Iterable[Event], proven: bool = True) -> tuple[Release, ...]:
    """The events as an observer sees them who does not know the cohorts.

    A fixed-size cohort under "replace one client" is dominated, in one round, by the Poisson pair at half the
    multiplier (Balle, Barthe, Gaboardi 2018; Zhu, Dong, Wang 2022). Over rounds that pair is the worst known
    and not the proven worst (Lebeda, Regehr, Kamath, Steinke 2024), so pld composes the two-sided pair, a
    bound whatever the rounds (sigma 1.54, rate 1/60, 200 rounds: 3.35); proven=False takes the one-sided
    pair all the same (3.10). rdp and moments know the one-sided pair alone.
    """
    return counted_releases(kinds(events), proven)


def counted_releases(counts: Mapping[Kind, int], proven: bool = True) -> tuple[Release, ...]:
    """The same of events that were counted by kind."""
    return tuple(repeated(k.noise, k.rate, count, k.sampling, proven) for k, count in counts.items())


def only_sampling(events: Iterable[Event | Kind]) -> Sampling:
    """The one sampling of all events: two relations cannot share one epsilon."""
    found = sorted({e.sampling for e in events})
    if len(found) > 1:
        raise Mistake("sampling=poisson and fixed are mixed in one ledger: give every event the run's sampling")
    return found[0] if found else "poisson"
