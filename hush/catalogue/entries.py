"""Every scheme by name."""

import difflib
import math
from dataclasses import fields
from numbers import Real
from typing import Any

from pydantic import ValidationError

from hush.catalogue import compressors, constrained, hospitals, recommended, two_bit
from hush.catalogue.forms import Entry
from hush.catalogue.settings import OWN, RENAMED, SchemeTable, Table, TrainTable, nearest, sentence
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.errors import Mistake
from hush.parts.stages import AdaptiveClip, Clip

__all__ = ["ALIASES", "ENTRIES", "Entry", "entry", "scheme"]

ENTRIES: dict[str, Entry] = {
    found.name: found
    for paper in (constrained, hospitals, two_bit, compressors, recommended)
    for found in paper.ENTRIES
}
ALIASES = {"fl-bas-1": "fl-basic", "fl-bas-1-dp": "fl-basic-dp", "fedavg": "fl-std"}


# Settings that are refused where a scheme does not listen to them; a ratio one gives to many schemes, to compare them.
_HEARD = ("noise", "clip", "vote", *(name for name in OWN if name != "ratio"))


def remedy(name: str) -> str:
    """What to do about noise or a bound that an open scheme has not."""
    return f"take {name}-dp" if f"{name}-dp" in ENTRIES else "leave it out"


def entry(name: str) -> Entry:
    """The entry of this name; an unknown name is refused with the nearest one."""
    name = ALIASES.get(name, name)
    if name not in ENTRIES:
        near = difflib.get_close_matches(name, [*ENTRIES, *ALIASES], n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}? " if near else ""
        raise Mistake(f"scheme {name!r} is not known: {hint}`hush schemes` lists all")
    return ENTRIES[name]


def scheme(name: str, **settings: object) -> Scheme:
    """A published scheme by name. Keywords are the fields of Settings; `clip` may be a number.

    >>> scheme("fl-top-dp", ratio=0.01, clip=0.5, noise=1.2).private
    True
    """
    found = entry(name)
    given = {**found.usually(settings), **_checked(name, settings)}
    clip = given.get("clip", AdaptiveClip())
    if clip == "adaptive":
        clip = AdaptiveClip()
    elif isinstance(clip, Real):
        clip = Clip(float(clip))
    return found.scheme(Settings(**{**given, "clip": clip}))


def _bounds(clip: object) -> bool:
    if isinstance(clip, bool | str):
        return clip == "adaptive"
    return 0 < float(clip) < math.inf if isinstance(clip, Real) else callable(getattr(clip, "encode", None))


def _checked(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings, if each is known, of its declared type and range, and one that the scheme listens to."""
    known = {field.name: field for field in fields(Settings)}
    plain: dict[type[Table], dict[str, Any]] = {SchemeTable: {}, TrainTable: {}}
    for key, value in settings.items():
        if key in ("epsilon", "delta"):
            raise Mistake(f"{name} takes noise=... and no {key}: hush.fit(..., epsilon=E, delta=D) finds the noise")
        if key not in known:
            old = {old.partition(".")[2]: new.partition(".")[2] for old, new in RENAMED.items()}
            hint = f"it is now {old[key]}; " if key in old else nearest(key, known)
            raise Mistake(f"{name} has no setting {key!r}: {hint}choose from {', '.join(known)}")
        if value is None and known[key].default is not None and key != "batch":
            raise Mistake(f"{name}: {key} = None must be a value: leave it out for {known[key].default}")
        if key == "seed" and not isinstance(value, int):
            raise Mistake(f"{name}: seed = {value!r} must be an integer")
        if key == "vote" and value is not None and not (isinstance(value, int | float) and value > 0):
            raise Mistake(f"{name}: vote = {value!r} must be a positive number: the noise of the vote")
        if key == "sampling" and value is not None and not callable(getattr(value, "draw", None)):
            raise Mistake(f"{name}: sampling = {value!r} must be a hush.Fixed, Poisson or Once")
        if key == "clip" and not _bounds(value):
            raise Mistake(f"{name}: clip = {value!r} must be a number above 0, 'adaptive' or a Clip")
        for table, values in plain.items():
            if key in table.model_fields and key != "clip":
                values[key] = value
    for table, values in plain.items():
        try:
            table.model_validate(values)
        except ValidationError as error:
            raise Mistake(sentence(error, name)) from None
    for key in _HEARD:
        if settings.get(key) is not None and not entry(name).has(key):
            hint = "leave it out" if key in OWN else remedy(name)
            raise Mistake(f"{name} has no {key} to set: {hint}")
    return {key: None if key == "batch" and value == "all" else value for key, value in settings.items()}
