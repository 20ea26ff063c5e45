"""Parts as canonical JSON, and back to equal values: keys sorted, no spaces, numbers exact.

A part is an object with its fields and, as "part", its name: that of the class for hush's own, "module:Class" for
others. To read is to look a name up among given classes. Nothing is imported, so that a text runs nobody's code.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hush.errors import Mistake

NAME = "part"


def name_of(kind: type) -> str:
    """The name of a part's class in the text."""
    own = kind.__module__.split(".")[0] == "hush"
    return kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}"


def to_json(part: object) -> str:
    """The canonical text of a part and of the parts in it."""
    return json.dumps(_plain(part, type(part)), sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(text: str, known: Iterable[type]) -> object:
    """The part that the text describes, of these classes."""
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_endless)
        return _value(found, {name_of(kind): kind for kind in known})
    except (ValueError, RecursionError) as error:
        raise Mistake(f"this is no JSON that describes a scheme ({error}): give what to_json wrote") from None


def _plain(value: object, hint: Any) -> Any:
    """The value in JSON's own types."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = get_type_hints(type(value))
        own = {each.name: _plain(getattr(value, each.name), hints[each.name]) for each in fields(value)}
        return {NAME: name_of(type(value)), **own}
    if isinstance(value, tuple):
        return [_plain(each, Any) for each in value]
    value = _real(value, hint)
    if isinstance(value, float) and not math.isfinite(value):
        raise Mistake(f"{value} cannot be written down: a part's numbers are finite")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise Mistake(f"{type(value).__name__} cannot be written down: make it a dataclass of numbers, words and parts")


def _value(found: Any, known: Mapping[str, type]) -> Any:
    """The value of what stands in the JSON."""
    if isinstance(found, list):
        return tuple(_value(each, known) for each in found)
    if not isinstance(found, dict):
        return found
    given = dict(found)
    name = given.pop(NAME, None)
    kind = known.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Mistake(f"the part {name!r} is not known here: give its class to read it with, or take one of hush's own")
    hints = get_type_hints(kind)
    wanted = {each.name for each in fields(kind)}
    if set(given) != wanted:
        raise Mistake(f"{name} has the fields {_listed(wanted)}, and not {_listed(given)}: give what to_json wrote")
    own = {key: _real(_value(value, known), hints[key]) for key, value in given.items()}
    for key, value in own.items():
        if not _fits(value, hints[key]):
            raise Mistake(f"{key}={value!r} does not fit {name}: it must be {_shown(hints[key])}")
    return kind(**own)


def _real(value: Any, hint: Any) -> Any:
    """An integer where a real number is meant is that number: equal parts have one text."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and float in kinds and int not in kinds and abs(value) < 2**1000 else value


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a field's type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(value == each and type(value) is type(each) for each in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    if hint in (bool, int, str, NoneType):
        return type(value) is hint
    if hint is float:
        return type(value) is float and math.isfinite(value)
    return hint in type(value).__mro__  # a part says its protocol by inheriting it


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _shown(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _endless(word: str) -> Any:
    raise ValueError(f"{word} is no number")
