"""The recommended schemes: a linear head on public features of the data."""

from collections.abc import Mapping

from hush.catalogue.forms import CORRELATED, SHARES, Entry, Protection
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.parts.sampling import Once, Poisson
from hush.parts.stages import Clip


def linear_head(k: Settings) -> Scheme:
    """A linear head on public features of the data trains and travels both ways; nothing is protected."""
    return Scheme(k.linear(), k.cohorts())


Values = Mapping[str, object]


def _head(name: str, usual: Values, tables: Values, protection: Protection = SHARES) -> Entry:
    return Entry(name, "hush", linear_head, protection, {**_HEAD, **usual}, featured=True, tables=tables)


# All was chosen on held-out clients of Fashion-MNIST: experiments/frontier, choices.csv.
_HEAD = {"rate": 30.0, "steps": 5, "batch": None, "clip": Clip(0.3), "downlink_bits": 8}
_BEST = {"rounds": 60, "blocks": 5, "ridge": 1.5, "momentum": 0.3, "server_rate": 100.0, "average": 0.6}
_TINY = {"rounds": 30, "blocks": 6, "ridge": 0.7, "momentum": 0.3, "server_rate": 100.0, "average": 0.5}
_ONCE = {"rounds": 13, "blocks": 5, "ridge": 0.5, "momentum": 0.3, "server_rate": 128.0}
_LATER = {"rounds": 16, "momentum": 0.7, "server_rate": 80.0, "average": 0.6}
# All columns move each round there: more visits, so that more is kept of a step.
_BEST_ROWS = {"blocks": 1, "momentum": 0.8, "server_rate": 36.0, "average": 0.5}
_TINY_ROWS = {"blocks": 1, "momentum": 0.8, "server_rate": 53.0, "average": 0.7}
_ONCE_ROWS = {"blocks": 1, "momentum": 0.5, "server_rate": 80.0, "average": 0.3}
ENTRIES = (
    _head("hush", {**_BEST, "sampling": Poisson(1 / 20), "features": 600, "scattering_order": 2}, _BEST_ROWS),
    _head("hush-tiny", {**_TINY, "sampling": Poisson(1 / 60), "features": 197, "scattering_order": 1}, _TINY_ROWS),
    _head("hush-once", {**_ONCE, "sampling": Once(13), "features": 399, "scattering_order": 2}, _ONCE_ROWS),
    _head("hush-trusted", {**_LATER, "sampling": Once(16), "features": 400, "scattering_order": 2}, {}, CORRELATED),
)
