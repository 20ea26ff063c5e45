"""Shamir's secret sharing of 32 bytes, over the field of Curve25519, p = 2^255 - 19.

A secret is f(0) of a random polynomial of degree t - 1, and the share of seat i is f(i + 1): any t shares give the
secret, fewer tell nothing (Shamir 1979). Secrets are drawn below p: X25519 ignores the last bit anyway.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from hush.errors import Mistake
from hush.secure.keys import Draw

P = 2**255 - 19
LENGTH = 32


def secret(draw: Draw) -> bytes:
    """32 bytes that are uniform below p, little-endian."""
    return _element(draw).to_bytes(LENGTH, "little")


def split(value: bytes, threshold: int, seats: Sequence[int], draw: Draw) -> dict[int, bytes]:
    """A share for each seat, of which `threshold` give the value again."""
    if not 1 <= threshold <= len(set(seats)) == len(seats):
        raise Mistake(f"threshold={threshold} must be from 1 to the number of different holders, {len(set(seats))}")
    coefficients = [_element(draw) for _ in range(threshold - 1)]
    found = {}
    for seat in seats:
        y, x = 0, seat + 1
        for coefficient in coefficients:
            y = (y + coefficient) * x % P
        found[seat] = ((y + number(value)) % P).to_bytes(LENGTH, "little")
    return found


def join(shares: Mapping[int, bytes], threshold: int) -> Iterator[bytes]:
    """The secret, as the first shares give it, then as others do that leave out one of the first.

    All are the same unless a holder lied: who knows what the secret must fulfil takes the first that does. One lie is
    thus survived wherever there is a share to spare.
    """
    if threshold < 1 or len(shares) < threshold:
        raise Mistake(f"{len(shares)} shares are too few: {threshold} give the secret")
    seats = sorted(shares)
    first, spare = seats[:threshold], seats[threshold:]
    yield _at_zero(first, shares)
    for left in first if spare else ():
        yield _at_zero([*(seat for seat in first if seat != left), spare[0]], shares)


def number(share: bytes) -> int:
    """The element of the field; other bytes than those of one are refused."""
    value = int.from_bytes(share, "little")
    if len(share) != LENGTH or value >= P:
        raise Mistake("a share must be 32 bytes, a number below 2^255 - 19")
    return value


def _at_zero(seats: Sequence[int], shares: Mapping[int, bytes]) -> bytes:
    """f(0) = X sum of y_i / (x_i prod_j (x_j - x_i)), with X the product of all x."""
    total = 0
    for seat in seats:
        below = (seat + 1) * math.prod(other - seat for other in seats if other != seat)
        total += number(shares[seat]) * pow(below, -1, P)
    return (total * math.prod(seat + 1 for seat in seats) % P).to_bytes(LENGTH, "little")


def _element(draw: Draw) -> int:
    """Uniform below p, by drawing again in the rare case of more."""
    while (value := int.from_bytes(draw(LENGTH), "little") & (2**255 - 1)) >= P:
        pass
    return value
