"""Shamir's secret sharing of 32 bytes, over the field of Curve25519, p = 2^255 - 19.

A secret is f(0) of a random polynomial of degree t - 1, and the share of seat i is f(i + 1): any t shares give the
secret, fewer reveal nothing (Shamir 1979). Of more than t some may be wrong (hush/secure/decoding.py). Secrets are
drawn below p: X25519 ignores the last bit anyway.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hush.errors import Mistake
from hush.secure.decoding import agree, decode
from hush.secure.keys import Draw, P

LENGTH = 32


def secret(draw: Draw) -> bytes:
    """32 bytes that are uniform below p, little-endian."""
    return _packed(_element(draw))


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
        found[seat] = _packed((y + number(value)) % P)
    return found


@dataclass(frozen=True)
class Recovered:
    """A secret, and the seats whose shares are not on its polynomial."""

    secret: bytes
    off: tuple[int, ...]


def join(shares: Mapping[int, bytes], threshold: int, fits: Callable[[bytes], bool]) -> Recovered | None:
    """The secret that fits what is known of it; None where none is found.

    Up to (len(shares) - threshold) // 2 wrong shares are corrected, and one wherever there is a share to spare.
    """
    found = decode(_points(shares, threshold), threshold, lambda value: fits(_packed(value)))
    return None if found is None else Recovered(_packed(found.value), tuple(x - 1 for x in found.off))


def consistent(shares: Mapping[int, bytes], threshold: int) -> bool:
    """Whether all are on one polynomial, whatever its secret."""
    return agree(_points(shares, threshold), threshold)


def _points(shares: Mapping[int, bytes], threshold: int) -> dict[int, int]:
    if threshold < 1 or len(shares) < threshold:
        raise Mistake(f"{len(shares)} shares are too few: {threshold} give the secret")
    return {seat + 1: number(share) for seat, share in shares.items()}


def _packed(value: int) -> bytes:
    return value.to_bytes(LENGTH, "little")


def number(share: bytes) -> int:
    """The element of the field; other bytes than those of one are refused."""
    value = int.from_bytes(share, "little")
    if len(share) != LENGTH or value >= P:
        raise Mistake("a share must be 32 bytes, a number below 2^255 - 19")
    return value


def _element(draw: Draw) -> int:
    """Uniform below p, by drawing again in the rare case of more."""
    while (value := int.from_bytes(draw(LENGTH), "little") & (2**255 - 1)) >= P:
        pass
    return value
