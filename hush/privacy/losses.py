"""Privacy loss distributions of sampled Gaussians: built once per (noise, rate), composed by transform."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf, privacy_loss_mechanism
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism

Group = tuple[float, float, int, bool]  # noise, rate, count, mirrored

_POINTS = 8192  # of one round's loss: two decimals of epsilon hold, and a call stays under 0.1 s


def epsilon(groups: tuple[Group, ...], delta: float) -> float:
    """The epsilon of the composed groups at delta, never below the true one."""
    interval = _interval([width(noise, rate) for noise, rate, _, _ in groups])
    return float(_composed(groups, interval).get_epsilon_for_delta(delta))


def width(noise: float, rate: float) -> float:
    """The largest loss log(1 - q + q exp((2x - 1)/(2 s^2))) for x within ten deviations."""
    exponent = (1 + 20 * noise) / (2 * noise**2)
    return exponent + math.log(rate) if exponent > 700 else math.log1p(rate * math.expm1(exponent))


def _interval(widths: list[float]) -> float:
    """One step for all groups (a power of two): fine enough for the narrowest, bearable for the widest."""
    finest = max(min(widths), max(widths) / 32)
    return float(2.0 ** math.floor(math.log2(finest / _POINTS)))


@lru_cache(maxsize=8)
def _composed(groups: tuple[Group, ...], interval: float) -> Any:
    parts = [_one_round(s, q, interval, mirrored).self_compose(n) for s, q, n, mirrored in groups]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole


@lru_cache(maxsize=16)
def _one_round(noise: float, rate: float, interval: float, mirrored: bool) -> Any:
    if mirrored and rate < 1:
        return _mirrored(noise, rate, interval)
    return from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=interval)


def _mirrored(noise: float, rate: float, interval: float) -> Any:
    """The pair that dominates a fixed-size sample in both directions of "replace one client".

    Zhu, Dong, Wang (2022): delta(e) = H_e((1-q)Q + qP || Q) for e >= 0 and, the relation being symmetric,
    1 - exp(e) + exp(e) delta(-e) for e < 0. Only this whole profile may be composed over rounds.
    """
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(
        noise, sampling_prob=rate, adjacency_type=privacy_loss_mechanism.AdjacencyType.REMOVE
    )
    top = math.ceil(loss.connect_dots_bounds().epsilon_upper / interval)
    grid = np.arange(top + 1) * interval
    right = np.asarray(loss.get_delta_for_epsilon(grid))
    below = -grid[:0:-1]
    left = -np.expm1(below) + np.exp(below) * right[:0:-1]
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -top, top, np.concatenate([left, right]))
    )
