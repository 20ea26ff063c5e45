"""The sum of integers, of which the server sees nothing but the sum."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch

from hush.core.integers import centred
from hush.core.packing import Form
from hush.core.plain import Sum
from hush.core.protocols import Aggregator, ClientRound, Parts, Roster, Sampling, Secrecy, ServerRound
from hush.core.single import Unpack
from hush.core.spec import Asked, Members, Spec, Total, Uploads
from hush.core.task import Registered
from hush.errors import Aborted, Mistake
from hush.parts.aggregators.phases import RECORDS, GraphRound, Halved, HalvesRound, Neighbour
from hush.parts.sampling import TAIL
from hush.random.seeds import SecretSeed
from hush.secure import Identity, Terms, binding, bits, tally
from hush.secure.driver import Round
from hush.secure.graph import degree
from hush.secure.twoserver import Halves

LEAST = 3  # clients of a secure sum: of two, each would know the other's numbers from the sum
LOST = 1 / 3  # of a cohort at most: two sets of survivors must not both be large enough to be opened


@dataclass(frozen=True)
class SecureSum(Aggregator):
    """Uploads of integers are added modulo 2^bits by the protocol of hush.secure.

    full     run the whole protocol: keys, shares, masks, consent. Else the numbers are added as they are: of the same
             uploads the result is the same to the bit (a test holds it so), an abort comes in the same rounds, and the
             protocol's bytes are counted all the same. For simulations, where one process knows everything anyway
    servers  1: clients mask each other's numbers. 2: two servers that do not collude, with far fewer bytes
    corrupt  the part of a cohort that may help the server, against which the graph is chosen

    Guarantee: the server, with up to `corrupt` of a cohort, learns the sum over at least the threshold of its clients
    and nothing else. What the sum reveals is for the noise in it to hide.
    """

    full: bool = False
    servers: Literal[1, 2] = 1
    corrupt: float = 0.1

    def __post_init__(self) -> None:
        if self.servers not in (1, 2):
            raise Mistake(f"servers={self.servers} must be 1 or 2")
        if not 0 <= self.corrupt < 1 - 2 * LOST + 1e-9:
            raise Mistake(f"corrupt={self.corrupt} must be from 0 to {1 - 2 * LOST:.2f}: clients that help the server")

    @property
    def exact(self) -> bool:
        """Where masks are left out: each of their clients masks its own row."""
        return not self.full

    @property
    def secrecy(self) -> Secrecy:
        """The server sees the sum alone."""
        return Secrecy("full" if self.full else "simulated", self.servers, self.corrupt)

    def check(self, scheme: Parts, task: Registered, upload: Spec) -> None:
        """Refuse what it cannot add, or could not open."""
        sampling, expected = scheme.sampling, scheme.sampling.cohort(task.clients)
        width(upload.form, 1)
        if sampling.tolerance is not None and sampling.tolerance > LOST:
            raise Mistake(
                f"tolerance={sampling.tolerance} is more than a third: with half of a cohort a server could open two"
                " sums; lower it"
            )
        if sampling.floor < LEAST:
            raise Mistake(
                f"floor={sampling.floor} of the sampling lets a sum have fewer than {LEAST} clients: raise it"
            )
        if expected < sampling.floor:
            raise Mistake(
                f"cohort={expected:g} is below the {sampling.floor} clients that a secure sum needs: take larger"
                " cohorts"
            )

    def tolerance(self, dropout: float) -> float:
        """As many as it can lose, so that aborts are far from where cohorts end up; none where nobody drops out."""
        return LOST if dropout else 0.0

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client; fewer than the threshold abort the round."""
        people = {client: identity(asked.secret, client) for client in asked.cohort.tolist()}
        terms = self.terms(asked, tuple((client, one.public) for client, one in people.items()))
        return self._masked(uploads, asked, terms, people) if self.full else self._added(uploads, asked, terms)

    def join(self, asked: Asked, roster: Roster, own: object, records: int) -> ClientRound:
        """A client of the protocol, by terms that it finds itself."""
        if not isinstance(own, Identity):
            raise Mistake("a secure sum needs the client's own key: give its session an Identity")
        terms, weight = self.terms(asked, roster), records if asked.weighted else None
        return Neighbour(terms, own, weight) if self.servers == 1 else Halved(terms, own, weight, asked.second)

    def open(self, asked: Asked, roster: Roster, unpack: Unpack) -> ServerRound:
        """The server of the protocol: masks are real, whatever `full` says."""
        terms = self.terms(asked, roster)
        if self.servers == 1:
            return GraphRound(terms, asked)
        return HalvesRound(terms, asked) if asked.relay is None else asked.relay(terms, asked)

    def terms(self, asked: Asked, cohort: Roster) -> Terms:
        """What the cohort agrees on: the noise relies on `floor` clients, and fewer never open a sum.

        A client finds the same terms from its plan and the cohort's keys, so that it need not believe the server: a
        floor that would make its share of noise too small is refused, or is a threshold that cannot be reached.
        """
        n, least, helpers = len(cohort), self.threshold(len(cohort), asked.floor), self.colluding(len(cohort))
        if least > n:
            raise Mistake(
                f"a cohort of {n} cannot open a sum that needs {least} clients, for the floor={asked.floor:g} of its"
                f" noise and its threshold (at least {LEAST}): take larger cohorts"
            )
        return Terms.choose(
            asked.run,
            asked.round,
            cohort,
            width(asked.form, n),
            asked.size,
            binding(*asked.announced),
            dropout=(n - least) / n,
            corrupt=helpers / n,
        )

    def threshold(self, cohort: int, floor: float) -> int:
        """The fewest clients of a cohort whose sum is opened, where noise shares are sized for `floor` of them."""
        n = cohort
        return max(LEAST, math.ceil(floor), (n + self.colluding(n)) // 2 + 1, n - math.floor(LOST * n))

    def graph(self, cohort: int, tolerance: float) -> "Graph":
        """What a cohort of so many agrees on, where noise shares are sized for all but `tolerance` of it."""
        n, least = cohort, self.threshold(cohort, round((1 - tolerance) * cohort, 9))
        if self.servers == 2 or least == n:  # without neighbours, or with the first that is lost there is no sum
            return Graph(n, least, n - 1, n - 1)
        return Graph(n, least, *degree(n, (n - least) / n, self.colluding(n) / n))

    def colluding(self, cohort: int) -> int:
        """How many clients of a cohort may collude with the server: `corrupt` of it, rounded up."""
        return math.ceil(self.corrupt * cohort - 1e-9)

    def slack(self, sampling: Sampling, population: int, tolerance: float) -> float:
        """A bound on the probability that one client decides whether a sum is opened, if others drop out independently.

        It decides only if it is drawn. Then the cohort with it and the one without it, or with another in its place,
        have terms, a ring and a committee of their own: `decided` has what may happen in either. Each of the others
        drops out with probability `sampling.dropout` at most, so that binomial tails bound it, whatever the rates below
        that are.
        """
        return _slack(self, sampling, population, tolerance)

    def _masked(self, uploads: Iterable[Uploads], asked: Asked, terms: Terms, people: dict[int, Identity]) -> Total:
        protocol = (Round if self.servers == 1 else Halves)(terms, people)
        sizes: dict[int, float] = {}
        try:
            protocol.begin()
            for rows, records, _, clients in uploads:
                for client, row, size in zip(_names(clients), rows, records.tolist(), strict=True):
                    protocol.add(client, row.int().numpy())
                    sizes[client] = size
                del rows  # before the next ones are made
            outcome = protocol.finish()
        finally:
            self._note(asked, terms, protocol.tally)
        body = centred(torch.from_numpy(outcome.residues.astype(np.int64)), terms.bits)
        weight = math.fsum(sizes[client] for client in outcome.survivors)
        return Total(body, len(outcome.survivors), weight, refused=outcome.refused)

    def _added(self, uploads: Iterable[Uploads], asked: Asked, terms: Terms) -> Total:
        present: list[int] = []

        def named() -> Iterable[Uploads]:
            for block in uploads:
                present.extend(_names(block.clients))
                yield block
                del block

        total = Sum().combine(named(), asked)
        self._note(asked, terms, tally.expected(terms, present, self.servers))
        why = terms.stuck(present, self.servers)
        if why is not None:
            raise Aborted(why)
        return replace(total, body=centred(total.body, terms.bits))

    def _note(self, asked: Asked, terms: Terms, bytes: tally.Tally) -> None:
        if asked.weighted:  # the number of records behind the numbers
            row = next(row for row, phase in enumerate(bytes.phases) if phase in tally.CARRIERS)
            bytes.up[row, bytes.up[row] > 0] += RECORDS.size
        asked.note(asked.cohort, bytes, bits.length(terms.size, terms.bits))


class Graph(NamedTuple):
    """Clients of a cohort, how many of them must stay, neighbours of each, and how many of these open a secret."""

    clients: int
    threshold: int
    degree: int
    shares: int

    def short(self, drops: float, free: int = 0) -> float:
        """(n + 1) P(B > k - t - free), B of k clients lost: too few near one of n clients, or in the committee of k.

        `free` of them drop out as they like. Where all are neighbours they are too few only if the clients are.
        """
        from scipy.stats import binom  # slow to import

        if self.degree == self.clients - 1:
            return 0.0
        return (self.clients + 1) * float(binom.sf(self.degree - self.shares - free, self.degree, drops))


def decided(own: Graph, without: Sequence[Graph], drops: float) -> float:
    """A bound on the probability that an abort depends on one client, which drops out or not as it likes.

    `own` is the cohort of n with it, `without` what it may be else: n - 1, or n with another in its place. The two have
    nothing in common but the others' dropouts: each has its own digest, and so its own ring and committee. Where just
    one of the two is aborted, at least n - threshold of the others drop out, or too many near somebody, or of the
    committee, in the one or in the other. A union bound: P(B >= n - threshold) of n - 1, and `short` of both.
    """
    from scipy.stats import binom  # slow to import

    least = max(one.threshold for one in (own, *without))
    few = float(binom.sf(own.clients - least - 1, own.clients - 1, drops))
    return min(1.0, few + own.short(drops, 1) + max(one.short(drops) for one in without))


@lru_cache(maxsize=64)
def _slack(found: SecureSum, sampling: Sampling, population: int, tolerance: float) -> float:
    """See SecureSum.slack; it is asked for in every round."""
    rate, drops, total = sampling.rate(population), sampling.dropout, 0.0
    if drops == 0:
        return 0.0
    for others, likely in zip(*sampling.others(population), strict=True):
        n, least = int(others) + 1, max(LEAST, sampling.floor)
        if n < least:
            continue  # aborted with the client and without it, but for what sampling.slack counts
        own, *without = (found.graph(m, tolerance) for m in (n, n - 1, n) if m >= least)
        total += float(likely) * decided(own, without, drops)
    return rate * min(1.0, total + (2 * TAIL if total else 0.0))


def width(form: Form, clients: int) -> int:
    """The bits of a number in the sum: as the form says, or so many that a sum of codes cannot wrap."""
    found = form.added(clients)
    if found is not None:
        return found
    raise Mistake(f"{type(form).__name__} cannot be added modulo 2^b: make integers of them with hush.secured")


def _names(clients: Members | None) -> list[int]:
    if clients is None:
        raise Mistake("SecureSum must know whose uploads they are: use a transport that says so")
    found: list[int] = clients.tolist()
    return found


def identity(secret: SecretSeed, client: int) -> Identity:
    """A simulated client's long-term key."""
    return Identity(secret.key("identity", client))


def run_name(secret: SecretSeed) -> str:
    """The name of a simulated run."""
    return secret.key("run").hex()
