"""What goes wrong: by the user, by a peer, in a round."""

import operator
from typing import Any

LONGEST = 200  # characters of another library's words in a sentence


class Mistake(ValueError):
    """A wrong input. The command line prints its sentence and exits with status 2."""


class Refused(ValueError):
    """A peer's message, plan or charter that is not taken, and why. The user did nothing wrong; the round goes on."""


class Aborted(RuntimeError):
    """A round with fewer clients than it needs. Nothing of it is released. `refused`: uploads that were not taken."""

    refused: tuple[str, ...] = ()


class Stopped(Exception):
    """The user stopped a command. The text says how to go on with it."""


def integer(name: str, value: Any) -> int:
    """A number that counts something, of Python's own kind; another is refused."""
    try:
        found = operator.index(value) if not isinstance(value, bool) else 0
    except TypeError:
        raise Mistake(f"{name}={value} must be at least 1, and an integer") from None
    if found < 1:
        raise Mistake(f"{name}={value} must be at least 1, and an integer")
    return int(found)


def first_line(error: Exception) -> str:
    """What an error says, in one line that is not too long."""
    found = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return found if len(found) <= LONGEST else f"{found[:LONGEST]}..."
