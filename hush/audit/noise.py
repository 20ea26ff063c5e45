"""Whether the noise of a sum is as large as it counts for, and no client adds more to the sum than its bound."""

import math
from dataclasses import replace

import numpy as np
import torch
from scipy.special import chdtri
from torch import Tensor

from hush.audit.bounds import Floats
from hush.audit.trials import Trials, Turn
from hush.audit.worlds import Worlds
from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.events import replaced
from hush.privacy.facts import Finding
from hush.random.seeds import SecretSeed

WIDTH, DRAWS = 256, 64  # of noise that is drawn once for a sum: its numbers, and how often
DEVIATION = "the noise is normal"
_MEASURED = (
    "in one of these rounds, the deviation of the noise in the sum, where it is least: of the shares of clients, or of"
    " what a simulation draws once for all"
)
_LENGTH = "in one of these rounds, the longest contribution of a client to the sum, of common and of odd updates"


def of_noise(worlds: Worlds, seen: Trials, delta: float, miss: float, secret: SecretSeed) -> list[Finding]:
    """Whether the noise is as large as it counts for, whoever draws it, and no client adds more than its bound."""
    wide, moved = replace(worlds, size=max(worlds.size, WIDTH)), replaced(worlds.scheme.sampling.kind)
    both = zip(seen.noise, _at_once(wide, secret), strict=True)
    drawn = [[(worlds, noise), *((wide, one) for one in once)] for noise, once in both]
    tries = miss / sum(noise.shape[1] + 1 for turn in drawn for _, noise in turn)
    odd = float(worlds.odd(secret).double().norm(dim=1).max())
    found = []
    for turn, parts, added in zip(worlds.turns, drawn, seen.added, strict=True):
        for of, noise in parts:
            bound, worth = _counted(of, turn)
            deviation = _deviation(noise.numpy(), tries) / bound
            found.append(("noise", worth, moved / deviation if deviation else math.inf, _MEASURED))
        bound, worth = _counted(worlds, turn)
        longest = max(odd, float(added.double().norm(dim=1).max()))
        found.append(("bound", worth, moved * longest / bound / worth, _LENGTH))
    findings = [
        Finding(
            attack,
            "model",
            gaussian_epsilon(moved / worth, delta),
            gaussian_epsilon(mu, delta) if math.isfinite(mu) else math.inf,
            delta,
            1 - miss,
            DEVIATION,
            words,
        )
        for attack, worth, mu, words in found
    ]
    return [max((one for one in findings if one.attack == attack), key=_excess) for attack in ("noise", "bound")]


def _counted(worlds: Worlds, turn: Turn) -> tuple[float, float]:
    """The bound of a client's part in this turn's sum, and the multiplier that its noise counts for."""
    source, plan = worlds.scheme.source, worlds.plan(turn, worlds.cohort)
    assert source is not None
    spec = worlds.specs(plan.clip)[worlds.scheme.stages.index(source)]
    return spec.l2, source.multipliers(spec, plan, worlds.cohort).model


def _at_once(worlds: Worlds, secret: SecretSeed) -> list[list[Tensor]]:
    """Of each turn the noise that a simulation draws once for a whole sum, in many draws; nothing where it does not.

    As it is, and what numbers and what rounds differ by: two that share a draw differ by less than two of their own.
    """
    seeds = [SecretSeed.simulated(int.from_bytes(secret.key("at once", n)[:8])) for n in range(DRAWS)]
    rows = [torch.stack(turn) for turn in zip(*(worlds.at_once(seed) for seed in seeds), strict=True)]
    if not rows:
        return [[] for _ in worlds.turns]
    half = rows[0].shape[1] // 2
    found = [[one, (one[:, :half] - one[:, half : 2 * half]) / math.sqrt(2)] for one in rows]
    for before, now, parts in zip(rows, rows[1:], found[1:], strict=False):
        parts.append((now - before) / math.sqrt(2))
    return found


def _excess(found: Finding) -> float:
    return found.shown - (found.stated or 0.0)


def _deviation(noise: Floats, miss: float) -> float:
    """What the deviation is at most: of the number that has least, and of all together.

    A sum of n squares over their mean is taken as chi-squared of 2 n / v degrees of freedom, v being the variance of
    a square over its mean squared: 2, and n degrees, for normal noise.
    """
    squares = np.square(noise)
    limits = []
    for sums, one in ((squares.mean(0), squares), (squares.mean(), squares.mean(1))):
        least = float(np.min(sums))
        if least == 0:
            return 0.0
        varied = max(float(np.var(one / one.mean(0))), 2.0 / noise.shape[1])
        degrees = 2 * len(noise) / varied
        limits.append(least * degrees / float(chdtri(degrees, 1 - miss)))
    return math.sqrt(min(limits))
