"""Shamir's secret sharing in which no share is sent: dealer and holder derive it from what they agreed on.

Over p = 2^128 - 159. Each of k holders has a uniform share, f is the polynomial of degree below k through the points
(k - t + 1 + place, share), and f(0) is the secret. The dealer publishes the k - t values f(1) to f(k - t). With them
any t shares give the secret, and t - 1 reveal nothing: these are k - 1 values of f, which leave f(0) uniform (Shamir
1979). Of more than t shares some may be wrong (hush/secure/decoding.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hush.errors import Mistake
from hush.secure.decoding import P, agree, decode, extend

LENGTH = 16


@dataclass(frozen=True)
class Sharing:
    """What is public of a secret: how many shares give it, and the first values of f."""

    threshold: int
    public: bytes

    @property
    def first(self) -> int:
        """The x of the holder at place 0."""
        return len(self.public) // LENGTH + 1

    def points(self, shares: Mapping[int, bytes]) -> dict[int, int]:
        """What is known of f, with the shares of some places."""
        if self.threshold < 1 or len(shares) < self.threshold:
            raise Mistake(f"{len(shares)} shares are too few: {self.threshold} give the secret")
        known = {x: value for x, value in enumerate(numbers(self.public), 1)}
        return known | {self.first + place: number(share) for place, share in shares.items()}


def element(data: bytes) -> bytes:
    """A share from 32 uniform bytes: the number modulo p, 2^-128 from uniform."""
    return _packed(int.from_bytes(data, "little") % P)


def deal(places: Sequence[int], rows: Sequence[Sequence[bytes]], threshold: int) -> list[tuple[bytes, Sharing]]:
    """For each row of shares, of the holders at these places, its secret and what lets `threshold` of them open it."""
    if not 1 <= threshold <= len(set(places)) == len(places):
        raise Mistake(f"threshold={threshold} must be from 1 to the number of different holders, {len(set(places))}")
    first = len(places) - threshold + 1
    dealt = extend([first + place for place in places], [list(map(number, row)) for row in rows], range(first))
    return [(_packed(secret), Sharing(threshold, b"".join(map(_packed, public)))) for secret, *public in dealt]


@dataclass(frozen=True)
class Recovered:
    """A secret, and the places whose shares are not on its polynomial."""

    secret: bytes
    off: tuple[int, ...]


def join(sharing: Sharing, shares: Mapping[int, bytes], fits: Callable[[bytes], bool]) -> Recovered | None:
    """The secret that fits what is known of it; None where none is found.

    Up to (len(shares) - threshold) // 2 wrong shares are corrected, and one wherever there is a share to spare.
    """
    first = sharing.first
    found = decode(sharing.points(shares), sharing.threshold + first - 1, lambda value: fits(_packed(value)))
    if found is None:
        return None
    return Recovered(_packed(found.value), tuple(x - first for x in found.off if x >= first))


def consistent(sharing: Sharing, shares: Mapping[int, bytes]) -> bool:
    """Whether all are on one polynomial, whatever its secret."""
    return agree(sharing.points(shares), sharing.threshold + sharing.first - 1)


def number(share: bytes) -> int:
    """The element of the field; other bytes than those of one are refused."""
    value = int.from_bytes(share, "little")
    if len(share) != LENGTH or value >= P:
        raise Mistake("a share must be 16 bytes, a number below 2^128 - 159")
    return value


def numbers(data: bytes) -> list[int]:
    """Elements of the field one behind the other."""
    return [number(data[at : at + LENGTH]) for at in range(0, len(data), LENGTH)]


def _packed(value: int) -> bytes:
    return value.to_bytes(LENGTH, "little")
