"""Grids and bits: the SPEC's figures, plain searches, and that a sum fits."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from hush.errors import Mistake
from hush.privacy.grids import BETA, KINDS, LEAST_SHARE, MOST, finest, loss, room, rounded_norm, settle
from hush.random.tables import NORMAL, SKELLAM

PAPER = {"size": 8317, "clients": 100, "floor": 100, "noise": 1.54}


def test_rounded_norms() -> None:
    likely = math.sqrt(5**2 + 100 / 4 + 1.0 * (5 + 10 / 2))  # sqrt(2 log(1/BETA)) = 1
    assert rounded_norm(5.0, 100) == pytest.approx(likely)
    assert rounded_norm(0.01, 4, 1e-9) == pytest.approx(0.01 + 2)  # a coarse grid: each number moves by one
    assert rounded_norm(1e6, 4) == pytest.approx(1e6, rel=1e-5)  # a fine one: the norm itself
    assert loss(5.0, 100) == pytest.approx(likely / 5 - 1)
    found = [loss(steps, 8316) for steps in (10.0, 100.0, 1e3, 1e4)]
    assert all(a > 2 * b for a, b in pairwise(found))
    assert loss(0.0, 9) == math.inf


def test_rounding_is_within_the_bound_with_the_chance_it_says() -> None:
    rng = np.random.default_rng(5)
    for size, steps in ((3, 2.0), (50, 5.0), (400, 20.0)):
        for beta in (BETA, 0.05):
            x = rng.normal(size=size)
            x *= steps / np.linalg.norm(x)
            norms = np.linalg.norm(np.floor(x + rng.random((4000, size))), axis=1)
            assert np.mean(norms > rounded_norm(steps, size, beta)) <= beta
            assert norms.max() <= steps + math.sqrt(size)


@pytest.mark.parametrize(("more", "bits"), [(0.125, 10.4), (0.034, 11.4), (0.009, 12.4)])
def test_the_figures_of_the_spec(more: float, bits: float) -> None:
    """About 10.4, 11.4 and 12.4 bits at 12.5, 3.4 and 0.9 % more noise; theirs is of the noise before it is more."""
    steps = min((s for s in np.arange(50, 500, 0.1)), key=lambda s: abs(loss(s, 8317) - more))
    assert math.log2(room(steps, 8317, 100, 100, 1.54 / (1 + more))) == pytest.approx(bits, abs=0.06)
    assert bits < math.log2(room(steps, **PAPER)) < bits + 0.16


def test_room_by_the_formula() -> None:
    n, d, c, noise, floor = 70, 300, 21.0, 1.3, 55
    shares = (noise * rounded_norm(c, d)) ** 2 / floor
    assert room(c, d, n, floor, noise) == pytest.approx(8 * math.sqrt(c**2 * n**2 / d + (1 / 4 + shares) * n))
    assert room(c, d, n, floor, 0.0) == pytest.approx(8 * math.sqrt(c**2 * n**2 / d + n / 4))


@pytest.mark.parametrize("noise", [0.0, 1.2])
def test_sums_of_equal_updates_fit(noise: float) -> None:
    """All clients send the same, spread over all coordinates, rounded and noised: at 12 bits nothing wraps."""
    rng, size, clients, floor = np.random.default_rng(1), 1000, 50, 40
    steps = finest(12, size, clients, floor, noise)
    x = steps / math.sqrt(size) * rng.choice([-1, 1], size)
    total = np.floor(x + rng.random((clients, size))).sum(axis=0)
    share = noise * rounded_norm(steps, size) / math.sqrt(floor)
    total += np.rint(rng.normal(size=(clients, size)) * share).sum(axis=0)
    assert 2**12 / 16 < np.abs(total).max() < 2**11


@pytest.mark.parametrize("bits", [7, 9, 12])
@pytest.mark.parametrize(("size", "clients", "floor", "noise"), [(500, 20, 15, 1.1), (3, 2, 2, 0.4), (9, 5, 0.7, 0.0)])
def test_the_finest_by_trying_all(bits: int, size: int, clients: int, floor: float, noise: float) -> None:
    found = finest(bits, size, clients, floor, noise)
    slow = 0
    for thousandths in range(1000, 3_000_000, 7):
        if room(thousandths / 1000, size, clients, floor, noise) > 2**bits:
            break
        slow = thousandths
    assert slow <= 1000 * found < slow + 7 if slow else found == 0
    if found:
        assert room(found, size, clients, floor, noise) <= 2**bits < room(found + 0.001, size, clients, floor, noise)


def test_monotone() -> None:
    assert all(a < b for a, b in pairwise(room(s, **PAPER) for s in (0.1, 1, 10, 100, 1e4)))

    def at(bits: int = 12, **change: float) -> float:
        return finest(bits, **{**PAPER, **change})

    found = [at(bits) for bits in range(8, 17)]
    assert found == sorted(found)
    assert at(clients=200) < at(clients=100)
    assert at(floor=80) < at(floor=100)
    assert at(noise=2.0) < at(noise=1.54) < at(noise=0.0)
    assert at(beta=0.01) < at(beta=0.9)


def test_the_fewest_bits_by_trying_all() -> None:
    for allowed in (0.5, 0.3, 0.05, 0.01, 0.001):
        found = settle(**PAPER, rounding=allowed)
        assert found == settle(**PAPER, bits=found.bits)
        assert found.loss == loss(found.steps, 8317) <= allowed
        assert loss(finest(found.bits - 1, **PAPER), 8317) > allowed
    assert [settle(**PAPER, rounding=x).bits for x in (0.31, 0.07, 0.05, 0.005)] == [10, 11, 12, 13]
    assert settle(8317, 100, 100, 0.0).bits < 12


def test_discrete_gaussian_shares_stay_large_enough() -> None:
    """With many clients the share, and not the loss, asks for the bit."""
    found = {kind: settle(4, 10_000, 10_000, 1.0, rounding=1.0, kind=kind) for kind in KINDS}
    assert found["skellam"].bits < found["gaussian"].bits
    for kind, grid in found.items():
        assert (rounded_norm(grid.steps, 4) / 100 >= LEAST_SHARE) == (kind == "gaussian")
    with pytest.raises(Mistake, match=r"bits=.* too few .* or kind=skellam"):
        settle(4, 10_000, 10_000, 1.0, bits=found["skellam"].bits, kind="gaussian")


def test_what_can_be_drawn_limits_the_steps() -> None:
    wide = {"size": 100, "clients": 10, "floor": 10}
    most = {"skellam": math.sqrt(SKELLAM[1]), "gaussian": NORMAL[1]}
    for kind, limit in most.items():
        steps = finest(32, **wide, noise=2.0, kind=kind)
        assert 0.989 * limit < 2 * rounded_norm(steps, 100) <= 0.99 * limit
    steps = finest(32, 10_000, 1, 1, 0.0)
    assert steps + 100 <= MOST < steps + 100.001
    with pytest.raises(Mistake, match=r"rounding=1e-05 is out of reach within 32 bits .* or kind=gaussian"):
        settle(**wide, noise=2.0, rounding=1e-5)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: settle(**{**PAPER, "size": 0}), "size=0 must be at least 1"),
        (lambda: settle(**{**PAPER, "clients": 0}), "clients=0 must be at least 1"),
        (lambda: settle(**{**PAPER, "clients": math.inf}), "clients=inf must be at least 1 and finite"),
        (lambda: settle(**{**PAPER, "floor": 101}), "floor=101 must be positive and at most clients=100"),
        (lambda: settle(**{**PAPER, "floor": 0}), "floor=0 must be positive"),
        (lambda: settle(**{**PAPER, "noise": -1}), "noise=-1 must be zero or positive"),
        (lambda: settle(**{**PAPER, "noise": math.nan}), "noise=nan must be zero or positive"),
        (lambda: settle(**PAPER, beta=1.0), "beta=1 must lie between 0 and 1"),
        (lambda: settle(**PAPER, kind="laplace"), "kind=laplace is not known"),
        (lambda: settle(**PAPER, rounding=0.0), "rounding=0 must be positive"),
        (lambda: settle(**PAPER, bits=1), "bits=1 must be from 2 to 32"),
        (lambda: settle(**PAPER, bits=33), "bits=33 must be from 2 to 32"),
        (lambda: settle(**PAPER, bits=5), "bits=5 are too few for a sum of 100 clients at noise=1.54: take more bits"),
        (lambda: settle(**{**PAPER, "clients": 2**61}), "rounding=0.05 is out of reach within 32 bits"),
    ],
)
def test_mistakes(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        build()
