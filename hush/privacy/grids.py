"""How finely updates are rounded, and how many bits their sum takes: chosen before any data is seen.

The grid is the bound of an update divided by `steps`, so every length here is in steps of the grid. Rounding makes the
bound L a little longer than `steps`. Noise is sized by L, so that is what a grid costs: L / steps - 1 more noise.
"""

import math
from typing import Literal, NamedTuple

from hush.errors import Mistake
from hush.random.tables import NORMAL, SKELLAM

NoiseKind = Literal["skellam", "gaussian"]
KINDS: tuple[NoiseKind, ...] = ("skellam", "gaussian")

BETA = math.exp(-0.5)  # the probability that a rounding is taken anew is at most this
MOST = 2.0**25  # the longest row, in steps: squares add up exactly in float64, in whatever order
LEAST_SHARE = 1.5  # deviation of a discrete Gaussian share: with less, sums of shares are no longer close to normal
DEVIATIONS = 4  # of the sum that have room on either side: a wrap costs accuracy, never privacy
BITS = range(2, 33)
_SPARE = 0.99  # of the widest noise that can be drawn: a run may take a little more than it was asked for
_PER_STEP = 1000  # steps are searched in thousandths


class Grid(NamedTuple):
    """steps: the bound over the grid; bits: of a coordinate; loss: what rounding adds to the noise, 0.05 for 5 %."""

    steps: float
    bits: int
    loss: float


def rounded_norm(length: float, size: int, beta: float = BETA) -> float:
    """The bound after rounding, of `size` numbers with norm at most c = `length`, both in steps of the grid:

    min{ c + sqrt(d), sqrt(c^2 + d/4 + sqrt(2 ln(1/beta)) (c + sqrt(d)/2)) }; the second is exceeded with probability
    beta at most in one try (Kairouz, Liu, Steinke 2021).
    """
    root = math.sqrt(size)
    likely = length**2 + size / 4 + math.sqrt(2 * math.log(1 / beta)) * (length + root / 2)
    return min(length + root, math.sqrt(likely))


def loss(steps: float, size: int, beta: float = BETA) -> float:
    """How much longer the bound is after rounding, and so how much more noise hides it: L / steps - 1."""
    return rounded_norm(steps, size, beta) / steps - 1 if steps > 0 else math.inf


def room(steps: float, size: int, clients: float, floor: float, noise: float, beta: float = BETA) -> float:
    """What 2^bits must be at least: 2 k sqrt((steps n)^2 / d + n/4 + (noise L)^2 n / floor), k = 4.

    The sum of n updates, the same for all and spread over d coordinates in the worst case that is likely, has
    steps n / sqrt(d) in each; rounding and the shares of noise add their variances.
    """
    shares = (noise * rounded_norm(steps, size, beta)) ** 2 / floor
    return 2 * DEVIATIONS * math.sqrt((steps * clients) ** 2 / size + (0.25 + shares) * clients)


def finest(
    bits: int, size: int, clients: float, floor: float, noise: float, beta: float = BETA, kind: NoiseKind = "skellam"
) -> float:
    """The most steps, in thousandths, whose sum has room in `bits` and whose noise can be drawn; 0 where not even one.

    clients  n, as many as a sum may have
    floor    the fewest of them that stay; shares of noise are sized for it
    noise    multiplier of the sum's noise by L; 0: none
    """
    _check(size, clients, floor, noise, beta, kind)
    if bits not in BITS:
        raise Mistake(f"bits={bits} must be from {BITS[0]} to {BITS[-1]}: how many a coordinate takes on the wire")
    most = _SPARE * (math.sqrt(SKELLAM[1]) if kind == "skellam" else NORMAL[1])

    def fits(thousandths: int) -> bool:
        steps = thousandths / _PER_STEP
        return (
            room(steps, size, clients, floor, noise, beta) <= 2**bits
            and noise * rounded_norm(steps, size, beta) * math.sqrt(clients / floor) <= most  # with all shares
            and steps + math.sqrt(size) <= MOST
        )

    low, high = _PER_STEP - 1, math.floor(MOST * _PER_STEP) + 1  # a grid coarser than the bound is of no use
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low / _PER_STEP if low >= _PER_STEP else 0.0


def settle(
    size: int,
    clients: float,
    floor: float,
    noise: float,
    *,
    bits: int | None = None,
    rounding: float = 0.05,
    beta: float = BETA,
    kind: NoiseKind = "skellam",
) -> Grid:
    """The finest grid of these bits, or else of the fewest bits at which rounding adds at most `rounding` to it.

    See `finest` for the numbers. Discrete Gaussian shares have a deviation of LEAST_SHARE at least.
    """
    if bits is not None:
        found = _of_bits(bits, size, clients, floor, noise, beta, kind)
        if found is None:
            raise Mistake(
                f"bits={bits} are too few for a sum of {clients:g} clients at noise={noise:g}: take more bits, fewer"
                f" clients or less noise{'' if kind == 'skellam' else ', or kind=skellam'}"
            )
        return found
    if not 0 < rounding < math.inf:
        raise Mistake(f"rounding={rounding:g} must be positive and finite: the extra noise it may add, as 0.05")
    for more in BITS:
        found = _of_bits(more, size, clients, floor, noise, beta, kind)
        if found is not None and found.loss <= rounding:
            return found
    raise Mistake(
        f"rounding={rounding:g} is out of reach within {BITS[-1]} bits for {size} coordinates, {clients:g} clients and"
        f" noise={noise:g}: raise it, or take fewer clients or less noise"
        + ("" if kind == "gaussian" or noise == 0 else ", or kind=gaussian")
    )


def _of_bits(
    bits: int, size: int, clients: float, floor: float, noise: float, beta: float, kind: NoiseKind
) -> Grid | None:
    """The finest grid, if there is one and clients can draw shares of noise on it."""
    steps = finest(bits, size, clients, floor, noise, beta, kind)
    share = noise * rounded_norm(steps, size, beta) / math.sqrt(floor)
    least = LEAST_SHARE if kind == "gaussian" else math.sqrt(SKELLAM[0])
    if steps == 0 or (noise > 0 and share < least):
        return None
    return Grid(steps, bits, loss(steps, size, beta))


def _check(size: int, clients: float, floor: float, noise: float, beta: float, kind: NoiseKind) -> None:
    if size < 1:
        raise Mistake(f"size={size} must be at least 1: give the number of coordinates")
    if not 1 <= clients < math.inf:
        raise Mistake(f"clients={clients:g} must be at least 1 and finite: give as many as a sum may have")
    if not 0 < floor <= clients:
        raise Mistake(f"floor={floor:g} must be positive and at most clients={clients:g}: the fewest that stay")
    if not 0 <= noise < math.inf:
        raise Mistake(f"noise={noise:g} must be zero or positive and finite: give a noise multiplier")
    if not 0 < beta < 1:
        raise Mistake(f"beta={beta:g} must lie between 0 and 1: the probability that a rounding is taken anew")
    if kind not in KINDS:
        raise Mistake(f"kind={kind} is not known: take one of {', '.join(KINDS)}")
