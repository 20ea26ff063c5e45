"""What carries messages between a server and its clients: one phase at a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hush.errors import Refused

Messages = Mapping[int, bytes]  # by client


class Channel(Protocol):
    """Brings each client its message and its answer back. Who does not answer in time is not among the answers."""

    def phase(self, name: str, messages: Messages, timeout: float | None) -> tuple[dict[int, bytes], dict[int, str]]:
        """The answers by client, and of clients that refused, why; who is in neither has dropped out."""
        ...


class Line(Protocol):
    """A party's end of a network, which hands bytes over between the server and its sites."""

    def start(self) -> None:
        """Be there for peers."""
        ...

    def send(self, peer: str, data: bytes) -> bool:
        """Hand the bytes over; False where the peer is known to be away."""
        ...

    def stop(self) -> None:
        """Close."""
        ...


class Answers(Protocol):
    """A client as a channel sees it."""

    def answer(self, data: bytes) -> bytes:
        """Its answer; Refused where it does not take part."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Sessions in this process, one after the other, each opened when it is first asked for.

    `lost(name, client)`: whether a client is gone in a phase. `line(name, client, data)`: what becomes of an answer on
    its way.
    """

    session: Callable[[int], Answers]
    lost: Callable[[str, int], bool] | None = None
    line: Callable[[str, int, bytes], bytes] | None = None

    def phase(self, name: str, messages: Messages, timeout: float | None) -> tuple[dict[int, bytes], dict[int, str]]:
        """In the order of the messages."""
        answers: dict[int, bytes] = {}
        refused: dict[int, str] = {}
        for client, data in messages.items():
            if self.lost is not None and self.lost(name, client):
                continue
            try:
                said = self.session(client).answer(data)
            except Refused as why:
                refused[client] = str(why)
                continue
            answers[client] = said if self.line is None else self.line(name, client, said)
        return answers, refused
