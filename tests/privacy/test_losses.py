"""Our composition of loss distributions against the library's own, which is slow."""

import math

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from hush.privacy import losses
from hush.privacy.losses import _interval, _mirrored, epsilon, width


def slow(groups, delta):
    """The groups composed by dp_accounting."""
    interval = _interval([width(noise, rate) for noise, rate, _, _ in groups])
    whole = None
    for noise, rate, count, mirrored in groups:
        one = (
            _mirrored(noise, rate, interval)
            if mirrored and rate < 1
            else from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=interval)
        )
        part = one.self_compose(count)
        whole = part if whole is None else whole.compose(part)
    return whole.get_epsilon_for_delta(delta)


@pytest.mark.parametrize("delta", [1e-3, 1e-5])
@pytest.mark.parametrize(
    "groups",
    [
        [(1.54, 1 / 60, 1, False)],
        [(1.54, 1 / 60, 37, True)],
        [(8.0, 0.5, 1000, False)],
        [(0.77, 1e-4, 1000, True)],
        [(0.3, 0.5, 2, False)],
        [(4.0, 1.0, 3, False), (1.54, 1 / 60, 50, False)],
        [(2.0, 0.1, 7, True), (4.0, 1.0, 1, False), (1.54, 1 / 60, 50, True)],
    ],
)
def test_the_composition_is_the_librarys(groups, delta):
    assert epsilon(tuple(groups), delta) == pytest.approx(slow(groups, delta), rel=1e-8, abs=1e-12)


def test_losses_past_the_smallest_float_and_no_loss_at_all():
    wide = ((0.02, 0.5, 1, False),)
    assert epsilon(wide, 1e-9) == pytest.approx(slow(wide, 1e-9), rel=1e-7)
    assert epsilon(((8.0, 1e-4, 1, False),), 1e-3) == 0.0
    assert epsilon(((1.54, 1 / 60, 3, False),), 1e-16) == math.inf  # below what was cut off


def test_one_more_round_builds_nothing_anew():
    """The losses of one release and their moments are kept: reading each round's epsilon costs one transform."""
    epsilon(((1.23, 0.01, 5, False),), 1e-5)
    before = losses._one_round.cache_info().misses
    for count in range(6, 12):
        epsilon(((1.23, 0.01, count, False),), 1e-5)
    assert losses._one_round.cache_info().misses == before
