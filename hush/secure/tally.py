"""Bytes of every phase, per client: as they were sent, and as they would be."""

from collections.abc import Collection

import numpy as np

from hush.secure import bits
from hush.secure.keys import CHECK
from hush.secure.messages import ADVERT, HEAD, KEY, PHASES, SEED, SIGNATURE, Dealt, Phase
from hush.secure.shares import LENGTH
from hush.secure.terms import Terms

Table = dict[str, dict[str, dict[str, float]]]
GRAPH = tuple(phase.word for phase in PHASES)
HALVES = (Phase.NUMBERS.word, Phase.SEEDS.word)
CARRIERS = {Phase.MASK.word, Phase.NUMBERS.word}  # in which the numbers travel


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


def expected(terms: Terms, present: Collection[int], servers: int = 1) -> Tally:
    """The bytes of a round in which all clients share their secrets and just those `present` send numbers.

    The same as a driver counts from the messages, for a simulation that leaves the masks out; where present clients
    are too few, those up to the abort. `servers` is 1, or 2 for the halves of twoserver.
    """
    n, k = len(terms.cohort), terms.degree
    seats = [terms.seat(client) for client in present]
    numbers, a_set = bits.length(terms.size, terms.bits), (n + 7) // 8
    asked, said = HEAD.size, HEAD.size + SIGNATURE  # around each body
    if servers == 2:
        found = Tally(HALVES, n)
        found.up[:, seats] = np.array([[said + numbers], [said + SEED]])
        return found
    found, neighbours = Tally(GRAPH, n), (k + 7) // 8
    found.up[Phase.ADVERTISE] = said + KEY
    found.down[Phase.SHARE] = asked + neighbours + ADVERT.size * k
    found.up[Phase.SHARE] = said + Dealt.length(k, terms.shares)
    found.down[Phase.MASK] = asked + neighbours
    found.up[Phase.MASK, seats] = said + numbers
    if terms.stuck(present) is None:
        found.down[Phase.CONSENT, seats] = asked + a_set
        found.up[Phase.CONSENT, seats] = said
        found.down[Phase.UNMASK, seats] = asked + (len(terms.committee) + 7) // 8 + SIGNATURE * terms.consents
        found.up[Phase.UNMASK, seats] = said + LENGTH * k
        for gone in set(range(n)).difference(seats):
            found.up[Phase.UNMASK, sorted(set(seats).intersection(terms.near(gone)))] += CHECK
    return found
