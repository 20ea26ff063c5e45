"""The worst pair of neighbours through the stages of a scheme, many times, and what that proves of epsilon.

The pair is one client, with an update longer than its bound, and nobody. The attacker knows the update and whatever the
other clients add. It takes that off the sum of a round, so that of the others only their shares of noise are left, and
measures how far the rest goes in the direction of the client: against Gaussian noise there is no better test.
"""

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from hush.audit.bounds import Bound, Floats, lower_bound
from hush.core.integers import centred
from hush.core.protocols import Source, Stage
from hush.core.spec import ClientContext, Plan, ServerContext, Spec, Total
from hush.errors import Mistake
from hush.privacy.accountants import Release, epsilon
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed

BLOCK = 2**12  # trials that are in memory together; a part of the draws: another number is other trials
EXCESS = 10.0  # how many times its bound an update is long, so that the clip has to work


@dataclass(frozen=True)
class Audit:
    """`accounted` is the epsilon that hush states for one release, `bound` what so many trials of it show.

    A bound above `accounted` is a proof, at the confidence that was asked for, that what is stated does not hold.
    A bound below is no proof that it does.
    """

    accounted: float
    bound: Bound
    trials: int

    @property
    def holds(self) -> bool:
        """Whether the trials agree with what is stated."""
        return self.bound.epsilon <= self.accounted


def audit(
    stages: tuple[Stage, ...],
    size: int,
    delta: float,
    *,
    floor: int = 1,
    trials: int = 10**6,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """One release of `floor` clients without sampling, under "add or remove one client", `trials` times in each world.

    The stages end with the Source of the noise; the update in front of them has `size` numbers.
    """
    present, absent = scores(stages, size, floor=floor, trials=trials, seed=seed)
    return Audit(accounted(stages, size, delta, floor=floor), lower_bound(present, absent, delta, confidence), trials)


def accounted(stages: tuple[Stage, ...], size: int, delta: float, *, floor: int = 1) -> float:
    """The epsilon of one release, from what its Source says that the noise is worth to readers of the sum."""
    source, specs = _checked(stages, size, floor)
    return epsilon([Release(source.multipliers(specs[-2], _plan(0, floor), floor).model, 1.0)], delta)


def scores(
    stages: tuple[Stage, ...], size: int, *, floor: int = 1, trials: int = 10**6, seed: int = 0
) -> tuple[Floats, Floats]:
    """How far each sum goes in the client's direction: of `trials` sums with the client, and of as many without.

    Each sum has `floor` shares of noise, since shares are sized by the cohort: with the client one of them is its own.
    """
    _checked(stages, size, floor)
    if trials < 1:
        raise Mistake(f"trials={trials} must be at least 1: 1,000,000 are usual")
    secret = SecretSeed.simulated(seed)
    # The attacker rehearses what the client may add, with draws of its own.
    rehearsed = _updates(stages, size, _plan(0, floor), secret)
    direction = rehearsed.double().mean(0)
    direction /= direction.norm()
    nothing = torch.zeros_like(rehearsed)
    present, absent = [], []
    for number in range(1, 2 * math.ceil(trials / BLOCK), 2):  # draws are named by the round, and no two are of one
        one, other = _plan(number, floor), _plan(number + 1, floor)
        added = _updates(stages, size, one, secret)
        present.append(_released(stages, size, one, added, secret) @ direction)
        absent.append(_released(stages, size, other, nothing, secret) @ direction)
    return torch.cat(present).numpy()[:trials], torch.cat(absent).numpy()[:trials]


def _updates(stages: tuple[Stage, ...], size: int, plan: Plan, secret: SecretSeed) -> Tensor:
    """What the client adds to the sum before the noise: BLOCK trials, one row each, as if of so many clients."""
    specs = _specs(stages, size)
    bound = next(s.l2 for s in specs if s.l2 < math.inf)
    x = torch.full((BLOCK, size), EXCESS * bound / math.sqrt(size))
    for stage, spec in zip(stages[:-1], specs, strict=False):
        x = stage.encode(x, ClientContext(spec, plan, torch.ones(BLOCK), Draws(secret, tuple(range(BLOCK)))))
    return x


def _released(stages: tuple[Stage, ...], size: int, plan: Plan, added: Tensor, secret: SecretSeed) -> Tensor:
    """The noisy sums of all trials, as the server has them when the Source has done its part.

    A Source treats all numbers alike. So the trials of a block are one long update to it, of which the first client
    adds what is in it and every client its share of noise: one round of a large model, in place of many small ones.
    """
    floor = int(plan.floor)
    source, specs = _checked(stages, size, floor)
    ctx = ClientContext(specs[-2], plan, torch.ones(floor), Draws(secret, tuple(range(floor))))
    x = torch.zeros(floor, added.numel(), dtype=added.dtype)
    x[0] = added.flatten()
    rows = source.encode(x, ctx)
    body = rows.sum(0, dtype=torch.float64 if rows.is_floating_point() else torch.int64)
    modulus = specs[-1].form.modulus
    if modulus is not None:
        body = centred(body, modulus)
    return (
        source.decode(Total(body, floor, float(floor)), ServerContext(ctx.spec, plan, secret))
        .body.double()
        .view(added.shape)
    )


def _specs(stages: tuple[Stage, ...], size: int) -> list[Spec]:
    specs = [Spec(size)]
    for stage in stages:
        specs.append(stage.spec(specs[-1]))
    return specs


def _plan(round: int, floor: int) -> Plan:
    """Of a round in which as many take part as the noise relies on."""
    return Plan(round, torch.empty(0), None, cohort=floor, floor=floor)


def _checked(stages: tuple[Stage, ...], size: int, floor: int) -> tuple[Source, list[Spec]]:
    """The Source, and the Spec before each stage and after the last."""
    if size < 1 or floor < 1:
        raise Mistake(f"size={size} and floor={floor} must be at least 1: the numbers of an update, and the clients")
    last = stages[-1] if stages else None
    if last is None or last.level is None:
        raise Mistake(f"{last} adds no noise that could be audited: let the stages end with Noise or IntegerNoise")
    specs = _specs(stages, size)
    if specs[-1].size != specs[-2].size:
        raise Mistake(f"{last} sends other numbers than it gets, and the audit takes their sum as it is: take Clip(c)")
    return cast(Source, last), specs
