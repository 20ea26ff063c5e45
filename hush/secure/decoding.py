"""Shamir's secrets from shares of which some are wrong: decoding of a Reed-Solomon code, over p = 2^128 - 159.

n points (x_i, y_i), right where y_i = f(x_i) for one polynomial f of degree below k. With w_i = 1 / prod (x_i - x_j)

- all are on such an f if and only if sum w_i y_i x_i^j = 0 for each j < n - k, the rows of the dual code;
- f(0) is then the sum of w_i y_i prod_j (-x_j) / -x_i;
- up to (n - k) // 2 wrong ones leave f unique, and Gao's algorithm (2003) finds it: Euclid's, stopped half-way.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

P = 2**128 - 159  # the largest prime below 2^128

Points = Mapping[int, int]  # y by x, with 0 < x < p
Poly = list[int]  # coefficients, the lowest first


@dataclass(frozen=True)
class Decoded:
    """f(0), and at which x the points are off f."""

    value: int
    off: tuple[int, ...] = ()


def decode(points: Points, k: int, fits: Callable[[int], bool]) -> Decoded | None:
    """The f whose value at zero fits, where at most (n - k) // 2 points are wrong, or one with a point to spare.

    None where there is no such f. With more wrong ones it is still found if the first k are right.
    """
    xs = sorted(points)
    weights = _weights(xs)
    if _on_one(xs, points, k, weights):
        value = _at_zero(xs, points, weights)
        return Decoded(value) if fits(value) else None
    found = gao(points, k)
    if found is not None and fits(found[0]):
        return _against(found, points)
    for chosen in _choices(xs, k):
        if fits(_at_zero(chosen, points, _weights(chosen))):
            return _against(_through(chosen, points), points)
    return None


def agree(points: Points, k: int) -> bool:
    """Whether all are on one polynomial of degree below k."""
    xs = sorted(points)
    return _on_one(xs, points, k, _weights(xs))


def extend(xs: Sequence[int], rows: Sequence[Sequence[int]], others: Sequence[int]) -> list[list[int]]:
    """For each row of n values at the xs, all small, its polynomial of degree below n at the others.

    f(x) = prod (x - x_i) sum w_i y_i / (x - x_i): the factors are the same for all rows.
    """
    weights, found = _weights(xs), [[0] * len(others) for _ in rows]
    inverses = _inverses(range(1, max(abs(other - x) for other in others for x in (min(xs), max(xs))) + 1))
    for at, other in enumerate(others):
        whole = math.prod([other - x for x in xs]) % P
        parts = [w * inverses[abs(other - x) - 1] % P for x, w in zip(xs, weights, strict=True)]
        signed = [part if other > x else -part for x, part in zip(xs, parts, strict=True)]
        for row, values in zip(found, rows, strict=True):
            row[at] = whole * sum(part * value for part, value in zip(signed, values, strict=True)) % P
    return found


def gao(points: Points, k: int) -> Poly | None:
    """The k coefficients of the polynomial that all but (n - k) // 2 points are on, or None where there is none."""
    xs = list(points)
    before, now = _product(xs), _trimmed(_through(xs, points))
    v_before, v_now = [0], [1]
    while 2 * (len(now) - 1) >= len(xs) + k:
        quotient, rest = _divided(before, now)
        before, now = now, rest
        v_before, v_now = v_now, _minus(v_before, _times(quotient, v_now))
    found, rest = _divided(now, v_now)
    return None if rest or len(found) > k else found + [0] * (k - len(found))


def _on_one(xs: Sequence[int], points: Points, k: int, weights: Sequence[int]) -> bool:
    """One combination of the n - k sums decides, since whoever chose the points did not know which it would be.

    sum w y (x + s)^(n - k - 1) is a polynomial in s whose coefficients are multiples of these sums: where one is not
    zero, fewer than n of the p choices of s make it zero. s is a hash of the points.
    """
    if len(xs) == k:
        return True
    listed = b"".join(x.to_bytes(16, "little") + points[x].to_bytes(16, "little") for x in xs)
    s, power = int.from_bytes(hashlib.sha512(listed).digest(), "little") % P, len(xs) - k - 1
    return sum(w * points[x] * pow(x + s, power, P) for x, w in zip(xs, weights, strict=True)) % P == 0


def _at_zero(xs: Sequence[int], points: Points, weights: Sequence[int]) -> int:
    """f(0) of the polynomial through these points."""
    total = sum(points[x] * w * inverse for x, w, inverse in zip(xs, weights, _inverses(xs), strict=True))
    return math.prod(xs) * (total if len(xs) % 2 else -total) % P


def _choices(xs: Sequence[int], k: int) -> Iterator[list[int]]:
    """The first k, then others that leave out one of these."""
    first, spare = list(xs[:k]), list(xs[k:])
    yield first
    for left in first if spare else ():
        yield [*(x for x in first if x != left), spare[0]]


def _against(f: Poly, points: Points) -> Decoded:
    return Decoded(f[0], tuple(x for x in sorted(points) if _value(f, x) != points[x]))


def _value(f: Poly, x: int) -> int:
    found = 0
    for coefficient in reversed(f):
        found = (found * x + coefficient) % P
    return found


def _weights(xs: Sequence[int]) -> list[int]:
    """1 / prod_j (x_i - x_j) for each; of all numbers between two, (x_i - low)! (high - x_i)! (-1)^(high - x_i)."""
    low, high = min(xs), max(xs)
    missing = set(range(low, high + 1)).difference(xs) if high - low < 2 * len(xs) else None
    if missing is None:
        return _inverses([math.prod([x - other for other in xs if other != x]) for x in xs])
    factorials = [1]
    for i in range(1, high - low + 1):
        factorials.append(factorials[-1] * i % P)
    whole = _inverses([factorials[x - low] * factorials[high - x] * (-1) ** (high - x) for x in xs])
    return [one * math.prod([x - other for other in missing]) % P for x, one in zip(xs, whole, strict=True)]


def _inverses(values: Sequence[int]) -> list[int]:
    """All with one inversion: of the product, from which each is recovered (Montgomery)."""
    products = [1]
    for value in values:
        products.append(products[-1] * value % P)
    inverse, found = pow(products[-1], -1, P), []
    for value, product in zip(reversed(values), reversed(products[:-1]), strict=True):
        found.append(inverse * product % P)
        inverse = inverse * value % P
    return found[::-1]


def _product(xs: Sequence[int]) -> Poly:
    """The polynomial that is zero at these."""
    found = [1]
    for x in xs:
        found = [(low - x * high) % P for low, high in zip([0, *found], [*found, 0], strict=True)]
    return found


def _through(xs: Sequence[int], points: Points) -> Poly:
    """The polynomial through these points: the sum of y_i w_i prod_j (x - x_j) / (x - x_i)."""
    whole, found = _product(xs), [0] * len(xs)
    for x, weight in zip(xs, _weights(xs), strict=True):
        scale, carried = points[x] * weight % P, 0
        for i in range(len(xs) - 1, -1, -1):  # division by (x - x_i), from the highest
            carried = (whole[i + 1] + carried * x) % P
            found[i] += scale * carried
    return [value % P for value in found]


def _divided(above: Poly, below: Poly) -> tuple[Poly, Poly]:
    """Quotient and rest."""
    rest, quotient = list(above), [0] * max(0, len(above) - len(below) + 1)
    inverse = pow(below[-1], -1, P)
    for i in range(len(quotient) - 1, -1, -1):
        quotient[i] = factor = rest[i + len(below) - 1] * inverse % P
        for j, value in enumerate(below):
            rest[i + j] = (rest[i + j] - factor * value) % P
    return _trimmed(quotient), _trimmed(rest)


def _times(one: Poly, other: Poly) -> Poly:
    found = [0] * (len(one) + len(other) - 1)
    for i, value in enumerate(one):
        for j, by in enumerate(other):
            found[i + j] += value * by
    return _trimmed([value % P for value in found])


def _minus(one: Poly, other: Poly) -> Poly:
    longest = max(len(one), len(other))
    padded = (poly + [0] * (longest - len(poly)) for poly in (one, other))
    return _trimmed([(a - b) % P for a, b in zip(*padded, strict=True)])


def _trimmed(poly: Poly) -> Poly:
    while poly and not poly[-1]:
        poly.pop()
    return poly
