"""The order of a round, as the loop gives it to a cohort and as attacks suppose it."""

from torch import Tensor

from hush.core.scheme import Scheme
from hush.core.spec import Plan
from hush.core.task import Problem
from hush.random.seeds import PublicSeed


def planned(
    scheme: Scheme,
    problem: Problem,
    seed: PublicSeed,
    number: int,
    weights: Tensor,
    live: Tensor | None,
    *,
    drawn: int,
    mean: float,
    clip: float | None = None,
) -> Plan:
    """The public terms of round `number`, for a cohort of `drawn` clients whose expected number is `mean`.

    `weights` are those that clients have, `clip` the bound in force that a stage moves, if there is one. The shares of
    noise are sized for (1 - tolerance) drawn of them.
    """
    width = (weights if live is None else live).numel()
    bound = scheme.specs(width, clip)[-1].clip
    floor = round((1 - scheme.tolerance) * drawn, 9)  # 0.3 of 10 is 3, whatever the last bit
    seats = seed.generator("seats", number).permutation(drawn) if scheme.seated else None
    pool = scheme.coordinates.pool(problem, seed)
    return Plan(number, weights, live, mean, floor, bound, seats, scheme.spare, pool, scheme.joint)
