"""Functions of the user's own: file.py:function."""

import importlib.util
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, cast

from hush.catalogue import entries
from hush.catalogue.forms import Entry
from hush.catalogue.values import Settings
from hush.core.scheme import Scheme
from hush.errors import Mistake, first_line


def entry(name: str) -> Entry:
    """The scheme of this name: the catalogue's, or file.py:function, which builds one from Settings."""
    if name.endswith(".py"):
        raise Mistake(f"{name} is a file: name its function that builds the scheme, {name}:function")
    if ".py:" not in name:
        return entries.entry(name)
    named = function(name)

    @wraps(named)
    def build(settings: Settings) -> Scheme:
        found = _called(name, named, settings)
        if not isinstance(found, Scheme):
            raise Mistake(f"{name} returned a {type(found).__name__}: it must return a hush.Scheme")
        return found

    return Entry(name, "your own", build)


def function(reference: str) -> Callable[..., Any]:
    """The function that file.py:function names."""
    place, _, name = reference.rpartition(":")
    path = Path(place)
    if not path.is_file():
        raise Mistake(f"{path} is not there: give file.py:function")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # where dataclasses look for their module while they are made
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Mistake(f"{path} cannot be loaded: {first_line(error)}") from error
    finally:
        del sys.modules[path.stem]
        if before is not None:
            sys.modules[path.stem] = before
    found = getattr(module, name, None)
    if not callable(found):
        raise Mistake(f"{path} has no function {name!r}: give file.py:function")
    return cast(Callable[..., Any], found)


def call(reference: str, *arguments: object) -> Any:
    """What the named function returns; whatever it raises is the user's."""
    return _called(reference, function(reference), *arguments)


def _called(reference: str, named: Callable[..., Any], *arguments: object) -> Any:
    try:
        return named(*arguments)
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(f"{reference} fails: {first_line(error)}") from error
