"""Composed losses against the true epsilon, found by an integral in the complex plane, and against dp_accounting."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy import optimize

from hush.privacy import losses, pairs
from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.losses import Group, epsilon

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def log_moment(group, side, order):
    """log E exp(z loss) of one release, at complex orders z of one real part; the rule converges geometrically."""
    mu = 1 / group.noise
    low, high = mu / 2 if side == "mirrored" else -13.0, mu * (float(order.real[0]) + 2) + 13
    pieces = math.ceil((high - low) * max(2.0, mu * float(np.abs(order.imag).max()) / 8))
    step = (high - low) / pieces
    x = (low + step * (np.arange(pieces)[:, None] + (NODES + 1) / 2)).ravel()
    logs = np.tile(np.log(WEIGHTS * step / 2), pieces) - x**2 / 2 - math.log(2 * math.pi) / 2
    loss = np.logaddexp(math.log1p(-group.rate), math.log(group.rate) + mu * x - mu**2 / 2)
    z = order[:, None]
    parts = [logs - z * loss] if side == "added" else [logs + (z + 1) * loss]
    if side == "mirrored":
        rest = 1 - np.exp(logs + loss).sum() - np.exp(logs).sum()
        parts += [logs - z * loss, np.full((len(order), 1), math.log(rest))]
    top = max(float(part.real.max()) for part in parts)
    return top + np.log(sum(np.exp(part - top).sum(axis=1) for part in parts))


def composed(groups, side, order):
    total = 0.0
    for group in groups:
        inner = group.steps * log_moment(group, "mirrored" if group.mirrored else side, order)
        if group.joined < 1:
            top = np.maximum(inner.real, 0.0)
            inner = top + np.log((1 - group.joined) * np.exp(-top) + group.joined * np.exp(inner - top))
        total = total + group.rounds * inner
    return total


def true(groups, delta, side):
    """The epsilon with delta = 1/(2 pi i) times the integral of M(z) exp(-z epsilon) / (z (z + 1)) over Re z = t > 0.

    t is near the saddle point, so that nothing cancels, and the trapezoidal rule sees a period that no loss leaves.
    """

    def at(t):
        return float(composed(groups, side, np.array([t + 0j]))[0].real)

    orders = np.exp(np.linspace(-6, 10, 80))
    t = float(min(orders, key=lambda t: (at(t) - math.log(delta)) / t))
    whole = at(t)
    most = (whole - math.log(delta)) / t
    beyond = min((at(t * f) - whole + 50) / (t * (f - 1)) for f in (1.1, 1.3, 1.6, 2, 3, 5))
    step = 2 * math.pi / max(60 / t, beyond, most)
    found, lines = [], []
    while not found or np.abs(found[-1]).max() * t * (t + 1) > 1e-15:
        z = t + 1j * step * (32 * len(found) + np.arange(32))
        found.append(np.exp(composed(groups, side, z) - whole) / (z * (z + 1)))
        lines.append(z.imag)
    values, lines = np.concatenate(found), np.concatenate(lines)
    values[1:] *= 2  # the other half is the conjugate

    def log_delta(e):
        integral = float((values * np.exp(-1j * lines * e)).sum().real) * step / (2 * math.pi)
        return whole - t * e + math.log(integral) if integral > 0 else -math.inf

    low = most
    while log_delta(low) <= math.log(delta):
        low *= 0.98
    return optimize.brentq(lambda e: log_delta(e) - math.log(delta), low, low / 0.98, xtol=1e-15, rtol=1e-13)


@pytest.mark.parametrize("delta", [1e-5, 1e-12, 1e-30])
@pytest.mark.parametrize(
    "groups",
    [
        [(10.0, 0.1, 10**5, False)],
        [(10.0, 0.1, 10**5, True)],
        [(1.54, 1 / 60, 200, False)],
        [(1.54, 1 / 60, 200, True)],
        [(8.0, 0.5, 1000, False)],
        [(2.0, 0.1, 10, False)],
        [(1.0, 0.3, 100, False)],
        [(1000.0, 0.5, 10**7, False)],
        [(2.0, 0.1, 70, False), (1.54, 1 / 60, 500, False)],
        [(2.0, 0.1, 70, True), (1.54, 1 / 60, 500, True)],
        [(1.5, 0.02, 100, False, 5, 0.3)],
    ],
)
def test_never_below_the_true_epsilon_and_close_to_it(groups, delta):
    groups = [Group(*group) for group in groups]
    sides = ["removed"] if groups[0].mirrored else ["removed", "added"]
    due = max(true(groups, delta, side) for side in sides)
    assert due * (1 - 1e-9) <= epsilon(tuple(groups), delta) <= due * (1 + 5e-4)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-30, 1e-100])
@pytest.mark.parametrize("noise", [0.5, 8.0, 100.0])
@pytest.mark.parametrize("rounds", [1, 30, 10**4])
def test_without_sampling_the_closed_form(noise, rounds, delta):
    due = gaussian_epsilon(math.sqrt(rounds) / noise, delta)
    assert due * (1 - 2e-9) <= epsilon(((noise, 1.0, rounds, False),), delta) <= due * (1 + 2e-4) + 1e-9


@pytest.mark.parametrize("mu", [1e-4, 0.03, 0.5, 0.51, 2.0, 20.0])
def test_delta_of_one_release_has_twelve_digits(mu):
    """However small delta, and however little is left of the two probabilities that it is the difference of."""
    places = np.linspace(-35.0, mu / 2, 60)
    found = pairs._gaussian(mu, mu * (mu / 2 - places))
    with mpmath.workdps(60):
        for value, place in zip(found, places, strict=True):
            e = mpmath.mpf(float(mu * (mu / 2 - place)))
            a = mpmath.mpf(mu) / 2 - e / mpmath.mpf(mu)
            due = mpmath.ncdf(a) - mpmath.exp(e) * mpmath.ncdf(a - mpmath.mpf(mu))
            assert abs(mpmath.mpf(float(value)) / due - 1) < pairs.MARGIN / 2


@pytest.mark.parametrize("side", ["removed", "added", "symmetric"])
@pytest.mark.parametrize(("noise", "rate"), [(10.0, 0.1), (1.54, 1 / 60), (0.77, 1e-4), (0.3, 0.5), (300.0, 0.9)])
def test_one_release_is_never_below_its_delta(noise, rate, side):
    """At the points of the grid and between them, on both sides of 0, by sums in many digits."""
    interval = losses._interval([Group(noise, rate, 1, False)])
    found = getattr(pairs, side)(pairs.gaussian(noise, -100.0), rate, interval)
    places = np.add.outer([0.0, 0.37], np.unique(np.linspace(found.first - 3, found.last + 3, 40).round()))
    with mpmath.workdps(50):
        probabilities = [mpmath.mpf(float(probability)) for probability in found.probabilities]
        spots = [(found.first + i) * mpmath.mpf(interval) for i in range(len(probabilities))]
        inverse = [probability * mpmath.exp(-spot) for probability, spot in zip(probabilities, spots, strict=True)]
        upper, lower = [mpmath.mpf(0)], [mpmath.mpf(0)]
        for probability, other in zip(reversed(probabilities), reversed(inverse), strict=True):
            upper.append(upper[-1] + probability)
            lower.append(lower[-1] + other)
        for place in places.ravel():
            e = mpmath.mpf(float(place)) * mpmath.mpf(interval)
            above = min(max(found.last - math.floor(place), 0), len(probabilities))
            stated = mpmath.mpf(found.infinite) + upper[above] - mpmath.exp(e) * lower[above]
            assert stated >= exact(noise, rate, e, side)


def exact(noise, rate, e, side):
    if side == "symmetric" and e < 0:
        return 1 - mpmath.exp(e) + mpmath.exp(e) * exact(noise, rate, -e, side)
    if side == "added" and mpmath.exp(-e) <= 1 - mpmath.mpf(rate):
        return mpmath.mpf(0)
    if side == "added":  # H_e(Q || M) = exp(e) (H_-e(M || Q) - 1 + exp(-e))
        return mpmath.exp(e) * (exact(noise, rate, -e, "removed") - 1) + 1
    q, s = mpmath.mpf(rate), mpmath.mpf(noise)
    if mpmath.exp(e) <= 1 - q:
        return 1 - mpmath.exp(e)
    x = s**2 * mpmath.log((mpmath.exp(e) - 1 + q) / q) + mpmath.mpf(1) / 2
    return q * mpmath.ncdf((1 - x) / s) - (mpmath.exp(e) - 1 + q) * mpmath.ncdf(-x / s)


@pytest.mark.parametrize("delta", [1e-3, 1e-5])
@pytest.mark.parametrize(
    "groups",
    [
        [(1.54, 1 / 60, 1, False)],
        [(8.0, 0.5, 1000, False)],
        [(0.3, 0.5, 2, False)],
        [(4.0, 1.0, 3, False), (1.54, 1 / 60, 50, False)],
    ],
)
def test_the_composition_is_the_librarys(groups, delta):
    interval = losses._interval([Group(*group) for group in groups])
    parts = [
        from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=interval).self_compose(count)
        for noise, rate, count, _ in groups
    ]
    whole = parts[0] if len(parts) == 1 else parts[0].compose(parts[1])
    assert epsilon(tuple(groups), delta) == pytest.approx(whole.get_epsilon_for_delta(delta), rel=1e-6, abs=1e-9)


def test_losses_past_the_smallest_float_and_no_loss_at_all():
    wide = mpmath.mpf(epsilon(((0.02, 0.5, 1, False),), 1e-9))
    assert exact(0.02, 0.5, wide, "removed") <= 1e-9 < exact(0.02, 0.5, wide * 0.9999, "removed")
    assert epsilon(((8.0, 1e-4, 1, False),), 1e-3) == 0.0
    assert epsilon(((1.54, 1 / 60, 3, False),), 1e-290) == math.inf  # below what was cut off


def test_one_more_round_builds_nothing_anew():
    """The losses of one release and their moments are kept: reading each round's epsilon costs one transform."""
    epsilon(((1.23, 0.01, 5, False),), 1e-5)
    before = losses._one_round.cache_info().misses
    for count in range(6, 12):
        epsilon(((1.23, 0.01, count, False),), 1e-5)
    assert losses._one_round.cache_info().misses == before
