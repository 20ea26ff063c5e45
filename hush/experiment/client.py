"""A site of a real federation: its rows, its policy, its ledger, and what it agrees to."""

import fcntl
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hush.core.task import Population
from hush.data import files
from hush.data.samples import Samples, Split
from hush.errors import Mistake, Refused
from hush.experiment.brief import Brief, is_table
from hush.experiment.consent import described
from hush.experiment.offer import Offer, opened
from hush.experiment.rules import Rules
from hush.federation.cellnet import Cell, Ears
from hush.federation.claims import Claims
from hush.federation.kit import Kit
from hush.federation.notebook import Notebook
from hush.federation.second import Second
from hush.federation.session import ClientSession
from hush.federation.site import Agreed, Desk, Site
from hush.models.inputs import fitted
from hush.privacy.ledger import Ledger
from hush.random.draws import Draws
from hush.random.seeds import SecretSeed
from hush.secure.keys import Identity
from hush.secure.sealed import introduction

Say = Callable[..., None]
FLUSH = 0.2  # seconds


@dataclass(frozen=True)
class _Answering:
    """A session under a charter."""

    session: ClientSession

    @property
    def digest(self) -> str:
        """The charter's."""
        return self.session.charter.digest

    def answer(self, data: bytes, taken: int | None = None) -> bytes:
        """To a message of a round."""
        return self.session.answer(data, taken)


@dataclass(frozen=True)
class Acceptance:
    """Which charters a party has accepted: by its operator's word, by rule, or before; on disk.

    by_rule: any charter that its rules allow is accepted, if its roster has nobody who was not on one before. The first
    roster is taken as it comes: read it with --show.
    """

    own: Kit
    accept: str | None
    by_rule: bool

    @property
    def _known(self) -> Path:
        return self.own.state / "accepted.json"

    def _remembered(self) -> dict[str, dict[str, str]]:
        return dict(json.loads(self._known.read_text())) if self._known.exists() else {}

    def check(self, offer: Offer) -> None:
        """Refuse a charter that nobody here has accepted, or a roster with others than those that were."""
        digest, known = offer.charter.digest, self._remembered()
        if digest in known:
            return
        if self.accept is not None and len(self.accept) >= 16 and digest.startswith(self.accept.lower()):
            return
        if self.accept is not None:
            raise Refused(f"the charter is {digest[:16]}, and this site's operator accepts {self.accept[:16]}")
        if not self.by_rule:
            raise Refused(
                f"the charter {digest[:16]} is not accepted: read it with --show, then --accept {digest[:16]}"
            )
        pinned = {name: key for one in known.values() for name, key in one.items()}
        now = {name: key.hex() for name, (_, key) in zip(offer.names, offer.roster, strict=True)}
        strangers = [name for name, key in now.items() if pinned and pinned.get(name) != key]
        if strangers:
            raise Refused(
                f"the roster has {strangers[0]}, which is not on one that this site accepted: read the charter with"
                f" --show, then --accept {digest[:16]}"
            )

    def remember(self, offer: Offer) -> None:
        """The charter and its roster: later charters that are accepted by rule have nobody else."""
        people = {name: key.hex() for name, (_, key) in zip(offer.names, offer.roster, strict=True)}
        files.write(self._known, json.dumps({**self._remembered(), offer.charter.digest: people}).encode())


@dataclass
class Office:
    """What a site decides: which rows it offers, which charters it accepts, and what it has spent.

    accept: the digest of a charter that the operator has read and accepts; charters that were accepted before are
    remembered, and rules may decide on others. look: see the charter in place of agreeing to it.
    """

    own: Kit
    data: Path | None
    rules: Rules
    say: Say
    accept: str | None = None
    code: Path | None = None
    look: bool = False
    seen: Offer | None = None
    _rows: dict[str, Samples] = field(default_factory=dict)

    @property
    def _acceptance(self) -> Acceptance:
        return Acceptance(self.own, self.accept, self.rules.by_rule)

    def join(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Load the rows; how many there are is said where the scheme needs it to be public."""
        asked = facts.get("records") is True
        if self.look and not asked:
            return {"records": None}
        brief = Brief.read(str(facts.get("problem")))
        rows = self._own(brief)
        if asked and brief.schema is not None and self.data is not None and is_table(self.data):
            self._tell(json.dumps([brief.schema, brief.vocabulary], sort_keys=True))
        self.say("data", records=len(rows), told=asked)
        return {"records": len(rows) if asked else None}

    def _tell(self, rules: str) -> None:
        """Refuse to count rows by ever other rules: each number would be an exact answer to the server's question."""
        place, key = self.own.state / "told.json", hashlib.sha256(rules.encode()).hexdigest()
        known = list(json.loads(place.read_text())) if place.exists() else []
        if known and key not in known and not self.look:
            raise Refused("the server asks how many records other rules keep than before: look at them with --show")
        files.write(place, json.dumps([*dict.fromkeys([*known, key])]).encode())

    def agree(self, tensors: dict[str, Tensor], texts: dict[str, str]) -> Agreed:
        """Open a session under the charter, if it is accepted."""
        offer = opened(self.own, tensors, texts, self.code)
        if self.look:
            self.seen = offer
            raise Refused("its operator is reading the charter")
        self._acceptance.check(offer)
        self.rules.check_scheme(offer.scheme)
        if self.own.name not in offer.names:
            raise Refused(f"{self.own.name} is the charter's second server, and not a site: start hush second")
        number = offer.names.index(self.own.name)
        rows = fitted(offer.problem.model, self._own(offer.brief))
        state, secret = self.own.state, self.own.simulation
        place = state / "ledger.json" if self.rules.ledger is None else self.rules.ledger
        draws = Draws(SecretSeed.system() if secret is None else SecretSeed.simulated(secret), (number,))
        session = ClientSession(
            offer.charter,
            offer.scheme,
            offer.problem,
            Population(rows, Split.of([range(len(rows))])),
            draws,
            identity=Identity(self.own.identity_seed),
            roster=offer.roster,
            ledger=Ledger.load(place) if place.exists() else Ledger(place, {"site": self.own.name}),
            claims=Claims(state / "claims.json"),
            policy=self.rules.policy,
            engine=offer.brief.trained,
            notebook=Notebook(state / f"memory-{offer.charter.digest[:16]}.safetensors"),
            ahead=True,
            simulation=secret is not None,
        )
        self._acceptance.remember(offer)
        self.say("agreed", charter=offer.charter.digest[:16], rounds=offer.charter.rounds)
        return _Answering(session)

    def _own(self, brief: Brief) -> Samples:
        """The site's rows as the problem has them; loaded once for each."""
        if self.data is None:
            raise Mistake("this site's rows are needed: name them with --data")
        if brief.json not in self._rows:
            self.rules.check_columns(brief.used)
            if self.rules.columns and brief.names_columns and is_table(self.data):
                raise Refused(
                    "the charter says what the columns of a table without a header are called, and this site offers"
                    " columns by name: give a schema.toml of your own with --data"
                )
            found = brief.rows(self.data, self.own.state)
            most = len(found) if self.rules.rows is None else min(self.rules.rows, len(found))
            self._rows[brief.json] = found if most == len(found) else found.rows(torch.arange(most))
        return self._rows[brief.json]


@dataclass
class Clerk:
    """What a second server decides: it has no rows, and adds up the masks of sums in halves."""

    own: Kit
    rules: Rules
    say: Say
    accept: str | None = None

    def join(self, facts: dict[str, Any]) -> dict[str, Any]:
        """How it introduces itself."""
        return {"records": None, "second": introduction(self.own.identity_seed).hex()}

    def agree(self, tensors: dict[str, Tensor], texts: dict[str, str]) -> Agreed:
        """To be the charter's second server."""
        offer = opened(self.own, tensors, texts)
        if offer.second != self.own.name:
            raise Refused(f"{self.own.name} is not the charter's second server: start hush client")
        acceptance = Acceptance(self.own, self.accept, self.rules.by_rule)
        acceptance.check(offer)
        found = Second(offer.charter, self.own.identity_seed, Claims(self.own.state / "claims.json"))
        acceptance.remember(offer)
        self.say("agreed", charter=offer.charter.digest[:16], rounds=offer.charter.rounds)
        return found


def help_out(own: Kit, rules: Rules, version: str, say: Say, accept: str | None = None) -> str:
    """Be the second server until the run is over: what the first one says of it."""
    return _stay(own, Clerk(own, rules, say, accept), version, say)


def take_part(
    own: Kit,
    data: Path | None,
    rules: Rules,
    version: str,
    say: Say,
    accept: str | None = None,
    code: Path | None = None,
    show: bool = False,
) -> str:
    """Until the run is over: what the server says of it. `show`: the charter in words, and no more."""
    office = Office(own, data, rules, say, accept, code, show)
    try:
        return _stay(own, office, version, say)
    except Mistake:
        if office.seen is None:
            raise
        return described(office.seen, rules)


@contextmanager
def only_one(own: Kit) -> Iterator[None]:
    """One process of a site at a time: the server would take each for the other."""
    with (own.state / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Mistake(f"another process takes part with {own.path}: wait for it, or stop it") from None
        yield


def _stay(own: Kit, desk: Desk, version: str, say: Say) -> str:
    """Connected, until the run is over."""
    with only_one(own):
        return _connected(own, desk, version, say)


def _connected(own: Kit, desk: Desk, version: str, say: Say) -> str:
    site = Site(own, desk, version, say)
    cell = Cell(own, Ears(site.heard, site.joined, site.left))
    site.send, site.refusal = cell.send, cell.refusal
    cell.start()
    try:
        return site.run()
    except OSError as error:
        if not files.full(error):
            raise
        where = error.filename or own.state
        raise Mistake(f"{where} cannot be written ({error.strerror}): make room, then start this again") from error
    finally:
        time.sleep(FLUSH)  # what was said last is still on its way
        cell.stop()
