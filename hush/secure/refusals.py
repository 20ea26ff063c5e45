"""What a server refused: a sentence each, up to a limit, and a limit for each client."""

from collections import Counter

from hush.errors import Mistake

SENTENCES = 10_000  # on refused messages that are kept
REFUSALS = 1_000  # messages of one client in one round, after which none of it is looked at


class Refusals:
    """The sentences on refused messages of one round."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self._counts: Counter[int] = Counter()

    def check(self, client: int) -> None:
        """Refuse a client of whom too many were refused, before any work is done on its message."""
        if self._counts[client] >= REFUSALS:
            raise Mistake(f"{REFUSALS} of its messages were refused in this round: none is looked at any more")

    def note(self, client: int, why: Mistake, known: bool) -> None:
        """A message of a client, `known` if it is of the cohort, was refused."""
        if not known or self._counts[client] <= REFUSALS:  # the last sentence says that there will be no more
            self.report(f"client {client} refused: {why}")
        if known:  # who is not has any number it likes
            self._counts[client] += 1

    def report(self, sentence: str) -> None:
        """One more sentence, if there is room."""
        if len(self.sentences) < SENTENCES:
            self.sentences.append(sentence)
