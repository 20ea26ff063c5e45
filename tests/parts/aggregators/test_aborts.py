"""How often one client decides whether a secure sum is opened, with the rings that it is in and those without it."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from secure.cohorts import identities, terms

from hush.parts.aggregators import SecureSum
from hush.parts.aggregators.secure import Graph, decided
from hush.parts.sampling import Fixed, Poisson
from hush.secure import Terms, binding

PEOPLE = identities(25)
THIN, THINNER = Graph(24, 15, 8, 6), Graph(23, 14, 8, 7)
EVERYBODY, SMALLER = Graph(24, 15, 23, 14), Graph(23, 14, 22, 13)
OTHER = Graph(24, 15, 8, 6)  # with another client in its place


def agreed(graph: Graph, names: list[int], trial: int) -> Terms:
    """Terms whose ring is another in every trial."""
    people = {name: PEOPLE[name] for name in names}
    fields = {"threshold": graph.threshold, "degree": graph.degree, "shares": graph.shares, "size": 1}
    return terms(people, **fields, binding=binding(b"%d" % trial))


@pytest.mark.parametrize(
    ("own", "without", "drops"),
    [
        (THIN, THIN._replace(clients=23), 0.02),
        (THIN, THINNER, 0.01),
        (THIN, SMALLER, 0.02),
        (THIN, OTHER, 0.02),
        (EVERYBODY, THINNER, 0.02),  # the ring is in the world without the client alone
        (EVERYBODY, SMALLER, 0.2),
    ],
)
def test_one_client_decides_no_oftener_than_is_charged(own: Graph, without: Graph, drops: float) -> None:
    """Both worlds by their own terms, with the same dropouts of the others; the client leaves as it likes."""
    draw, trials, flips = np.random.default_rng(1), 5000, 0
    names = list(PEOPLE)
    client, others, another = names[0], names[1:24], names[24:]
    for trial in range(trials):
        left = [name for name in others if draw.random() >= drops]
        here = agreed(own, [client, *others], trial)
        there = agreed(without, others if without.clients == 23 else others + another, trial)
        stays = left if without.clients == 23 or draw.random() < drops else left + another
        aborted = there.stuck(stays) is not None
        flips += any((here.stuck(found) is not None) != aborted for found in (left, [client, *left]))
    charge = decided(own, [without], drops)
    assert flips > 10
    assert charge < 1
    assert flips / trials < charge + 3 * math.sqrt(charge / trials)


def test_the_committee_is_counted() -> None:
    """Four of eight are gone from it, and everybody has five of eight neighbours: it alone decides, and is charged."""
    found = terms(identities(30), degree=8, shares=5, size=3)
    gone = {found.cohort[found._ring[0][place]][0] for place in (0, 3, 4, 7)}
    for client in gone:
        there = [name for name, _ in found.cohort if name not in gone or name == client]
        why = found.stuck([name for name in there if name != client])
        assert found.stuck(there) is None
        assert why is not None
        assert "of the committee" in why
    graph = Graph(30, 20, 8, 5)
    of_one = [float(binom.sf(8 - 5 - free, 8, 0.01)) for free in (0, 1)]
    assert [graph.short(0.01, free) for free in (0, 1)] == pytest.approx([31 * one for one in of_one])  # 30, and it


def test_the_ring_of_a_cohort_with_another_in_its_place() -> None:
    """In cohorts of one size the world without the client has as many, in Poisson ones one less: both are charged."""
    aggregator, drops = SecureSum(corrupt=0.0), 0.2
    graphs = {n: aggregator.graph(n, 0.3) for n in (199, 200)}
    assert all(graph.degree < graph.clients - 1 for graph in graphs.values())
    few = float(binom.sf(200 - graphs[200].threshold - 1, 199, drops))
    most = max(graph.short(drops) for graph in graphs.values())
    charged = few + graphs[200].short(drops, 1) + most
    assert aggregator.slack(Fixed(200, 3, 0.3, drops), 1000, 0.3) == pytest.approx(0.2 * charged)
    assert aggregator.slack(Poisson(0.2, 3, 0.3, drops), 1000, 0.3) > 0.2 * 0.02 * charged
