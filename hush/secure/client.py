"""The client of a secure sum: bytes in, bytes out, and nothing that it could be made to say twice."""

import os
from collections.abc import Callable
from threading import Lock

import numpy as np
import numpy.typing as npt

from hush.errors import Aborted, Mistake
from hush.secure import bits, masks, shares
from hush.secure.keys import Draw, Identity, agree, commitment, pair_key, private, public, seal, self_key, unseal
from hush.secure.messages import (
    ADVERT,
    BOX,
    SIGNATURE,
    Phase,
    entries,
    from_client,
    open_at_client,
    pack_set,
    signed,
    unpack_set,
)
from hush.secure.terms import Terms
from hush.secure.turns import alone

Numbers = npt.NDArray[np.integer]


class Client:
    """One client in one round. The methods are its phases, in order, each at most once, from any thread.

    A message that is not right is refused with a Mistake: nothing was said, and the right one may still come. Terms
    that are broken (too few neighbours, survivors or signatures) are an Aborted, and the client is closed.

    Guarantee: the server learns of this client's numbers nothing but one sum over at least `threshold` clients, as long
    as at most `terms.corrupt` of the cohort collude with it. In a ring it is also needed that no honest client, this
    one or another, has too many colluders near: fewer than `shares` of its neighbours collude, and fewer than
    shares - degree / 2 of those on either side. `degree` makes that fail with a probability of at most `failure` in
    terms by the public rule; Terms.check_rule says whether they are. Of a neighbour's two shares one is revealed, once,
    and only after `threshold` of the cohort have signed which clients survived.

    A client must not be copied, forked or restored from a snapshot in the middle of a round: each copy would answer
    once, and two answers of one phase open what one does not. After a restart it sits the round out.
    """

    def __init__(self, identity: Identity, terms: Terms, draw: Draw = os.urandom) -> None:
        keys = [key for _, key in terms.cohort]
        if identity.public not in keys:
            raise Mistake("this client's key is not in the cohort: the terms are meant for others")
        self.terms, self.seat = terms, keys.index(identity.public)
        self.refused: tuple[str, ...] = ()
        self._identity, self._draw = identity, draw
        self._lock = Lock()  # one phase at a time; and what has a lock cannot be pickled
        self._phase = Phase.ADVERTISE
        # Replaced and never changed in place: what failed half-way has left no trace.
        self._seed = self._sealing = self._masking = b""
        self._agreed: dict[int, tuple[bytes, bytes]] = {}  # with each on the roster, for boxes and for masks
        self._boxes: dict[int, bytes | None] = {}
        self._survivors: list[int] = []

    @alone
    def advertise(self) -> bytes:
        """Two fresh public keys: one to seal shares with, one to make masks with."""
        self._at(Phase.ADVERTISE)
        self._identity.claim(self.terms.run, self.terms.round, self.terms.binding)
        self._sealing, self._masking = shares.secret(self._draw), shares.secret(self._draw)
        return self._say(b"", public(private(self._sealing)) + public(private(self._masking)))

    @alone
    def share(self, roster: bytes) -> bytes:
        """To each neighbour on the roster a share of the self mask's seed and one of the mask key."""
        body = self._read(Phase.SHARE, roster)
        found = entries(ADVERT, body, self.terms.near(self.seat))
        sealing, masking = private(self._sealing), private(self._masking)
        own, agreed = {public(sealing), public(masking)}, {}
        for seat, (one, other, signature) in found.items():
            if not signed(self.terms, Phase.ADVERTISE, seat, b"", one + other, signature):
                raise Mistake(f"the keys of client {self._name(seat)} do not have its signature")
            if own & {one, other}:
                raise Mistake(f"client {self._name(seat)} shows this client's own key")
            if one == other:
                raise Mistake(f"client {self._name(seat)} shows one key for both purposes")
            agreed[seat] = agree(sealing, one), agree(masking, other)
        self._need(len(found), self.terms.shares, "neighbours advertise keys")
        seed, seats = shares.secret(self._draw), list(found)
        of_seed = shares.split(seed, self.terms.shares, seats, self._draw)
        of_key = shares.split(self._masking, self.terms.shares, seats, self._draw)
        boxes = [
            seal(agreed[seat][0], self.terms.digest, self.seat, seat, of_seed[seat] + of_key[seat]) for seat in seats
        ]
        self._agreed, self._seed = agreed, seed
        self._sealing = self._masking = b""  # neighbours have what may be needed
        return self._say(body, commitment(seed, self.terms.digest, self.seat) + b"".join(boxes))

    @alone
    def mask(self, boxes: bytes, numbers: Numbers | Callable[[], Numbers]) -> bytes:
        """The numbers modulo 2^bits, plus the self mask, plus or minus a mask for each neighbour whose box is here.

        A function is asked for them when all else is right.
        """
        body = self._read(Phase.MASK, boxes)
        found = entries(BOX, body, self._agreed)
        self._need(len(found), self.terms.shares, "neighbours share their secrets")
        words = masks.residues(numbers() if callable(numbers) else numbers, self.terms.bits, self.terms.size)
        digest, opened, failed = self.terms.digest, {}, []
        keys: dict[bool, list[bytes]] = {True: [self_key(self._seed, digest, self.seat)], False: []}
        for seat, (box,) in found.items():
            for_boxes, for_masks = self._agreed[seat]
            opened[seat] = _checked(unseal(for_boxes, digest, seat, self.seat, box))
            if opened[seat] is None:  # its sender may have lied: the masks are not concerned, and others have shares
                failed.append(f"the box of client {self._name(seat)} does not open")
            keys[self.seat < seat].append(pair_key(for_masks, digest, self.seat, seat))
        masks.add(words, keys[True], keys[False])
        self._boxes, self.refused = opened, tuple(failed)
        self._seed, self._agreed = b"", {}
        return self._say(body, bits.pack(words, self.terms.bits))

    @alone
    def consent(self, survivors: bytes) -> bytes:
        """A signature on who survived, after which no other set is signed."""
        body = self._read(Phase.CONSENT, survivors)
        found = unpack_set(body, len(self.terms.cohort))
        near = set(found) & set(self.terms.near(self.seat))
        if self.seat not in found or not near <= set(self._boxes):
            raise Mistake("the survivors lack this client, or have a neighbour that shared nothing with it")
        self._need(len(found), self.terms.threshold, "clients survive")
        self._need(len(near), self.terms.shares, "neighbours survive")
        self._survivors = found
        return self._say(body, body)

    @alone
    def unmask(self, signatures: bytes) -> bytes:
        """Of each neighbour a share: of its seed if it survived, of its mask key if not."""
        body = self._read(Phase.UNMASK, signatures)
        n, end = len(self.terms.cohort), (len(self.terms.cohort) + 7) // 8
        signers, rest = unpack_set(body[:end], n), body[end:]
        if not set(signers) <= set(self._survivors) or len(rest) != SIGNATURE * len(signers):
            raise Mistake("the signatures are not as many as signers, or a signer is no survivor")
        words = pack_set(self._survivors, n)
        for seat, start in zip(signers, range(0, len(rest), SIGNATURE), strict=True):
            if not signed(self.terms, Phase.CONSENT, seat, words, words, rest[start : start + SIGNATURE]):
                raise Mistake(f"client {self._name(seat)} did not sign the survivors that this client was shown")
        self._need(len(signers), self.terms.threshold, "clients signed the survivors")
        alive, sent = set(self._survivors), []
        for seat, plain in self._boxes.items():
            if plain is not None:
                sent.append(plain[: shares.LENGTH] if seat in alive else plain[shares.LENGTH :])
        held = pack_set((i for i, plain in enumerate(self._boxes.values()) if plain is not None), len(self._boxes))
        self._boxes = {}
        return self._say(body, held + b"".join(sent))

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
            self._seed = self._masking = self._sealing = b""
            self._agreed, self._boxes = {}, {}
            raise Aborted(f"round {self.terms.round}: {count} {what}, and {least} are needed")

    def _name(self, seat: int) -> int:
        return self.terms.cohort[seat][0]


def _checked(plain: bytes | None) -> bytes | None:
    """Two shares, or None where they are not: sent on, they would have this client refused for another's lie."""
    try:
        for share in () if plain is None else (plain[: shares.LENGTH], plain[shares.LENGTH :]):
            shares.number(share)
    except Mistake:
        return None
    return plain
