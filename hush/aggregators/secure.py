"""The sum of whole numbers, of which the server sees nothing but the sum."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch

from hush import bits
from hush.aggregators.sum import Sum
from hush.errors import Aborted, Mistake
from hush.packing import Codes, Form, Integers
from hush.rng import SecretSeed
from hush.sampling import TAIL, Sampling
from hush.secure import Identity, Terms, binding, tally
from hush.secure.driver import Round
from hush.secure.graph import degree
from hush.secure.twoserver import Halves
from hush.spec import Asked, Members, Total, Uploads
from hush.stages import centred

LEAST = 3  # clients of a secure sum: of two, each would know the other's numbers from the sum
LOST = 1 / 3  # of a cohort at most: two sets of survivors must not both be large enough to be opened


@dataclass(frozen=True)
class SecureSum:
    """Uploads of whole numbers are added modulo 2^bits by the protocol of hush.secure.

    full     run the whole protocol: keys, shares, masks, consent. Else the numbers are added as they are: of the same
             uploads the result is the same to the bit (a test holds it so), an abort comes in the same rounds, and the
             protocol's bytes are counted all the same. For simulations, where one process knows everything anyway
    servers  1: clients mask each other's numbers. 2: two servers that do not collude, with far fewer bytes
    corrupt  the part of a cohort that may help the server, against which the graph is chosen

    Guarantee: the server, with up to `corrupt` of a cohort, learns the sum over at least the threshold of its clients
    and nothing else. What the sum tells is for the noise in it to hide.
    """

    full: bool = False
    servers: Literal[1, 2] = 1
    corrupt: float = 0.1

    def __post_init__(self) -> None:
        if self.servers not in (1, 2):
            raise Mistake(f"servers={self.servers} must be 1 or 2")
        if not 0 <= self.corrupt < 1 - 2 * LOST + 1e-9:
            raise Mistake(f"corrupt={self.corrupt} must be from 0 to {1 - 2 * LOST:.2f}: clients that help the server")

    def check(self, form: Form, tolerance: float | None, least: int) -> None:
        """Refuse what it cannot add, or could not open."""
        width(form, 1)
        if tolerance is not None and tolerance > LOST:
            raise Mistake(
                f"tolerance={tolerance} is more than a third: with half of a cohort a server could open two sums;"
                " lower it"
            )
        if least < LEAST:
            raise Mistake(f"floor={least} of the sampling lets a sum have fewer than {LEAST} clients: raise it")

    def combine(self, uploads: Iterable[Uploads], asked: Asked) -> Total:
        """From blocks of uploads, one row per client; fewer than the threshold abort the round."""
        people = {client: _identity(asked.secret, client) for client in asked.cohort.tolist()}
        terms = self.terms(asked, people)
        return self._masked(uploads, asked, terms, people) if self.full else self._added(uploads, asked, terms)

    def terms(self, asked: Asked, people: dict[int, Identity]) -> Terms:
        """What the cohort agrees on: the noise relies on `floor` clients, and fewer never open a sum.

        A client finds the same terms from its plan and the cohort's keys, so that it need not believe the server: a
        floor that would make its share of noise too small is refused, or is a threshold that cannot be reached.
        """
        cohort = tuple((client, identity.public) for client, identity in people.items())
        n, least, helpers = len(cohort), self.threshold(len(cohort), asked.floor), self.colluding(len(cohort))
        if least > n:
            raise Mistake(
                f"a cohort of {n} cannot open a sum that needs {least} clients, for the floor={asked.floor:g} of its"
                f" noise and its threshold (at least {LEAST}): take larger cohorts"
            )
        return Terms.choose(
            _run(asked.secret),
            asked.round,
            cohort,
            width(asked.form, n),
            asked.size,
            binding(*asked.told),
            dropout=(n - least) / n,
            corrupt=helpers / n,
        )

    def threshold(self, cohort: int, floor: float) -> int:
        """The fewest clients of a cohort whose sum is opened, where noise shares are sized for `floor` of them."""
        n = cohort
        return max(LEAST, math.ceil(floor), (n + self.colluding(n)) // 2 + 1, n - math.floor(LOST * n))

    def colluding(self, cohort: int) -> int:
        """How many clients of a cohort may help the server, and tell it their noise: `corrupt` of it, rounded up."""
        return math.ceil(self.corrupt * cohort - 1e-9)

    def slack(self, sampling: Sampling, population: int, tolerance: float) -> float:
        """The probability that one client's presence decides whether a sum is opened, if others drop out independently.

        Of n clients with the one client, t must stay. It decides only if it is drawn, and at least n - t of the others
        drop out (it is the next one to leave, or the one that is just enough), or so many of the neighbours of somebody
        that one more leaves too few of them to open a secret. Each of the others drops out with probability
        `sampling.dropout` at most, so that a binomial tail bounds both, whatever the rates below that are.
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
        asked.note(asked.cohort, bytes, bits.length(terms.size, terms.bits))


@lru_cache(maxsize=64)
def _slack(found: SecureSum, sampling: Sampling, population: int, tolerance: float) -> float:
    """See SecureSum.slack; it is asked for in every round."""
    rate, drops, total = sampling.rate(population), sampling.dropout, 0.0
    if drops == 0:
        return 0.0
    from scipy.stats import binom  # slow to import

    for others, likely in zip(*sampling.others(population), strict=True):
        n = int(others) + 1
        if n < max(LEAST, sampling.floor):
            continue  # aborted with the client and without it, but for what sampling.slack counts
        least = found.threshold(n, round((1 - tolerance) * n, 9))
        decided = float(binom.sf(n - least - 1, others, drops)) if least < n else 1.0
        if found.servers == 1 and decided < 1:
            near, shares = degree(n, (n - least) / n, found.colluding(n) / n)
            if near < n - 1:  # where all are neighbours, they are too few only if all are
                decided += n * float(binom.sf(near - shares - 1, near, drops))
        total += float(likely) * min(1.0, decided)
    return rate * min(1.0, total + (2 * TAIL if total else 0.0))


def width(form: Form, clients: int) -> int:
    """The bits of a number in the sum: as the form says, or so many that a sum of codes cannot wrap."""
    if isinstance(form, Integers):
        return form.width
    if isinstance(form, Codes):
        return max(2, (form.top * clients).bit_length() + 1)
    raise Mistake(f"{type(form).__name__} cannot be added modulo 2^b: make whole numbers of them with hush.secured")


def _names(clients: Members | None) -> list[int]:
    if clients is None:
        raise Mistake("SecureSum must know whose uploads they are: use a transport that tells it")
    found: list[int] = clients.tolist()
    return found


def _identity(secret: SecretSeed, client: int) -> Identity:
    """A simulated client's long-term key."""
    return Identity(secret.key("identity", client))


def _run(secret: SecretSeed) -> str:
    return secret.key("run").hex()
