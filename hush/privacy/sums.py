"""What the privacy card says of secure sums, and of the integer noise in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hush.privacy.events import Cohorts
from hush.privacy.grids import NoiseKind
from hush.privacy.views import stated

Secure = Literal["simulated", "full"]  # numbers that were added without masks; the whole protocol

_PUBLISHED = {
    "skellam": "RDP of Skellam noise (Agarwal, Kairouz, Liu 2021)",
    "gaussian": "RDP of summed discrete Gaussians (Kairouz, Liu, Steinke 2021)",
}


@dataclass(frozen=True)
class IntegerSum:
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

    kind: NoiseKind
    bits: int
    steps: float
    size: int
    l2: float
    noise: float
    loss: float
    published_epsilon: float | None = None


def described(whole: IntegerSum, tolerance: float) -> dict[str, Any]:
    """The noise of integers, and what others would count it as."""
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
    return (
        f"{servers}, {run}; made for up to {found['corrupt']:.0%} of a cohort, rounded up, that collude with the"
        " server. A secure sum shows the server the total of the uploads alone"
    )


def assumed(secure: Secure | None, servers: int) -> list[str]:
    """What a secure sum rests on."""
    found = []
    if secure is not None and servers == 2:
        found.append("server: the two servers do not share what they receive")
    if secure == "simulated":
        found.append("masks were left out in this simulation; a test holds the sum bit-identical")
    return found


def dropouts(
    secure: bool, sampling: Cohorts, trusted: bool, tolerance: float, dropout: float, slack: float
) -> list[str]:
    """What becomes of clients that drop out, and what is assumed of them."""
    found = []
    if not trusted:
        found += [
            "model: the server adds the noise shares of clients that drop out, and keeps them secret: the released"
            " noise has one variance, whoever was drawn and whoever answered",
            f"server: noise shares are sized for {1 - tolerance:.0%} of a cohort. "
            + (
                "A sum of fewer is not opened"
                if secure
                else "A round in which fewer answered is charged for the noise that was left, an unfinished one as if"
                " no fewer had"
            )
            + "; whether a client drops out does not depend on its data",
        ]
    if secure and sampling != "once" and dropout:
        found.append(
            f"model: a drawn client drops out with probability {dropout:g} at most, independently of the others. The"
            f" probability that one client then decides whether a sum is opened, {slack:.2g} a round, is charged to"
            " delta"
        )
    elif secure and sampling != "once":
        found.append(
            "model: no client drops out of a secure sum (dropout 0 was declared): an abort is seen by everybody, and"
            " none is accounted for; the run stops at the first dropout"
        )
    return found


def shared(kind: NoiseKind | None, corrupt: float) -> list[str]:
    """What noise in shares rests on, where a part of a cohort may help the server."""
    found = []
    if corrupt > 0:
        found.append(
            f"colluding: at most {corrupt:.0%} of a cohort, rounded up, reveal their noise shares to the server;"
            " server: nobody does"
        )
    if kind == "gaussian":
        found.append(
            "model, server: the distribution of summed discrete Gaussians reveals, if only just, how many shares there"
            " are; with and without a client they are taken as equally many. Skellam noise does not reveal it"
        )
    return found
