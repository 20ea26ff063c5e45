"""Two servers that do not collude: the coordinator with the masked numbers, a second one with the masks' seeds.

A client says both halves in one message to the coordinator, the second sealed for the second server. The coordinator
passes these on over its own line, and gets who is there and the sum of the masks, signed. What the terms of a sum are
the clients have signed: the second server need not believe the coordinator, and adds up once in a round.
"""

import json
import struct
from collections.abc import Callable
from typing import ClassVar

from hush.core.spec import Asked, Total
from hush.errors import Aborted, Mistake, Refused
from hush.federation.charter import Charter
from hush.federation.claims import Claims
from hush.parts.aggregators.phases import LENGTH, count, opened_total, weighed
from hush.secure import link
from hush.secure.keys import Identity
from hush.secure.messages import Phase
from hush.secure.sealed import disclose, introduced, sealing
from hush.secure.server import Opened
from hush.secure.tally import HALVES, Tally
from hush.secure.terms import Terms
from hush.secure.twoserver import Half, HalfServer, join

ITEM = struct.Struct("<QI")  # a client's number and the length of its sealed half
Line = Callable[[bytes], bytes]  # to the second server and back; Aborted where it does not answer
FIELDS = ("run", "round", "threshold", "degree", "shares", "bits", "size")


class Relay:
    """The coordinator's side of a round: it adds the numbers, and has the masks added elsewhere."""

    phase: ClassVar[str] = Phase.NUMBERS.word

    def __init__(self, terms: Terms, asked: Asked, own: Identity, second: bytes, line: Line) -> None:
        self._terms, self._asked, self._line = terms, asked, line
        self._keys = {Half.NUMBERS: own.public, Half.SEEDS: second}
        self._here = HalfServer(terms, Half.NUMBERS, own, second)
        self._tally = Tally(HALVES, len(terms.cohort))
        self._sealed: dict[int, bytes] = {}
        self._weights: dict[int, int] = {}
        self._opened: Opened | None = None

    def take(self, client: int, data: bytes) -> None:
        """Both halves of a client; Refused where the one for this server is not right."""
        if len(data) < LENGTH.size:
            raise Refused(f"client {client}: a message of {len(data)} bytes has no halves")
        end = LENGTH.size + LENGTH.unpack(data[: LENGTH.size])[0]
        numbers, sealed, records = data[LENGTH.size : end], data[end:], 1
        self._tally.up[:, self._terms.seat(client)] += (len(numbers), len(sealed))
        if self._asked.weighted:
            numbers, records = weighed(numbers, self._asked, client)
        if not self._here.take(client, numbers):
            raise Refused(self._here.refused[-1])
        self._sealed[client], self._weights[client] = sealed, records

    def advance(self) -> dict[int, bytes]:
        """One phase: the sum is opened with the second server's."""
        try:
            said = self._line(pack_halves(self._terms, self._sealed))
            heard = self._here.present()
            sums = {Half.NUMBERS: self._here.add(said), Half.SEEDS: self._line(heard)}
            self._opened = join(self._terms, self._keys, sums)
        except Mistake as why:  # of the second server
            raise Aborted(f"round {self._terms.round}: {why}") from why
        finally:
            count(self._asked, self._terms, self._tally)
        return {}

    def total(self) -> Total:
        """The sum over who sent both halves."""
        assert self._opened is not None
        return opened_total(self._opened, self._terms, self._weights)


class Second:
    """The second server under a charter: it answers what the coordinator passes on, once in a round."""

    def __init__(self, charter: Charter, secret: bytes, claims: Claims) -> None:
        self.charter, self._claims = charter, claims
        self._own, self._sealing = Identity(secret), sealing(secret)
        if introduced(bytes.fromhex(charter.second))[0] != self._own.public:
            raise Refused("the charter names another second server")
        self._half: HalfServer | None = None

    @property
    def digest(self) -> str:
        """The charter's."""
        return self.charter.digest

    def answer(self, data: bytes, taken: int | None = None) -> bytes:
        """Who is there, to the halves; the sum of the masks, to who is there."""
        try:
            if data[: len(link.MAGIC)] != link.MAGIC:
                return self._take(data)
            half, self._half = self._half, None
            if half is None:
                raise Refused("there are no halves to add up: refused")
            return half.add(data)
        except (Mistake, Aborted) as why:
            self._half = None
            raise Refused(str(why)) from why

    def _take(self, data: bytes) -> bytes:
        terms, sealed = unpack_halves(data)
        if terms.run != self.charter.run or len(terms.cohort) > self.charter.population:
            raise Refused("these terms are of another run: refused")
        self._claims.claim(terms.run, self.charter.digest, terms.round)
        half = HalfServer(terms, Half.SEEDS, self._own, bytes.fromhex(self.charter.server))
        for client, box in sealed.items():
            try:
                half.take(client, disclose(self._sealing, terms.digest, terms.seat(client), box))
            except Mistake:
                continue  # who is not right is not there
        self._half = half
        return half.present()


def pack_halves(terms: Terms, sealed: dict[int, bytes]) -> bytes:
    """The terms, and the clients' halves as they came."""
    known = {name: getattr(terms, name) for name in FIELDS}
    cohort = [[number, key.hex()] for number, key in terms.cohort]
    head = json.dumps({**known, "cohort": cohort, "binding": terms.binding.hex()}).encode()
    items = b"".join(ITEM.pack(client, len(box)) + box for client, box in sealed.items())
    return LENGTH.pack(len(head)) + head + items


def unpack_halves(data: bytes) -> tuple[Terms, dict[int, bytes]]:
    """What the coordinator has packed."""
    try:
        end = LENGTH.size + LENGTH.unpack(data[: LENGTH.size])[0]
        found = json.loads(data[LENGTH.size : end])
        cohort = tuple((number, bytes.fromhex(key)) for number, key in found.pop("cohort"))
        terms = Terms(cohort=cohort, binding=bytes.fromhex(found.pop("binding")), **found)
        sealed = {}
        while end < len(data):
            client, length = ITEM.unpack(data[end : end + ITEM.size])
            end += ITEM.size
            if client in sealed or end + length > len(data):
                raise ValueError("a half is there twice, or cut short")
            sealed[client] = data[end : end + length]
            end += length
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        if isinstance(error, Mistake):
            raise
        raise Refused(f"these are no halves of a sum: {type(error).__name__}") from None
    return terms, sealed
