"""The server of a secure sum: it passes on what it cannot read, and opens one sum or none."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NoReturn

import numpy as np

from hush.errors import Aborted, Mistake
from hush.secure import bits, masks, shares
from hush.secure.bits import Words
from hush.secure.keys import CHECK, PAIR, agree, commitment, pair_check, pair_key, private, self_key, unseal
from hush.secure.messages import KEY, Dealt, Phase, open_at_server, pack_set, pack_some, to_client
from hush.secure.refusals import Refusals
from hush.secure.shares import LENGTH, Sharing
from hush.secure.tally import GRAPH, Tally
from hush.secure.terms import MASKED, Terms
from hush.secure.turns import alone

_ANY = private(bytes([1]) * 32)  # whose exchange with a point of low order fails as any other's


@dataclass(frozen=True)
class Opened:
    """The sum of the survivors' numbers modulo 2^bits, who they are, and whose shares were corrected.

    `off`: for a client that sent wrong shares, of whose secrets they were. It is at fault, or each of these is.
    """

    residues: Words
    survivors: tuple[int, ...]
    off: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class Server:
    """One round. `take` gets messages of the phase in any order; `advance` closes the phase and says what goes out.

    Who did not answer, or not rightly, has dropped out. A message that is refused changes nothing and leaves a
    sentence in `refused`; after REFUSALS of them nothing of that client is looked at. Below the threshold the round is
    aborted, and nothing of it can be opened. Any thread may call it.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms, self.phase = terms, Phase.ADVERTISE
        self._lock = Lock()
        self._refusals = Refusals()
        self.tally = Tally(GRAPH, len(terms.cohort))
        self._asked = dict.fromkeys(range(len(terms.cohort)), b"")  # who may answer in this phase, and what
        self._got: dict[int, tuple[bytes, bytes]] = {}  # body and signature of this phase; masked numbers are summed
        self._holders: dict[int, list[int]] = {}  # of each that advertised, the neighbours that did
        self._dealt: dict[int, Dealt] = {}
        self._partners: dict[int, list[int]] = {}  # of each that shared, the neighbours that did
        self._survivors: set[int] = set()
        self._sum: Words = np.zeros(terms.size, bits.word(terms.bits))

    @property
    def refused(self) -> list[str]:
        """What was refused, and who sent wrong shares: a sentence each."""
        return self._refusals.sentences

    @alone
    def take(self, client: int, data: bytes) -> bool:
        """A message that came as this client's: whether it was accepted."""
        seat = None
        try:
            seat = self.terms.seat(client)
            if self.phase is Phase.CLOSED:
                raise Mistake("the round is closed")
            self.tally.up[self.phase, seat] += len(data)
            self._refusals.check(client)
            if seat not in self._asked:
                raise Mistake("it had dropped out before")
            if seat in self._got:
                raise Mistake(f"it sent its {self.phase.word} message before")
            body, signature = open_at_server(self.terms, self.phase, seat, self._asked[seat], data)
            self._check(seat, body)
        except Mistake as why:
            self._refusals.note(client, why, seat is not None)
            return False
        self._got[seat] = (b"" if self.phase is Phase.MASK else body, signature)
        return True

    @alone
    def advance(self) -> dict[int, bytes]:
        """Close the phase: the message for each client that goes on, by its number."""
        if self.phase >= Phase.UNMASK:
            raise Mistake(f"the server is at phase {self.phase.word}: take the messages and finish()")
        got, self._got = dict(sorted(self._got.items())), {}
        close = {
            Phase.ADVERTISE: self._close_advertise,
            Phase.SHARE: self._close_share,
            Phase.MASK: self._close_mask,
            Phase.CONSENT: self._close_consent,
        }[self.phase]
        self._asked = close(got)
        self.phase = Phase(self.phase + 1)
        packed = {seat: to_client(self.terms, self.phase, seat, body) for seat, body in self._asked.items()}
        for seat, data in packed.items():
            self.tally.down[self.phase, seat] += len(data)
        return {self.terms.cohort[seat][0]: data for seat, data in packed.items()}

    @alone
    def finish(self) -> Opened:
        """Take the masks away: the sum, or an abort where too few shares came, or too many wrong ones."""
        if self.phase is not Phase.UNMASK:
            raise Mistake(f"the server is at phase {self.phase.word}: only the unmask phase can be finished")
        sent: dict[int, dict[int, bytes]] = {seat: {} for seat in self._partners}
        checks: dict[int, dict[int, bytes]] = {seat: {} for seat in self._partners}
        for holder, (body, _) in self._got.items():
            for kind, told in zip((sent, checks), self._told(holder, body), strict=True):
                for seat, value in told.items():
                    kind[seat][holder] = value
        self.phase, self._got = Phase.CLOSED, {}
        alive = self._survivors
        # All secrets first: where one is missing, or not right, no mask is taken away.
        off: dict[int, list[int]] = defaultdict(list)
        try:
            secrets = {seat: self._secret(seat, sent[seat], seat in alive, off) for seat in self._partners}
            pairs = {seat: self._behind(seat, secrets[seat], checks[seat]) for seat in secrets if seat not in alive}
        except Aborted as why:
            self._name(off)
            why.refused = tuple(self.refused)
            raise
        self._name(off)
        plus: list[bytes] = []
        minus = [self_key(secrets[seat], self.terms.digest, seat) for seat in sorted(alive)]
        for seat, found in pairs.items():
            for other, shared in found.items():
                key = pair_key(shared, self.terms.digest, seat, other)
                (minus if other < seat else plus).append(key)  # the lower seat of a pair had added it
        masks.add(self._sum, plus, minus)
        total = masks.residues(self._sum, self.terms.bits, self.terms.size)
        by_name = {self._names([holder])[0]: self._names(seats) for holder, seats in sorted(off.items())}
        return Opened(total, self._names(sorted(alive)), by_name)

    def _check(self, seat: int, body: bytes) -> None:
        """Whether a signed body is what the phase asks for; masked numbers are added to the sum."""
        match self.phase:
            case Phase.ADVERTISE:
                if len(body) != KEY:
                    raise Mistake(f"it must advertise a key of {KEY} bytes")
                agree(_ANY, body)  # refuses points of low order
            case Phase.SHARE:
                Dealt.read(body, len(self._partners[seat]), self.terms.shares)
            case Phase.MASK:
                self._sum += bits.unpack(body, self.terms.size, self.terms.bits)
            case Phase.CONSENT:
                if body:
                    raise Mistake("it signed another set of survivors")
            case _:
                self._told(seat, body)

    def _told(self, holder: int, body: bytes) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """What a client sends: the share of each neighbour, and the check of its mask with each that dropped out."""
        partners = self._partners[holder]
        gone = [seat for seat in partners if seat not in self._survivors]
        end = LENGTH * len(partners)
        if len(body) != end + CHECK * len(gone):
            raise Mistake(
                f"it must have {LENGTH} bytes for each of the {len(partners)} shares that it sends, and {CHECK} for"
                f" each of the {len(gone)} neighbours that dropped out"
            )
        shares.numbers(body[:end])
        return _cut(body[:end], partners, LENGTH), _cut(body[end:], gone, CHECK)

    def _close_advertise(self, got: dict[int, tuple[bytes, bytes]]) -> dict[int, bytes]:
        self._partners = self._near(set(got), "advertised keys")
        return {
            seat: pack_some(near, self.terms.near(seat)) + b"".join(b"".join(got[other]) for other in near)
            for seat, near in self._partners.items()
        }

    def _close_share(self, got: dict[int, tuple[bytes, bytes]]) -> dict[int, bytes]:
        self._holders, self._partners = self._partners, self._near(set(got), "shared their secrets")
        least = self.terms.shares
        self._dealt = {seat: Dealt.read(body, len(self._holders[seat]), least) for seat, (body, _) in got.items()}
        return {seat: pack_some(near, self.terms.near(seat)) for seat, near in self._partners.items()}

    def _close_mask(self, got: dict[int, tuple[bytes, bytes]]) -> dict[int, bytes]:
        self._survivors = set(got)
        self._enough(got, self._partners, MASKED)
        return dict.fromkeys(got, pack_set(got, len(self.terms.cohort)))

    def _close_consent(self, got: dict[int, tuple[bytes, bytes]]) -> dict[int, bytes]:
        self._enough(got, self._partners, "signed the survivors")
        signers = [seat for seat in self.terms.committee if seat in got][: self.terms.consents]
        body = pack_some(signers, self.terms.committee) + b"".join(got[seat][1] for seat in signers)
        return dict.fromkeys(got, body)

    def _near(self, seats: set[int], what: str) -> dict[int, list[int]]:
        """Each of these seats with those of its neighbours that are among them."""
        near = {seat: [other for other in self.terms.near(seat) if other in seats] for seat in sorted(seats)}
        self._enough(seats, near, what)
        return near

    def _enough(self, seats: Collection[int], near: dict[int, list[int]], what: str) -> None:
        """At least the threshold, for every client whose masks are in play enough neighbours, and enough to sign."""
        if why := self.terms.lack(seats, near.items(), what) or self.terms.unsigned(seats, what):
            self._abort(why)

    def _secret(self, seat: int, sent: dict[int, bytes], alive: bool, off: dict[int, list[int]]) -> bytes:
        """The seed of a survivor, or the lock of one that dropped out, held against what it had shown of it.

        Wrong shares are corrected, and `off` gets who sent them. An abort accuses nobody of what another may have done.
        """
        (name,), least, count = self._names([seat]), self.terms.shares, len(sent)
        if count < least:
            self._abort(f"{count} neighbours send a share of client {name}, and {least} are needed")

        dealt, near = self._dealt[seat], self.terms.near(seat)
        sharing = Sharing(least, dealt.of_seed if alive else dealt.of_lock)

        def fits(secret: bytes) -> bool:
            if alive:
                return commitment(secret, self.terms.digest, seat) == dealt.commitment
            return self._opened(seat, secret) is not None

        by_place = {bisect_left(near, holder): share for holder, share in sent.items()}
        if joined := shares.join(sharing, by_place, fits):
            for place in joined.off:
                off[near[place]].append(seat)
            return joined.secret
        spare = count - least
        if shares.consistent(sharing, by_place):
            self._abort(
                f"the {count} shares sent of client {name} agree with one another and not with what it showed of its"
                f" secret: it is at fault, or at least {spare + 1} of those who sent them are"
            )
        self._abort(
            f"the {count} shares sent of client {name} do not give its secret: more than {max(spare // 2, 1)} of those"
            " who sent them are at fault, or it is itself"
        )

    def _opened(self, seat: int, lock: bytes) -> bytes | None:
        """What a client sealed with this lock."""
        return unseal(lock, self.terms.digest, seat, seat, self._dealt[seat].box)

    def _behind(self, seat: int, lock: bytes, checks: Mapping[int, bytes]) -> dict[int, bytes]:
        """The secret of the mask that a client has with each survivor near it, held against the survivor's check.

        A survivor that was lost since sent none: there what was sealed is all that is known.
        """
        sealed, digest = _cut(self._opened(seat, lock) or b"", self._holders[seat], PAIR), self.terms.digest
        wrong = [other for other, check in checks.items() if pair_check(sealed[other], digest, seat, other) != check]
        if wrong:
            (name,), others = self._names([seat]), ", ".join(map(str, self._names(wrong)))
            self._abort(
                f"the masks that client {name} sealed are not those of clients {others}: it is at fault, or each of"
                " these is"
            )
        return {other: sealed[other] for other in self._partners[seat] if other in self._survivors}

    def _name(self, off: Mapping[int, list[int]]) -> None:
        """A sentence on each client that sent wrong shares, which may be another's fault."""
        for holder, seats in sorted(off.items()):
            (name,), others = self._names([holder]), ", ".join(map(str, self._names(seats)))
            self._refusals.report(
                f"client {name} sent shares off the polynomials of the others, which were corrected, of clients"
                f" {others}: it is at fault, or each of these is"
            )

    def _names(self, seats: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.terms.cohort[seat][0] for seat in seats)

    def _abort(self, why: str) -> NoReturn:
        self.phase = Phase.CLOSED
        failed = Aborted(self.terms.aborted(why))
        failed.refused = tuple(self.refused)
        raise failed


def _cut(data: bytes, seats: Iterable[int], size: int) -> dict[int, bytes]:
    """So many bytes of each seat, one behind the other."""
    return {seat: data[size * i : size * (i + 1)] for i, seat in enumerate(seats)}
