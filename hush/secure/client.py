"""The client of a secure sum: bytes in, bytes out, and nothing that it could be made to say twice."""

import os
from collections.abc import Callable
from threading import Lock

import numpy as np
import numpy.typing as npt

from hush.errors import Aborted, Mistake
from hush.secure import bits, masks
from hush.secure.keys import (
    Agreement,
    Draw,
    Identity,
    agree,
    commitment,
    pair,
    pair_check,
    pair_key,
    private,
    public,
    seal,
    self_key,
)
from hush.secure.messages import (
    ADVERT,
    KEY,
    SIGNATURE,
    Dealt,
    Phase,
    from_client,
    listed,
    open_at_client,
    pack_set,
    signed,
    unpack_set,
    unpack_some,
)
from hush.secure.shares import deal
from hush.secure.terms import Terms
from hush.secure.turns import alone

Numbers = npt.NDArray[np.integer]


class Client:
    """One client in one round. The methods are its phases, in order, each at most once, from any thread.

    A message that is not right is refused with a Mistake: nothing was said, and the right one may still come. Terms
    that are broken (too few neighbours, survivors or signatures) are an Aborted, and the client is closed.

    Guarantee: the server learns of this client's numbers nothing but one sum over at least `threshold` clients. Among
    all neighbours that holds as long as at most `terms.corrupt` of the cohort collude with it. In a ring it holds as
    long as no honest client, this one or another, has too many colluders near: fewer than `shares` of its neighbours
    collude, and fewer than shares - degree / 2 of any degree / 2 clients in a row, of the committee too. `degree` makes
    that fail with a probability of at most `failure` in terms by the public rule; Terms.check_rule says whether they
    are. Of a neighbour's two shares one is revealed, once, and only after `terms.consents` of the committee have signed
    which clients survived.

    A client must not be copied, forked or restored from a snapshot in the middle of a round: each copy would answer
    once, and two answers of one phase open what one does not. After a restart it sits the round out.
    """

    def __init__(self, identity: Identity, terms: Terms, draw: Draw = os.urandom) -> None:
        keys = [key for _, key in terms.cohort]
        if identity.public not in keys:
            raise Mistake("this client's key is not in the cohort: the terms are meant for others")
        self.terms, self.seat = terms, keys.index(identity.public)
        self._identity, self._draw = identity, draw
        self._lock = Lock()  # one phase at a time; and what has a lock cannot be pickled
        self._phase = Phase.ADVERTISE
        # Replaced and never changed in place: what failed half-way has left no trace.
        self._seed = self._key = b""
        self._masks: dict[int, bytes] = {}  # the secret of the mask with each on the roster
        self._held: dict[int, tuple[bytes, bytes]] = {}  # shares of each on the roster, then of each that shared
        self._checks: dict[int, bytes] = {}  # of the mask with each that shared
        self._survivors: list[int] = []

    @alone
    def advertise(self) -> bytes:
        """A fresh public key, to agree on a secret with each neighbour."""
        self._at(Phase.ADVERTISE)
        self._identity.claim(self.terms.run, self.terms.round, self.terms.binding)
        self._key = self._draw(KEY)
        return self._say(b"", public(private(self._key)))

    @alone
    def share(self, roster: bytes) -> bytes:
        """Two secrets of which each neighbour on the roster has a share: the seed of the self mask, and a lock.

        Behind the lock are the secrets of the masks. What is published lets `shares` neighbours open either.
        """
        body, near, digest = self._read(Phase.SHARE, roster), self.terms.near(self.seat), self.terms.digest
        key, pairs = private(self._key), dict[int, Agreement]()
        own = public(key)
        for seat, entry in listed(body, near, ADVERT.size).items():
            other, signature = ADVERT.unpack(entry)
            if not signed(self.terms, Phase.ADVERTISE, seat, b"", other, signature):
                raise Mistake(f"the keys of client {self._name(seat)} do not have its signature")
            if other == own:
                raise Mistake(f"client {self._name(seat)} shows this client's own key")
            pairs[seat] = pair(agree(key, other), digest, self.seat, seat)
        self._need(len(pairs), self.terms.shares, "neighbours advertise keys")
        places = [place for place, seat in enumerate(near) if seat in pairs]
        rows = list(zip(*(one.dealt for one in pairs.values()), strict=True))
        (seed, of_seed), (lock, of_lock) = deal(places, rows, self.terms.shares)
        found = {seat: one.mask for seat, one in pairs.items()}
        box = seal(lock, digest, self.seat, self.seat, b"".join(found.values()))
        self._masks, self._held = found, {seat: one.held for seat, one in pairs.items()}
        self._seed, self._key = seed, b""  # neighbours have what may be needed
        said = Dealt(commitment(seed, digest, self.seat), of_seed.public, of_lock.public, box)
        return self._say(body, said.pack())

    @alone
    def mask(self, sharers: bytes, numbers: Numbers | Callable[[], Numbers]) -> bytes:
        """The numbers modulo 2^bits, plus the self mask, plus or minus a mask for each neighbour that shared.

        A function is asked for them when all else is right.
        """
        body = self._read(Phase.MASK, sharers)
        found = unpack_some(body, self.terms.near(self.seat))
        if not set(found) <= set(self._masks):
            raise Mistake("a neighbour is said to have shared its secrets that was not on the roster")
        self._need(len(found), self.terms.shares, "neighbours share their secrets")
        words = masks.residues(numbers() if callable(numbers) else numbers, self.terms.bits, self.terms.size)
        keys: dict[bool, list[bytes]] = {True: [self_key(self._seed, self.terms.digest, self.seat)], False: []}
        checks = {}
        for seat in found:
            secret = self._masks[seat]
            keys[self.seat < seat].append(pair_key(secret, self.terms.digest, self.seat, seat))
            checks[seat] = pair_check(secret, self.terms.digest, self.seat, seat)
        masks.add(words, keys[True], keys[False])
        self._checks = checks
        self._held = {seat: self._held[seat] for seat in found}
        self._seed, self._masks = b"", {}
        return self._say(body, bits.pack(words, self.terms.bits))

    @alone
    def consent(self, survivors: bytes) -> bytes:
        """A signature on who survived, after which no other set is signed."""
        body = self._read(Phase.CONSENT, survivors)
        found = unpack_set(body, len(self.terms.cohort))
        near = set(found) & set(self.terms.near(self.seat))
        if self.seat not in found or not near <= set(self._held):
            raise Mistake("the survivors lack this client, or have a neighbour that shared nothing with it")
        self._need(len(found), self.terms.threshold, "clients survive")
        self._need(len(near), self.terms.shares, "neighbours survive")
        self._survivors = found
        return self._say(body, b"")

    @alone
    def unmask(self, signatures: bytes) -> bytes:
        """Of each neighbour a share: of its seed if it survived, of its lock if not, with a check of their mask then.

        What is behind the lock is the word of one that dropped out; the check is this client's. Both are opened, or
        neither: the masks with survivors stay closed.
        """
        body, alive = self._read(Phase.UNMASK, signatures), set(self._survivors)
        signers = listed(body, self.terms.committee, SIGNATURE)
        if not set(signers) <= alive:
            raise Mistake("a signer is no survivor")
        words = pack_set(alive, len(self.terms.cohort))
        for seat, signature in signers.items():
            if not signed(self.terms, Phase.CONSENT, seat, words, b"", signature):
                raise Mistake(f"client {self._name(seat)} did not sign the survivors that this client was shown")
        self._need(len(signers), self.terms.consents, "clients signed the survivors")
        sent = b"".join(of_seed if seat in alive else of_lock for seat, (of_seed, of_lock) in self._held.items())
        checks = b"".join(check for seat, check in self._checks.items() if seat not in alive)
        self._held, self._checks = {}, {}
        return self._say(body, sent + checks)

    def _at(self, phase: Phase) -> None:
        if self._phase is not phase:
            raise Mistake(f"this client is at phase {self._phase.word} and not at {phase.word}: each comes once")

    def _read(self, phase: Phase, data: bytes) -> bytes:
        self._at(phase)
        return open_at_client(self.terms, phase, self.seat, data)

    def _say(self, asked: bytes, body: bytes) -> bytes:
        """The message of this phase, in answer to what was asked; the phase is over."""
        phase, self._phase = self._phase, Phase(self._phase + 1)
        return from_client(self._identity, self.terms, phase, self.seat, asked, body)

    def _need(self, count: int, least: int, what: str) -> None:
        if count < least:
            self._phase = Phase.CLOSED
            self._seed = self._key = b""
            self._masks, self._held, self._checks = {}, {}, {}
            raise Aborted(f"round {self.terms.round}: {count} {what}, and {least} are needed")

    def _name(self, seat: int) -> int:
        return self.terms.cohort[seat][0]
