"""Functions of the user's own: file.py:function."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from hush.errors import Mistake


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
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Mistake(f"{path} cannot be loaded: {first_line(error)}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise Mistake(f"{path} has no function {name!r}: give file.py:function")
    return cast(Callable[..., Any], found)


def call(reference: str, *arguments: object) -> Any:
    """What the named function returns; whatever it raises is the user's."""
    named = function(reference)
    try:
        return named(*arguments)
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(f"{reference} fails: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
