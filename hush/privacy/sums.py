"""What the privacy card says of secure sums, and of the whole noise in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hush.grids import Kind
from hush.privacy.views import stated

Secure = Literal["full", "simulated"]  # the whole protocol; numbers that were added without masks

_PUBLISHED = {
    "skellam": "RDP of Skellam noise (Agarwal, Kairouz, Liu 2021)",
    "gaussian": "RDP of summed discrete Gaussians (Kairouz, Liu, Steinke 2021)",
}


@dataclass(frozen=True)
class WholeNoise:
    """Integer noise on updates that were rounded to a grid.

    kind    of the shares
    bits    of a number: sums are modulo 2^bits
    steps   of the grid in the bound of an update
    size    how many numbers
    l2      L, the bound after rounding, in steps
    noise   deviation of the summed noise over L
    loss    what rounding adds to the noise: L / steps - 1
    published_epsilon   the model view's by the published bounds; see hush.privacy.integers
    """

    kind: Kind
    bits: int
    steps: float
    size: int
    l2: float
    noise: float
    loss: float
    published_epsilon: float | None = None


def described(whole: WholeNoise, tolerance: float) -> dict[str, Any]:
    """The noise of whole numbers, and what others would count it as."""
    epsilon = whole.published_epsilon
    return {
        "kind": whole.kind,
        "bits": whole.bits,
        "steps": whole.steps,
        "size": whole.size,
        "l2": whole.l2,
        "noise": whole.noise,
        "loss": whole.loss,
        "sized_for": 1 - tolerance,
        "published": None if epsilon is None else {"epsilon": stated(epsilon), "how": _PUBLISHED[whole.kind]},
    }


def noise(found: Mapping[str, Any]) -> str:
    """The same as a sentence."""
    kind = "Skellam" if found["kind"] == "skellam" else "discrete Gaussian"
    rounded = f"a grid of {found['steps']:g} steps to the bound, {found['l2']:.4g} after rounding"
    fraction = f"{found['sized_for']:.0%} of a cohort"
    return (
        f"{kind}, {found['noise']:.4g} times the bound; {found['size']} numbers of {found['bits']} bits on {rounded},"
        f" which adds {found['loss']:.1%} to the noise; shares are sized for {fraction}, and fewer abort the round"
    )


def protocol(found: Mapping[str, Any]) -> str:
    """How uploads were added, as a sentence."""
    servers = "one server" if found["servers"] == 1 else "two servers"
    run = "the whole protocol was run" if found["protocol"] == "full" else "simulated: added without masks"
    league = f"up to {found['corrupt']:.0%} of a cohort, rounded up, in league with the server"
    return f"{servers}, {run}; made for {league}"


def standing(secure: Secure | None, servers: int) -> list[str]:
    """What a secure sum rests on."""
    found = []
    if secure is not None and servers == 2:
        found.append("server: the two servers do not tell each other what they receive")
    if secure == "simulated":
        found.append("masks were left out in this simulation; a test holds the sum bit-identical")
    return found


def shared(kind: Kind | None, corrupt: float, tolerance: float) -> list[str]:
    """What noise in shares rests on, where a part of a cohort may help the server."""
    found = []
    if corrupt > 0:
        left = max(0.0, 1 - corrupt / (1 - tolerance)) ** 0.5
        found.append(
            f"server: in league with {corrupt:.0%} of a cohort it subtracts their noise shares, and faces {left:.2f}"
            " of the stated noise"
        )
    if kind == "gaussian":
        found.append(
            "model, server: the law of summed discrete Gaussians tells, if only just, how many shares there are;"
            " with and without a client they are taken as equally many. Skellam noise does not tell"
        )
    return found
