"""What a run releases, as values: one event per noisy sum, and the releases that accountants compose."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hush.errors import Mistake
from hush.privacy.accountants import Release

BatchSampling = Literal["poisson", "fixed"]
SAMPLINGS: tuple[BatchSampling, ...] = ("poisson", "fixed")
Cohorts = Literal[
    "poisson", "fixed", "once"
]  # of clients; once: by turns that are public, see hush.parts.sampling.Once
COHORTS: tuple[Cohorts, ...] = (*SAMPLINGS, "once")
Level = Literal["client", "record"]  # whose data the noise hides: all of a client's, or one record of it
LEVELS: tuple[Level, ...] = ("client", "record")


@dataclass(frozen=True)
class Event:
    """One round's release: a noisy sum over the clients, or (level record) noisy sums within each client.

    round     0 is the vote before training
    noise     multiplier of the sum: its deviation / S, where one client, or one record, counts for at most S
    share     multiplier of one client's own noise share: what protects a single upload
    rate      the probability that a given client is in the cohort (1: all, or it is public who is)
    slack     the probability that the round's visible abort distinguishes a client
    steps     level record: the noisy sums that a client's upload is made of
    batch     level record: the probability that a record of the smallest client is in the batch of one of them
    reach     level record: how many clipped gradients of a sum change with one record of its batch
    batches   level record: how the batches are drawn, and with that the neighbour relation
    server    multiplier against the server, where it is another one than that of the sum (0: the server is trusted)
    colluding multiplier against the server with its colluding clients, where a secure sum hides the uploads from it
    """

    round: int
    noise: float
    share: float
    rate: float
    sampling: Cohorts
    slack: float = 0.0
    label: str = "update"
    level: Level = "client"
    steps: int = 1
    batch: float = 1.0
    reach: int = 1
    batches: BatchSampling = "poisson"
    server: float | None = None
    colluding: float | None = None

    def __post_init__(self) -> None:
        Release(self.noise, self.rate)
        if self.round < 0:
            raise Mistake(f"round={self.round} must be zero or positive: 0 is the vote before training")
        if not 0 <= self.share < math.inf:
            raise Mistake(f"share={self.share:g} must be zero or positive and finite: give a noise multiplier")
        for name, value in (("server", self.server), ("colluding", self.colluding)):
            if value is not None and not 0 <= value < math.inf:
                raise Mistake(f"{name}={value:g} must be zero or positive and finite: give a noise multiplier")
        if not 0 <= self.slack <= 1:
            raise Mistake(f"slack={self.slack:g} must lie between 0 and 1: give a probability")
        if self.sampling not in COHORTS:
            raise Mistake(f"sampling={self.sampling} is not known: take one of {', '.join(COHORTS)}")
        if self.sampling == "once" and (self.rate, self.slack, self.level, self.round > 0) != (1, 0, "client", True):
            raise Mistake("sampling=once is for rounds of clients whose turns are public: give rate=1 and no slack")
        check_records(self.batch, self.steps, self.reach, self.batches)
        if self.level not in LEVELS:
            raise Mistake(f"level={self.level} is not known: take one of {', '.join(LEVELS)}")
        if self.level == "client" and (self.steps, self.batch, self.reach, self.batches) != (1, 1.0, 1, "poisson"):
            raise Mistake("steps, batch, reach and batches describe records: leave them out, or set level='record'")
        if self.level == "record" and self.share != self.noise:
            raise Mistake(f"share={self.share:g} must be noise={self.noise:g}: each client noises its own sums in full")


class EventKind(NamedTuple):
    """What an accountant sees of an event: events of one kind are counted, not kept."""

    noise: float
    rate: float
    sampling: Cohorts
    slack: float
    level: Level = "client"
    steps: int = 1
    batch: float = 1.0
    reach: int = 1
    batches: BatchSampling = "poisson"

    @property
    def neighbours(self) -> Cohorts:
        """What draws the thing that two neighbours differ in: the cohort, or the batch."""
        return self.batches if self.level == "record" else self.sampling


def kind(event: Event) -> EventKind:
    """The kind of an event."""
    records = (event.level, event.steps, event.batch, event.reach, event.batches)
    return EventKind(event.noise, event.rate, event.sampling, event.slack, *records)


def kinds(events: Iterable[Event]) -> Counter[EventKind]:
    """How many events there are of each kind."""
    return Counter(map(kind, events))


def check_sampling(sampling: str) -> None:
    """Refuse a sampling that no analysis here covers."""
    if sampling not in SAMPLINGS:
        raise Mistake(f"sampling={sampling} is not known: take one of {', '.join(SAMPLINGS)}")


def check_records(batch: float, steps: int, reach: int, batches: BatchSampling) -> None:
    """Refuse batches that no analysis here covers."""
    if not 1e-9 <= batch <= 1:
        raise Mistake(
            f"batch={batch:g} must be in [1e-9, 1]: give the probability of a record to be in its client's batch"
        )
    if not 1 <= steps <= 10**6:
        raise Mistake(f"steps={steps} must be from 1 to 1,000,000: give the steps of a client in one round")
    if not 1 <= reach <= 1000:
        raise Mistake(f"reach={reach} must be from 1 to 1000: give the clipped gradients that one record changes")
    check_sampling(batches)


def replaced(sampling: Cohorts) -> int:
    """How far one client moves the sum, in units of S: added or removed 1, replaced 2."""
    return 2 if sampling == "fixed" else 1


def relation(sampling: Cohorts, level: Level = "client") -> str:
    """The neighbour relation in words; sampling is that of the clients, or for records that of the batches."""
    if level == "record":
        return "replace one record of one client" if sampling == "fixed" else "add or remove one record of one client"
    return "replace one client by another" if sampling == "fixed" else "add or remove one client"


def repeated(
    noise: float,
    rate: float,
    rounds: int,
    sampling: BatchSampling,
    proven: bool = True,
    *,
    batch: float | None = None,
    steps: int = 1,
    reach: int = 1,
) -> Release:
    """`rounds` equal sums as one release; see `releases` for fixed-size cohorts, `proven`, and records (batch).

    With a batch, rate is the client's probability to be drawn and sampling that of the batches. Without one it is the
    probability of whatever is drawn.
    """
    check_sampling(sampling)
    check_records(1.0 if batch is None else batch, steps, reach, sampling)
    if not 0 <= noise < math.inf:
        raise Mistake(f"noise={noise:g} must be zero or positive and finite: give a noise multiplier")
    moved = noise / (reach * replaced(sampling))
    mirrored = proven and sampling == "fixed"
    if batch is None:
        return Release(moved, rate, rounds, mirrored, steps)
    return Release(moved, batch, rounds, mirrored, steps, rate)


def releases(events: Iterable[Event], proven: bool = True) -> tuple[Release, ...]:
    """The events as an observer sees them who does not know the cohorts; public turns as if one client had them all.

    A fixed-size cohort under "replace one client" is dominated, in one round, by the Poisson pair at half the
    multiplier (Balle, Barthe, Gaboardi 2018; Zhu, Dong, Wang 2022). Over rounds that pair is the worst known
    and not the proven worst (Lebeda, Regehr, Kamath, Steinke 2024), so pld composes the two-sided pair, a
    bound whatever the rounds (sigma 1.54, rate 1/60, 200 rounds: 3.35); proven=False takes the one-sided
    pair all the same (3.10). rdp and moments know the one-sided pair alone.

    Of records the same holds within their client: batches in place of cohorts. The client's own probability C of
    being drawn does not multiply with that. Where the client is in or out in both neighbouring worlds, they are
    (1 - C) R + C P and (1 - C) R + C Q, with R the model without the client. R need not look like Q: the
    client's other records may well show that it took part. So a round reveals nothing with probability 1 - C, and all
    that its steps reveal otherwise; an R disjoint from P and Q attains this, and joint convexity proves it.
    """
    return counted_releases(kinds(events), proven)


def counted_releases(counts: Mapping[EventKind, int], proven: bool = True) -> tuple[Release, ...]:
    """The same of events that were counted by kind."""
    only_level(counts)
    return tuple(_release(k, count, proven) for k, count in counts.items())


def _release(k: EventKind, count: int, proven: bool) -> Release:
    if k.level == "client":
        return repeated(k.noise, k.rate, count, "poisson" if k.sampling == "once" else k.sampling, proven)
    return repeated(k.noise, k.rate, count, k.batches, proven, batch=k.batch, steps=k.steps, reach=k.reach)


def only_level(events: Iterable[Event | EventKind]) -> Level:
    """The one level of all events: a client and a record cannot share one epsilon."""
    found: list[Level] = sorted({e.level for e in events})
    if len(found) > 1:
        raise Mistake("level=client and record are mixed in one ledger: give each training a ledger of its own")
    return found[0] if found else "client"


def only_sampling(events: Iterable[Event | EventKind]) -> Cohorts:
    """The one sampling of all events, of batches for records: two relations cannot share one epsilon."""
    found = sorted({(e if isinstance(e, EventKind) else kind(e)).neighbours for e in events})
    if len(found) > 1:
        raise Mistake(f"sampling={' and '.join(found)} are mixed in one ledger: give every event the run's sampling")
    return found[0] if found else "poisson"
