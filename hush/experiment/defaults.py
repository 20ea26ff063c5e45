"""Which settings a scheme of the catalogue has, and what they are where nobody gives them."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from hush.catalogue.forms import Entry
from hush.catalogue.values import Settings
from hush.experiment.own import entry
from hush.experiment.population import DataDefaults
from hush.experiment.settings import SETTINGS, Config, Setting
from hush.parts.stages import Clip

_HOLDERS: dict[str | None, Callable[[Entry, Setting], bool]] = {
    None: lambda found, one: one.table != "model" or one.name != "name" or not found.featured,
    "part": lambda found, one: found.has(one.name),
    "private": lambda found, one: found.private,
    "features": lambda found, one: found.featured,
    "travels": lambda found, one: not found.example.baseline,
}
_TAKEN = {field.name for field in fields(Settings)} - {"clip", "noise", "balance", "share"}


def of_scheme(name: str) -> list[Setting]:
    """The settings that the scheme listens to, with its own defaults in place of the common ones."""
    found = entry(name)
    own = _defaults(found)
    return [
        replace(one, default=own.get(one.key, one.default)) for one in SETTINGS.values() if _HOLDERS[one.of](found, one)
    ]


def values(config: Config, found: Entry, defaults: DataDefaults) -> Settings:
    """What the configuration, the scheme's own paper or the data's defaults say, in this order.

    The noise, the clip, the sampling and what is done about a rare class are found later.
    """
    given = {**config.scheme.model_dump(exclude_none=True), **config.train.model_dump(exclude_none=True)}
    given = {key: given[key] for key in given.keys() & _TAKEN}
    if isinstance(given.get("features"), str):  # a function, which says by itself how many there are
        del given["features"]
    usual = {key: value for key, value in found.usually(given, config.run.rounds).items() if key != "sampling"}
    settled = {"rate": defaults.rate, "clip": Clip(1.0), **usual, **given, "seed": config.run.seed}
    if settled.get("batch") == "all":
        settled["batch"] = None
    return Settings(**settled)


def _defaults(found: Entry) -> dict[str, Any]:
    """The usual settings of the scheme's paper, by the keys of a configuration."""
    sampling = found.example.sampling
    own: dict[str, Any] = {"scheme.name": found.name, "sampling.kind": sampling.kind}
    for part in (found.example.coordinates, *found.example.stages, found.example.step):
        own |= {f"scheme.{name}": getattr(part, name) for name in getattr(part, "settings", ()) if hasattr(part, name)}
    for name, value in found.usual.items():
        if name in ("sampling", "clip"):
            continue
        key = {"clients": "data.clients", "rounds": "run.rounds"}.get(name)
        own[key or next(one for one in SETTINGS if one in (f"scheme.{name}", f"train.{name}"))] = value
    if "train.batch" in own and own["train.batch"] is None:
        own["train.batch"] = "all"
    if "train.epochs" in own:
        own["train.steps"] = None
    clip = found.usual.get("clip")
    if clip is not None and clip.constant is not None:
        own["scheme.clip"] = clip.constant
    return own
