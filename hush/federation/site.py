"""A site's side of a network: it says hello, joins, agrees to a charter and answers questions, one after the other."""

import queue
import secrets
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from hush.errors import Mistake, Refused
from hush.federation import envelopes
from hush.federation.envelopes import Envelope, Kind, greeting
from hush.federation.kit import Kit
from hush.secure.keys import Identity

SERVER = "server"
SOON = 3.0  # seconds until it is said that the server is not there, or does not let this site in
PATIENCE = 30.0  # seconds until it is said again
UNTOLD = "this site cannot take part, and its operator is told why"  # a Mistake may name what is in its files
Say = Callable[..., None]


class Agreed(Protocol):
    """A charter that was agreed to: what answers the questions under it."""

    @property
    def digest(self) -> str:
        """The charter's."""
        ...

    def answer(self, data: bytes, taken: int | None = None) -> bytes:
        """To a message of a round; Refused where the client does not take part."""
        ...


class Desk(Protocol):
    """What a site decides for itself: see hush.experiment.client."""

    def join(self, facts: dict[str, Any]) -> dict[str, Any]:
        """What it registers, given what the federation is about; Refused where it does not take part."""
        ...

    def agree(self, tensors: dict[str, Tensor], texts: dict[str, str]) -> Agreed:
        """To a charter, the public batch and the roster; Refused where it does not."""
        ...


class Site:
    """One process of a site. Everything that comes is handled by `run`, in the order in which it came.

    A question is answered once: the same one again, after a cut connection, gets the same bytes.
    """

    def __init__(self, own: Kit, desk: Desk, version: str, say: Say) -> None:
        self.send: Callable[[str, bytes], bool] = lambda peer, data: False
        self.refusal: Callable[[], str | None] = lambda: None  # why the server does not let it in, while it does not
        self._desk, self._say = desk, say
        self._process = secrets.token_hex(16)
        words = greeting(own.federation, own.name, self._process)
        self._hello = {
            "version": version,
            "process": self._process,
            "proof": Identity(own.identity_seed).sign(words).hex(),
        }
        self._inbox: queue.Queue[Envelope] = queue.Queue()
        self._agreed: Agreed | None = None
        self._charter = b""  # as it came
        self._joined: dict[str, Any] | None = None
        self._over = False
        self._there: bool | None = None  # the server; None until it was
        self._last = -1  # the number of the last question
        self._said = b""  # the answer to it

    def joined(self, peer: str) -> None:
        """The server is there."""
        if peer == SERVER:
            self._there = True
            self._say("connected")
            agreed = "" if self._agreed is None else self._agreed.digest
            self.send(SERVER, envelopes.seal(Kind.HELLO, {**self._hello, "charter": agreed}))

    def left(self, peer: str) -> None:
        """The connection has ended; the line connects again by itself."""
        if peer == SERVER and not self._over:
            self._there = False
            self._say("waiting")

    def heard(self, peer: str, data: bytes | memoryview) -> None:
        """Bytes of the server; others are not heard."""
        if peer != SERVER:
            return
        try:
            found = envelopes.unseal(data)
            self._over = self._over or found.kind is Kind.OVER
            self._inbox.put(found)
        except Refused as why:
            self._say("refused", why=str(why))

    def run(self) -> str:
        """Until the run is over: what the server said of it."""
        patience = SOON
        while True:
            try:
                found = self._inbox.get(timeout=patience)
            except queue.Empty:
                patience = PATIENCE
                self._wait()
                continue
            if found.kind is Kind.OVER:
                return found.sentence
            if found.kind is Kind.REJECT:
                raise Mistake(f"the server does not let this site take part: {found.sentence}")
            self._handle(found)

    def _wait(self) -> None:
        """Say that it waits, and why; a server that never let this site in is its operator's to see to."""
        if self._there and self._joined is not None:
            return
        why = None if self._there else self.refusal()
        if why is not None and self._there is None:
            raise Mistake(why)
        if why is not None:
            self._say("refused", why=why)
        self._say("waiting")

    def _handle(self, found: Envelope) -> None:
        if found.kind is Kind.WELCOME:
            self._join(found)
        elif found.kind is Kind.CHARTER:
            self._agree(found)
        elif found.kind is Kind.ASK:
            self._answer(found)
        else:
            self._say("refused", why=f"{found.kind.name} is nothing that a server says")

    def _join(self, found: Envelope) -> None:
        if self._joined is None:
            try:
                self._joined = self._desk.join(found.facts)
            except (Refused, Mistake) as why:
                raise self._declined(why) from why
        self.send(SERVER, envelopes.seal(Kind.JOIN, self._joined))

    def _agree(self, found: Envelope) -> None:
        if self._agreed is None or found.body != self._charter:
            try:
                self._agreed = self._desk.agree(*envelopes.unseal_tensors(found.body))
            except (Refused, Mistake) as why:
                raise self._declined(why) from why
            self._charter = found.body
        self.send(SERVER, envelopes.seal(Kind.ACCEPT, {"charter": self._agreed.digest}))

    def _declined(self, why: Refused | Mistake) -> Mistake:
        """Report to the server that this site does not take part; the sentence is for its operator."""
        said = envelopes.one_line(str(why)) if isinstance(why, Refused) else str(why)
        self.send(SERVER, envelopes.seal(Kind.DECLINE, said if isinstance(why, Refused) else UNTOLD))
        return Mistake(said)

    def _answer(self, found: Envelope) -> None:
        if found.number == self._last:
            self.send(SERVER, self._said)
            return
        try:
            if self._agreed is None:
                raise Refused("this site has agreed to no charter")
            data, taken = envelopes.asked(found)
            kind, said = Kind.ANSWER, self._agreed.answer(data, taken)
        except Refused as why:
            kind, said = Kind.REFUSAL, envelopes.one_line(str(why)).encode()
            self._say("refused", why=said.decode())
        self._last, self._said = found.number, envelopes.seal(kind, said, found.number)
        self.send(SERVER, self._said)
