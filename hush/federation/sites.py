"""The server's side of a network: which sites are there, what they agreed to, and questions to them with a deadline."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Condition

from hush.errors import Refused
from hush.federation import certificates, envelopes
from hush.federation.envelopes import Envelope, Kind, greeting, proof
from hush.secure.keys import verify

GRACE = 5.0  # seconds in which a site whose connection ended may come back and still answer
OTHER_KEY = "it has not the key that is on the roster: renew or request its certificate"
Say = Callable[..., None]


@dataclass
class _Site:
    """What the server knows of a site. A process of it has a random name: another one knows nothing of a question."""

    connected: bool = False
    process: str = ""
    joined: bool = False
    introduction: str = ""  # of a second server
    records: int | None = None
    accepted: str = ""  # the digest of the charter
    gone: float = 0.0  # since when it is not connected
    taken: int = envelopes.NONE
    former: set[str] = field(default_factory=set)  # processes in whose place another came


@dataclass
class _Question:
    """One to each of some sites, under one number."""

    number: int
    data: dict[str, bytes]
    processes: dict[str, str] = field(default_factory=dict)  # who was asked
    answers: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class Sites:
    """The registered sites of a federation, over a line that carries bytes (hush.federation.cellnet.Cell).

    A site proves with its hello that it has the key of the roster (`keys`, by name): a certificate that was revoked, or
    one for earlier keys, is valid until it expires.
    `send(site, data)` hands bytes over and says whether the site was connected; `heard`, `joined` and `left` are for
    whoever hears of it. `welcome` goes to each process that says hello. A question is asked again, under the same
    number, of a process whose connection was cut meanwhile: it gives the same answer. Who does not answer by the
    deadline, is away for more than `grace` seconds or comes back as another process, has dropped out of the phase.
    `say(event, **facts)` is the log.
    """

    def __init__(
        self,
        keys: Mapping[str, bytes],
        federation: str,
        version: str,
        welcome: bytes,
        say: Say,
        grace: float = GRACE,
    ) -> None:
        self.names, self._keys, self._federation = tuple(keys), keys, federation
        self._version, self._welcome, self._say, self._grace = version, welcome, say, grace
        self.send: Callable[[str, bytes], bool] = lambda site, data: False
        self._sites = {name: _Site() for name in keys}
        self._changed = Condition()
        self._charter, self._digest = b"", ""
        self._number = secrets.randbits(62)  # of questions: those of a server before this one are not meant
        self._question: _Question | None = None

    def admit(self, certificate: bytes) -> None:
        """Refuse who is not on the roster with the key of its certificate, before it has any connection."""
        name = ""
        try:
            name, key = certificates.bound(certificate)
            if self._keys.get(name) != key:
                raise Refused(OTHER_KEY if name in self._keys else "it is not on the roster: ask the coordinator")
        except Refused as why:
            self._say("refused", site=name, why=str(why))
            raise

    def joined(self, site: str) -> None:
        """A site has connected; it says hello by itself."""

    def left(self, site: str) -> None:
        """A site's connection has ended."""
        with self._changed:
            found = self._sites.get(site)
            if found is not None and found.connected:
                found.connected, found.gone = False, time.monotonic()
                self._say("left", site=site)
                self._changed.notify_all()

    def heard(self, site: str, data: bytes | memoryview) -> None:
        """Bytes of a site."""
        try:
            if site not in self._sites:
                raise Refused("it is not on the roster")
            self._hear(site, self._sites[site], envelopes.unseal(data))
        except Refused as why:
            self._say("refused", site=site, why=str(why))
            self.send(site, envelopes.seal(Kind.REJECT, str(why)))

    def _hear(self, name: str, site: _Site, found: Envelope) -> None:
        with self._changed:
            if found.kind is Kind.HELLO:
                self._hello(name, site, found)
            elif not site.process:
                raise Refused("it has not said hello")
            elif found.kind is Kind.JOIN:
                records = found.facts.get("records")
                if records is not None and (type(records) is not int or not 1 <= records < 2**32):
                    raise Refused(f"records={envelopes.one_line(repr(records))[:64]} is no number of records")
                site.joined, site.records = True, records
                site.introduction = str(found.facts.get("second", ""))[:1024]
                self._say("joined", site=name)
                if self._charter and site.accepted != self._digest:
                    self.send(name, self._charter)
            elif found.kind is Kind.ACCEPT:
                site.accepted = envelopes.one_line(str(found.facts.get("charter", "")))[:64]
                self._say("accepted", site=name, charter=site.accepted[:16])
            elif found.kind is Kind.DECLINE:
                site.accepted = ""
                self._say("declined", site=name, why=found.sentence)
            elif found.kind in (Kind.ANSWER, Kind.REFUSAL):
                self._answer(name, site, found)
            else:
                raise Refused(f"{found.kind.name} is nothing that a site says")
            self._changed.notify_all()

    def _hello(self, name: str, site: _Site, found: Envelope) -> None:
        facts = found.facts
        version, process = (envelopes.one_line(str(facts.get(name, "")))[:64] for name in ("version", "process"))
        if version != self._version:
            raise Refused(f"it has hush {version}, and the server {self._version}: install the same version")
        if not verify(self._keys[name], proof(facts), greeting(self._federation, name, process)):
            raise Refused(OTHER_KEY)
        if process in site.former:
            raise Refused("another process came after it with the same kit: let one of them run")
        again = process == site.process
        if not again:
            site.former = {*site.former, site.process} - {""}
        # A process that agreed to the charter before, with this server or the one that it took over from, says so.
        site.accepted = envelopes.one_line(str(facts.get("charter", "")))[:64]
        site.joined = site.joined and again
        if not site.connected or not again:
            self._say("back" if again else "hello", site=name)
        site.connected, site.process = True, process
        self.send(name, self._welcome)
        if again:
            self._repeat(name)

    def _repeat(self, name: str) -> None:
        """Ask again what a cut connection may have lost."""
        question = self._question
        if question is not None and name in self._open(question):
            self.send(name, envelopes.ask(question.number, question.data[name], self._sites[name].taken))

    def _answer(self, name: str, site: _Site, found: Envelope) -> None:
        question = self._question
        if question is None or found.number != question.number or question.processes.get(name) != site.process:
            self._say("late", site=name)  # to a question whose deadline is past
            return
        if name in question.answers or name in question.refused:
            return  # the same once more, after a cut connection
        if found.kind is Kind.ANSWER:
            question.answers[name] = found.body
        else:
            question.refused[name] = found.sentence

    # What the coordinator does.

    def gather(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until so much is known of the sites; whether it is, when the time is up."""
        with self._changed:
            return self._changed.wait_for(ready, timeout)

    @property
    def missing(self) -> tuple[str, ...]:
        """Who has not joined."""
        return tuple(name for name, site in self._sites.items() if not site.joined)

    @property
    def absent(self) -> tuple[str, ...]:
        """Who is not connected."""
        return tuple(name for name, site in self._sites.items() if not site.connected)

    @property
    def registered(self) -> Mapping[str, int | None]:
        """The records of each site that has joined, as it said."""
        return {name: site.records for name, site in self._sites.items() if site.joined}

    def introduction(self, site: str) -> str:
        """Of a second server that has joined, as it said."""
        return self._sites[site].introduction

    def undecided(self, digest: str) -> tuple[str, ...]:
        """Who has not accepted the charter with this digest."""
        return tuple(name for name, site in self._sites.items() if site.accepted != digest)

    def present(self, digest: str) -> tuple[str, ...]:
        """Who is connected, or may be back in a moment, and has accepted the charter with this digest."""
        now = time.monotonic()
        return tuple(
            name
            for name, site in self._sites.items()
            if site.accepted == digest and (site.connected or now < site.gone + self._grace)
        )

    def offer(self, charter: bytes, digest: str) -> None:
        """The charter with this digest, to all who are there and all who come and have not accepted it."""
        with self._changed:
            self._charter, self._digest = charter, digest
            for name, site in self._sites.items():
                if site.connected and site.joined and site.accepted != digest:
                    self.send(name, charter)

    def over(self, sentence: str) -> None:
        """The run is finished."""
        with self._changed:
            for name, site in self._sites.items():
                if site.connected:
                    self.send(name, envelopes.seal(Kind.OVER, sentence))

    def took(self, site: str, round: int) -> None:
        """The upload of a site was taken in this round: it hears of it with the next question."""
        self._sites[site].taken = round

    def ask(
        self, messages: Mapping[str, bytes], digest: str, timeout: float | None
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Answers and refusals of those who gave them in time, to one question each, under this charter."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._number += 1
            question = self._question = _Question(self._number, dict(messages))
            same: dict[tuple[int, int], bytes] = {}  # a plan that is all sites' is held once, however many they are
            for name, data in messages.items():
                site = self._sites[name]
                if site.accepted == digest and (site.connected or time.monotonic() < site.gone + self._grace):
                    question.processes[name] = site.process
                    which = id(data), site.taken
                    if which not in same:
                        same[which] = envelopes.ask(question.number, data, site.taken)
                    self.send(name, same[which])
            same.clear()
            while waiting := self._open(question):
                now = time.monotonic()
                soon = [self._sites[name].gone + self._grace for name in waiting if not self._sites[name].connected]
                due = min([*soon, *([] if end is None else [end])], default=None)
                if end is not None and now >= end:
                    for name in waiting:
                        self._say("deadline", site=name)
                    break
                self._changed.wait(None if due is None else max(0.0, due - now))
            self._question = None
            return question.answers, question.refused

    def _open(self, question: _Question) -> list[str]:
        """Who was asked and may still answer."""
        now = time.monotonic()
        return [
            name
            for name, process in question.processes.items()
            if name not in question.answers
            and name not in question.refused
            and (site := self._sites[name]).process == process
            and (site.connected or now < site.gone + self._grace)
        ]
