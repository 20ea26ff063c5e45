"""Integer noise: exact to the last of 128 bits, as its slow twin draws it, and the same in any block."""

import math
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ive

from hush.errors import Mistake
from hush.random import discrete
from hush.random.discrete import WIDTH, add_noise, round_within
from hush.random.keystream import KeyStream
from hush.random.seeds import SecretSeed
from hush.random.tables import DrawTable, discrete_normal, skellam

KEY = bytes(range(32))
Maker = Callable[[float], DrawTable]
SMALL = [(skellam, v) for v in (0.001, 0.1, 1.0, 30.3)] + [(discrete_normal, s) for s in (0.5, 1.0, 1.7, 20.0, 200.0)]
MANY = [
    (skellam, 0.1),
    (skellam, 1.0),
    (skellam, 100.0),
    (skellam, 4e4),
    (discrete_normal, 0.5),
    (discrete_normal, 1.5),
]
MANY += [(discrete_normal, 12.0), (discrete_normal, 200.0), (discrete_normal, 5e3), (skellam, 1e8)]


def drawn(size: int, table: DrawTable, row: int = 0) -> torch.Tensor:
    return add_noise(torch.zeros(1, size, dtype=torch.int32), table, KEY, [row])[0]


def numbers(table: DrawTable) -> list[int]:
    """t_0, t_1, ..."""
    return [int(h) << 64 | int(low) for h, low in zip(table.high, table.low, strict=True)][::-1]


def tails(make: Maker, value: float) -> list[int]:
    """2^192 P(X > k), from the definitions, term by term, for probabilities down to 1e-60."""
    with localcontext() as exact:
        exact.prec = 90
        x, probabilities = Decimal(value), [Decimal(1)]
        while probabilities[-1] > Decimal("1e-60"):
            k = len(probabilities)
            if make is discrete_normal:
                probabilities.append((-(k * k) / (2 * x * x)).exp())
            else:
                probabilities.append((-x).exp() * series(x / 2, k))
        if make is skellam:
            probabilities[0] = (-x).exp() * series(x / 2, 0)
        total = probabilities[0] + 2 * sum(probabilities[1:])
        assert make is discrete_normal or abs(total - 1) < Decimal("1e-58")
        above = list(accumulate(reversed(probabilities[1:])))
        return [int(probability / total * 2**192) for probability in reversed(above)]


def series(half: Decimal, k: int) -> Decimal:
    """The probabilities of two Poisson numbers j + k and j, summed over j."""
    terms = [half**k / math.factorial(k)]
    while terms[-1] > terms[0] * Decimal("1e-85"):
        j = len(terms)
        terms.append(terms[-1] * half**2 / (j * (j + k)))
    return sum(terms, Decimal(0))


@pytest.mark.parametrize(("make", "value"), SMALL)
def test_every_threshold_is_right_to_the_last_bit(make: Maker, value: float) -> None:
    """So the distance from the true distribution is at most (K + 2) / 2^128."""
    found, true = numbers(make(value)), tails(make, value)
    hair = 2**54
    assert all(t > 0 and -hair < true[k] - (t << 64) < 2**64 + hair for k, t in enumerate(found))
    assert true[len(found)] < 2**64 + hair  # what is left out is less than one
    assert len(found) <= 13.4 * (value if make is discrete_normal else math.sqrt(value)) + 60


@pytest.mark.parametrize(("make", "value"), [(skellam, 4e4), (skellam, 1e8), (discrete_normal, 5e3)])
def test_large_parameters_too(make: Maker, value: float) -> None:
    """As far as float64 tells."""
    found = np.array([t / 2**128 for t in numbers(make(value))])
    k = np.arange(len(found) + 1)
    probabilities = ive(k, value) if make is skellam else np.exp(-0.5 * (k / value) ** 2)
    if make is discrete_normal:
        probabilities /= 2 * probabilities.sum() - 1
    true = np.cumsum(probabilities[::-1])[::-1][1:]
    kept = true > 1e-30
    np.testing.assert_allclose(found[kept], true[kept], rtol=1e-7)


def stream(row: int, count: int, size: int) -> bytes:
    """Key stream from single blocks of the cipher."""
    cipher = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    return b"".join(cipher.update(struct.pack(">qQ", row, count + i)) for i in range(math.ceil(size / 16)))


def number(u: int, limits: list[int]) -> int:
    """The definition: X < -k if u < t_k, X > k if its complement is."""
    above = sum(2**128 - 1 - u < t for t in limits)
    return above - sum(u < t for t in limits)


def slow(size: int, table: DrawTable, row: int) -> list[int]:
    limits, found = numbers(table), []
    tops = {t >> 112 for t in limits}
    tops |= {2**16 - 1 - top for top in tops}
    for start in range(0, size, WIDTH):
        width, count = min(WIDTH, size - start), start * 18 // 16
        words = [w for (w,) in struct.iter_unpack("<H", stream(row, count, 2 * width)[: 2 * width])]
        more = struct.iter_unpack("<QQ", stream(row, count + WIDTH // 8, 16 * sum(w in tops for w in words)))
        cache: dict[int, int] = {}
        for word in words:
            if word in tops:
                second, third = next(more)
                found.append(number(word << 112 | (second << 64 | third) >> 16, limits))
            else:
                found.append(cache.setdefault(word, number(word << 112, limits)))
    return found


@pytest.mark.parametrize(("make", "value"), [(skellam, 1.0), (skellam, 900.0), (discrete_normal, 2.5)])
@pytest.mark.parametrize(("size", "row"), [(1, 0), (17, 5), (1000, 2**40), (1000, -1)])
def test_equals_its_slow_twin(make: Maker, value: float, size: int, row: int) -> None:
    assert drawn(size, make(value), row).tolist() == slow(size, make(value), row)


def test_equals_its_slow_twin_over_chunks() -> None:
    assert drawn(2 * WIDTH + 9, skellam(4.0), 6).tolist() == slow(2 * WIDTH + 9, skellam(4.0), 6)


@pytest.mark.parametrize("table", [skellam(0.1), discrete_normal(30.0)], ids=["skellam", "normal"])
def test_words_on_the_very_edge(table: DrawTable) -> None:
    """Where the first 64 bits equal those of a threshold the others decide: once in 2^50 draws or so."""
    limits = numbers(table)
    edges = [t + off for t in limits for off in (-1, 0, 1, 2**64, -(2**64))]
    words = [u for edge in edges if 0 <= edge < 2**128 for u in (edge, 2**128 - 1 - edge)] + [0, 2**128 - 1]
    parts = [(u >> 112, u >> 48 & 2**64 - 1, (u & 2**48 - 1) << 16 | 0xABCD) for u in words]
    first, second, third = np.array(parts, np.uint64).T
    found = discrete._find(table, first, second, third)
    assert found.tolist() == [number(u, limits) for u in words]
    assert (found.min(), found.max()) == (-len(limits), len(limits))


def test_the_same_tomorrow() -> None:
    """Runs are resumed and compared across versions: these numbers must never change."""
    places = [0, 1, 2, 3, WIDTH, WIDTH + 1, 2 * WIDTH, -1]
    assert drawn(2 * WIDTH + 3, skellam(50.0), 7)[places].tolist() == SKELLAM
    assert drawn(2 * WIDTH + 3, discrete_normal(3e3), 7)[places].tolist() == NORMAL
    x = round_within(torch.full((1, 2 * WIDTH + 3), 0.5), 1.0, 1e9, 1, KEY, [7])[0]
    assert x[places].tolist() == ROUNDED


SKELLAM = [-3, -17, 14, 6, -2, -5, -14, 1]
NORMAL = [-1328, -7262, 5908, 2756, -806, -2263, -6094, 597]
ROUNDED = [0, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("make", "value"), MANY)
def test_frequencies(make: Maker, value: float) -> None:
    """Chi-square over a million draws; bins of about 200 at least, and the tails as far as they go."""
    x = drawn(1_000_000, make(value), 3).numpy()
    reach = int(np.abs(x).max()) + 1
    k = np.arange(reach + 1)
    half = ive(k, value) if make is skellam else np.exp(-0.5 * (k / value) ** 2)
    half /= 1 if make is skellam else 2 * np.exp(-0.5 * (np.arange(40 * math.ceil(value)) / value) ** 2).sum() - 1
    probabilities = np.concatenate([half[:0:-1], half])
    below = np.cumsum(probabilities)
    bins = np.unique((below * 4000).astype(np.int64), return_inverse=True)[1]
    expected = np.bincount(bins, probabilities) * x.size
    observed = np.bincount(bins[x + reach], minlength=expected.size)
    expected[-1] += x.size - expected.sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-6
    for edge in (3, 4):  # in deviations
        far = int(edge * math.sqrt((probabilities * np.arange(-reach, reach + 1.0) ** 2).sum()))
        beyond = 1 - probabilities[reach - far : reach + far + 1].sum()
        assert 1e-7 < stats.binom.cdf(np.count_nonzero(np.abs(x) > far), x.size, beyond) < 1 - 1e-9


@pytest.mark.parametrize(("make", "value"), MANY)
def test_moments(make: Maker, value: float) -> None:
    """Skellam: variance v, kurtosis 3 + 1/v. Discrete normal: below s^2 by a hair from s = 1 on."""
    x = drawn(1_000_000, make(value), 4).double().numpy()
    if make is skellam:
        variance, fourth = value, 3 + 1 / value
    else:
        k = np.arange(-40 * math.ceil(value), 40 * math.ceil(value) + 1.0)
        p = np.exp(-0.5 * (k / value) ** 2)
        variance = (p * k**2).sum() / p.sum()
        fourth = (p * k**4).sum() / p.sum() / variance**2
    assert abs(x.mean()) < 5 * math.sqrt(variance / x.size)
    assert (x**2).mean() / variance == pytest.approx(1, abs=5 * math.sqrt((fourth - 1) / x.size))
    assert (x**4).mean() / variance**2 == pytest.approx(fourth, rel=0.05 + 0.1 / variance)


def test_independent() -> None:
    table = skellam(9.0)
    x = add_noise(torch.zeros(2, 1_000_000, dtype=torch.int32), table, KEY, [0, 1]).double()
    for one, other in ((x[0], x[1]), (x[0, 1:], x[0, :-1]), (x[0, WIDTH:], x[0, :-WIDTH])):
        assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.005


@pytest.mark.parametrize("size", [1, 10, 1030])
def test_the_same_numbers_in_any_block(size: int) -> None:
    rows, table = list(range(20)), discrete_normal(40.0)
    zeros = torch.zeros(20, size, dtype=torch.int32)
    whole = add_noise(zeros.clone(), table, KEY, rows)
    rounded = round_within(zeros + 0.5, 1.0, 1e9, 1, KEY, rows)
    for few in (1, 7):
        parts = [slice(i, i + few) for i in range(0, 20, few)]
        assert torch.equal(torch.cat([add_noise(zeros[p].clone(), table, KEY, rows[p]) for p in parts]), whole)
        again = [round_within(zeros[p] + 0.5, 1.0, 1e9, 1, KEY, rows[p]) for p in parts]
        assert torch.equal(torch.cat(again), rounded)
    assert size == 1 or not torch.equal(whole[0], whole[1])


def test_longer_rows_begin_alike() -> None:
    """Chunk by chunk: of the last one too, as far as both have it."""
    table = discrete_normal(4.0)
    assert torch.equal(drawn(3 * WIDTH, table)[: 2 * WIDTH], drawn(2 * WIDTH, table))


def test_the_same_numbers_on_any_thread() -> None:
    def work(row: int) -> torch.Tensor:
        return drawn(WIDTH + 99, skellam(77.0), row)

    whole = [work(row) for row in range(6)]
    with ThreadPoolExecutor(3) as pool:
        assert all(torch.equal(a, b) for a, b in zip(pool.map(work, range(6)), whole, strict=True))


def test_in_place_whatever_the_strides() -> None:
    x = torch.arange(120, dtype=torch.int32).reshape(40, 3).T
    expected = add_noise(x.contiguous(), skellam(5.0), KEY, range(3))
    assert add_noise(x, skellam(5.0), KEY, range(3)) is x
    assert torch.equal(x, expected)
    y = torch.linspace(-5, 5, 120).reshape(40, 3).T
    rounded = round_within(y.contiguous(), 0.1, 1e9, 1, KEY, range(3))
    assert torch.equal(round_within(y, 0.1, 1e9, 1, KEY, range(3)), rounded)
    assert torch.equal(y.view(torch.int32), rounded)


def test_sums_wrap() -> None:
    x = torch.full((1, 1000), 2**31 - 1, dtype=torch.int32)
    found = add_noise(x.clone(), skellam(50.0), KEY, [0]).long() - (2**31 - 1)
    assert torch.equal((found + 2**31) % 2**32 - 2**31, drawn(1000, skellam(50.0))[None].long())


def test_no_part_of_a_stream_is_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most numbers need more bits, over chunks, rows and tries."""
    fill, read = KeyStream.fill, []

    def note(stream: KeyStream, words, row: int, block: int) -> None:
        first = (row << 64) + block
        read.append((first, first + math.ceil(words.nbytes / 16)))
        fill(stream, words, row, block)

    monkeypatch.setattr(KeyStream, "fill", note)
    size = 2 * WIDTH + 5
    add_noise(torch.zeros(2, size, dtype=torch.int32), discrete_normal(5e3), KEY, [0, 1])
    assert len(read) == 12
    ends = sorted(read)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    read.clear()
    round_within(torch.full((2, size), 0.5), 1.0, 0.0, 5, KEY, [0, 1])
    assert len(read) == 2 * 5 * 3
    ends = sorted(read)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
def test_nothing(shape: tuple[int, int]) -> None:
    assert add_noise(torch.zeros(shape, dtype=torch.int32), skellam(1.0), KEY, range(shape[0])).shape == shape
    assert round_within(torch.zeros(shape), 1.0, 1.0, 3, KEY, range(shape[0])).shape == shape


@pytest.mark.parametrize("table", [skellam(1.0), skellam(4e4), discrete_normal(200.0)], ids=["1", "4e4", "200"])
def test_as_fast_as_noise_has_to_be(table: DrawTable) -> None:
    """Two million a second are 50 times slower than numpy's normal numbers; it is allowed to be 10 times slower."""
    rng, x = np.random.default_rng(0), torch.zeros(1, 200_000, dtype=torch.int32)

    def spent(work: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            start = time.thread_time()
            work()
            times.append(time.thread_time() - start)
        return min(times)

    assert spent(lambda: add_noise(x, table, KEY, [0])) < 10 * spent(lambda: rng.standard_normal(200_000))


@pytest.mark.parametrize(
    ("make", "value", "sentence"),
    [
        (skellam, 0.0, "variance=0 of integer noise must be from 0.001 .* finer"),
        (skellam, 1e9, "variance=1e.09 .* coarser"),
        (skellam, math.nan, "variance=nan"),
        (discrete_normal, 0.4, "deviation=0.4 of integer noise must be from 0.5 .* finer"),
        (discrete_normal, math.inf, "deviation=inf .* coarser"),
    ],
)
def test_wrong_parameters(make: Maker, value: float, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        make(value)


def test_rounding_has_the_right_mean() -> None:
    x = torch.tensor([-2.25, -1.0, -0.999, -0.5, 0.0, 0.125, 0.75, 3.0]).repeat(100_000)
    found = round_within(x[None].clone(), 1.0, 1e9, 1, KEY, [0]).reshape(-1, 8).double()
    true = x[:8].double()
    spread = (true - true.floor()) * (true.ceil() - true)
    assert bool(((found - true).abs() < 1).all())
    assert bool(((found.mean(0) - true).abs() <= 5 * (spread / 100_000).sqrt()).all())


def test_rows_beyond_the_limit_are_rounded_again() -> None:
    """100 numbers of 1/2 have a sum of squares of 50, give or take 5; below 40 in one try of 50, below 20 never."""
    halves = torch.full((400, 100), 0.5)

    def squares(limit: float, tries: int) -> torch.Tensor:
        return (round_within(halves.clone(), 1.0, limit, tries, KEY, range(400)) ** 2).sum(1)

    once, often, never = squares(40, 1), squares(40, 1000), squares(20, 20)
    assert bool((often <= 40).all())
    assert bool((often > 0).all())
    assert bool((once[once > 0] <= 40).all())
    assert 0 < int((once > 0).sum()) < 40  # the others are rounded towards zero
    assert not never.any()
    assert torch.equal(once[once > 0], often[once > 0])


def test_towards_zero() -> None:
    x = torch.tensor([[-2.9, 2.9, -0.5, 7.0]])
    assert round_within(x.clone(), 1.0, 57.0, 0, KEY, [0]).tolist() == [[-2, 2, 0, 7]]
    assert round_within(x.clone(), 1.0, 56.0, 0, KEY, [0]).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, 3e38])
def test_a_broken_row_becomes_zero_and_no_other(broken: float) -> None:
    x = torch.tensor([[1.0, broken], [1.0, 2.0]])
    assert round_within(x, 1.0, 5.0, 3, KEY, [0, 1]).tolist() == [[0, 0], [1, 2]]


@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40),
    st.floats(1e-3, 1e6),
    st.floats(0, 1e9),
    st.integers(0, 4),
)
def test_the_limit_holds_whatever_comes(row: list[float], step: float, limit: float, tries: int) -> None:
    found = round_within(torch.tensor([row]), step, limit, tries, KEY, [5])[0].tolist()
    assert sum(k * k for k in found) <= limit
    assert not any(found) or all(abs(k - x / step) < 1 + 1e-6 for k, x in zip(found, row, strict=True))


def test_named_by_labels_and_row() -> None:
    secret = SecretSeed.simulated(3)
    zeros = torch.zeros(3, 200, dtype=torch.int32)
    kinds = [
        lambda x, rows, *labels: secret.add_skellam(x.clone(), 9.0, rows, *labels),
        lambda x, rows, *labels: secret.add_discrete_normals(x.clone(), 3.0, rows, *labels),
        lambda x, rows, *labels: secret.round_within(x + 0.5, 1.0, 1e9, 1, rows, *labels),
    ]
    for kind in kinds:
        block = kind(zeros, [7, 2, 9], "noise", 1)
        assert torch.equal(kind(zeros[:1], [2], "noise", 1)[0], block[1])
        names = [([2], ("noise", 1)), ([3], ("noise", 1)), ([2], ("noise", 2)), ([0], ("noise", 1, 2))]
        assert len({tuple(kind(zeros[:1], rows, *labels)[0].tolist()) for rows, labels in names}) == 4


def test_kinds_share_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even under one name: a stream that is read twice would tie one to the other."""
    keys = []
    monkeypatch.setattr("hush.random.seeds.add_noise", lambda *given: keys.append(given[2]))
    monkeypatch.setattr("hush.random.seeds.round_within", lambda *given: keys.append(given[4]))
    monkeypatch.setattr("hush.random.seeds.add_normals", lambda *given: keys.append(given[2]))
    monkeypatch.setattr("hush.random.seeds.toss", lambda *given: keys.append(given[4]))
    x = torch.zeros(1, 1)
    for secret in (SecretSeed.simulated(3), SecretSeed.system()):
        secret.add_skellam(x, 1.0, [0], "a", 1)
        secret.add_discrete_normals(x, 1.0, [0], "a", 1)
        secret.round_within(x, 1.0, 1.0, 1, [0], "a", 1)
        secret.add_normals(x, 1.0, [0], "a", 1)
        secret.heads(x, 1.0, 0.1, 1, [0], "a", 1)
    assert len(set(keys)) == 10


def test_the_system_gives_every_row_its_own() -> None:
    """Even if somebody names two rows alike, and never the same again."""
    secret, zeros = SecretSeed.system(), torch.zeros(2, 200, dtype=torch.int32)
    rows = [*secret.add_skellam(zeros.clone(), 9.0, [4, 4], "a"), *secret.add_skellam(zeros.clone(), 9.0, [4, 4], "a")]
    rows += [*secret.round_within(zeros + 0.5, 1.0, 1e9, 1, [4, 4], "a")]
    rows += [*secret.round_within(zeros + 0.5, 1.0, 1e9, 1, [4, 4], "a")]
    assert len({tuple(row.tolist()) for row in rows}) == 8
