"""The user's mistakes: one sentence that names the value, the rule and the remedy."""


class Mistake(ValueError):
    """A wrong input. The command line prints its sentence and exits with status 2."""


class Aborted(RuntimeError):
    """A round with fewer clients than it needs. Nothing of it is released. `refused`: uploads that were not taken."""

    refused: tuple[str, ...] = ()


class Stopped(Exception):
    """The user stopped a command. The text says how to go on with it."""
