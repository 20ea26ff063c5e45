"""The recommended schemes: a linear head on public features of the data."""

from hush.catalogue.forms import CORRELATED, SHARES, Entry, Protection
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.sampling import Once, Poisson
from hush.parts.stages import Clip


def linear_head(k: Settings) -> Scheme:
    """A linear head on public features of the data trains and travels both ways; nothing is protected."""
    return Scheme(k.linear(), k.cohorts())


def _head(name: str, usual: dict[str, object], protection: Protection = SHARES) -> Entry:
    return Entry(name, "hush", linear_head, protection, {**_HEAD, **usual}, featured=True)


# All was chosen on held-out clients of Fashion-MNIST: experiments/frontier.
_HEAD = {"rate": 30.0, "steps": 5, "batch": None, "clip": Clip(0.3), "downlink_bits": 8}
_BEST = {"sampling": Poisson(1 / 20), "rounds": 60, "momentum": 0.8, "server_rate": 27.0, "average": 0.9}
_TINY = {"sampling": Poisson(1 / 60), "rounds": 15, "momentum": 0.8, "server_rate": 53.0, "average": 0.7}
_ONCE = {"sampling": Once(12), "rounds": 12, "momentum": 0.5, "server_rate": 80.0, "average": 0.3, "rate": 40.0}
_LATER = {"sampling": Once(16), "rounds": 16, "momentum": 0.7, "server_rate": 80.0, "average": 0.6}
ENTRIES = (
    _head("hush", {**_BEST, "features": 600, "scattering_order": 2}),
    _head("hush-tiny", {**_TINY, "features": 70, "scattering_order": 1}),
    _head("hush-once", {**_ONCE, "features": 233, "scattering_order": 2}),
    _head("hush-trusted", {**_LATER, "features": 400, "scattering_order": 2}, CORRELATED),
)
