"""One call at a time: what an object has not yet said, or not yet added, is taken by one thread alone."""

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Locked(Protocol):
    """An object with a lock of its own."""

    _lock: Lock


Self = TypeVar("Self", bound=Locked)
Given = ParamSpec("Given")
Found = TypeVar("Found")


def alone(method: Callable[Concatenate[Self, Given], Found]) -> Callable[Concatenate[Self, Given], Found]:
    """The method, for which a second thread waits until the first is through; it then finds what that one left."""

    @wraps(method)
    def locked(self: Self, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked
