"""PoissonBinomial: as their slow twin tosses them, of the probability that was asked for, and the same in any block."""

import math
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from hush.random.bernoulli import FAIR, FIRST, WIDEST, fair, toss
from hush.random.seeds import SecretSeed

KEY = bytes(range(32))
COINS = [1, 3, 15, 255]


def width(coins: int) -> int:
    return min(WIDEST, FIRST // coins // 16 * 16)


def stream(row: int, count: int, size: int) -> bytes:
    """Key stream from single blocks of the cipher."""
    cipher = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    return b"".join(cipher.update(struct.pack(">qQ", row, count + i)) for i in range(math.ceil(size / 16)))


def slow_toss(line: list[float], scale: float, edge: float, coins: int, row: int) -> list[int]:
    """One coin after the other: a word of 32 bits against its threshold."""
    found: list[int] = []
    for start in range(0, len(line), width(coins)):
        part = line[start : start + width(coins)]
        limits = [2**31 + math.trunc(min(max(scale * x, -edge), edge) * 2**32) for x in part]
        count, wide = start * coins * 5 // 16, math.ceil(len(part) / 16) * 16
        first = stream(row, count, coins * wide)
        more = iter(struct.iter_unpack("<I", stream(row, count + width(coins) * coins // 16, 4 * coins * wide)))
        heads = [0] * len(part)
        for coin in range(coins):
            for i, limit in enumerate(limits):
                high = first[coin * wide + i]
                low = next(more)[0] >> 8 if high == limit >> 24 else 0
                heads[i] += (high << 24) + low < limit
        found += [2 * h - coins for h in heads]
    return found


LONG = (255, width(255) + 9, 6)
SHORT = [(coins, size, row) for coins, size in ((1, 17), (3, 1000), (15, 1), (255, 16)) for row in (0, 5, 2**40, -1)]


@pytest.mark.parametrize(("coins", "size", "row"), [*SHORT, LONG])
def test_equals_its_slow_twin(coins: int, size: int, row: int) -> None:
    x = torch.linspace(-3, 3, size) ** 3
    slow = slow_toss(x.tolist(), 0.004, 0.06, coins, row)
    found = toss(x[None].clone(), 0.004, 0.06, coins, KEY, [row])[0]
    assert found.tolist() == slow


@pytest.mark.parametrize("coins", [1, 7, 8, 9, 247, 248, 249, 600])
def test_fair_coins_equal_their_slow_twin(coins: int) -> None:
    """A byte holds eight coins, the last one its highest bits; 31 bytes of each number together."""
    size, layers = 37, math.ceil(coins / 8)
    heads = np.zeros(size, int)
    for layer in range(layers):
        group = layer // 31 * 31
        bits = np.frombuffer(stream(group, 0, 31 * 48), np.uint8)[(layer - group) * 48 :][:size]
        last = layer == layers - 1
        heads += [bin(int(b) >> (-coins % 8 if last else 0)).count("1") for b in bits]
    assert fair(size, coins, KEY).tolist() == (2 * heads - coins).tolist()


def test_the_same_tomorrow() -> None:
    """Runs are resumed and compared across versions: these coins must never change."""
    x = toss(torch.zeros(1, 2 * WIDEST + 3), 1.0, 0.1, 3, KEY, [7])[0]
    assert x[[0, 1, 2, 3, WIDEST, WIDEST + 1, 2 * WIDEST, -1]].tolist() == TOSSED
    found = fair(FAIR + 3, 300, KEY)
    assert found[[0, 1, 2, FAIR - 1, FAIR, -1]].tolist() == SUMS


TOSSED = [1.0, 1.0, -1.0, 3.0, 1.0, 1.0, -1.0, -1.0]
SUMS = [44.0, -8.0, 14.0, -20.0, 8.0, 6.0]


@pytest.mark.parametrize("bias", [0.0, 1 / 16, -1 / 16, 0.4 / 256, -0.02, 0.249, 2.0**-20])
@pytest.mark.parametrize("coins", COINS)
def test_frequencies(coins: int, bias: float) -> None:
    """A count of heads is binomial: chi-square over its values, those that are rare together."""
    size = 4_000_000 // coins
    heads = (toss(torch.full((1, size), bias), 1.0, 0.25, coins, KEY, [3])[0].numpy() + coins) / 2
    expected = size * stats.binom.pmf(np.arange(coins + 1), coins, 0.5 + bias)
    seen = np.bincount(heads.astype(int), minlength=coins + 1)
    often = expected > 20
    rare = [seen[~often].sum()], [expected[~often].sum()]
    if rare[1][0] < 5:
        assert rare[0][0] < 30
        rare = [], []
    seen, expected = np.append(seen[often], rare[0]), np.append(expected[often], rare[1])
    assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-6
    # The mean finds what a chi-square over 256 values would miss.
    assert abs(heads.mean() / coins - 0.5 - bias) < 5 * 0.5 / math.sqrt(size * coins)


@pytest.mark.parametrize("coins", [1, 5, 8, 198, 1000])
def test_fair_frequencies(coins: int) -> None:
    heads = (fair(200_000, coins, KEY).numpy() + coins) / 2
    assert heads.min() >= 0
    assert heads.max() <= coins
    assert abs(heads.mean() - coins / 2) < 5 * math.sqrt(coins / 4 / len(heads))
    assert heads.var() == pytest.approx(coins / 4, rel=5 * math.sqrt(2 / len(heads)))
    assert abs(np.corrcoef(heads[1:], heads[:-1])[0, 1]) < 5 / math.sqrt(len(heads))
    around = np.arange(max(0, coins // 2 - 3 * math.isqrt(coins)), coins // 2 + 1)
    for value in around[:: max(1, len(around) // 8)]:
        probability = stats.binom.cdf(value, coins, 0.5)
        assert abs((heads <= value).mean() - probability) < 5 * math.sqrt(probability / len(heads)) + 5 / len(heads)


def test_coins_are_independent() -> None:
    """Neighbours, rows, and the coins of one number: a variance that is the binomial one."""
    x = toss(torch.zeros(2, 1_000_000), 1.0, 0.1, 15, KEY, [0, 1]).double()
    assert float(x.var()) == pytest.approx(15, rel=0.005)
    for one, other in ((x[0], x[1]), (x[0, 1:], x[0, :-1])):
        assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.005


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf, 1e38, -1e38])
def test_whatever_comes_is_cut(x: float) -> None:
    """A probability outside 1/2 +- edge would be no coin; what is not a number says nothing."""
    heads = (toss(torch.full((1, 400_000), x), 1e30, 0.125, 3, KEY, [0]) + 3) / 2
    probability = 0.5 if math.isnan(x) else 0.5 + math.copysign(0.125, x)
    assert float(heads.mean()) / 3 == pytest.approx(probability, abs=0.0025)


@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("size", [1, 10, 1030])
def test_the_same_coins_in_any_block(coins: int, size: int) -> None:
    rows = list(range(20))
    x = torch.linspace(-1, 1, size).repeat(len(rows), 1)
    whole = toss(x.clone(), 0.1, 0.1, coins, KEY, rows)
    for few in (1, 7):
        parts = [toss(x[i : i + few].clone(), 0.1, 0.1, coins, KEY, rows[i : i + few]) for i in range(0, 20, few)]
        assert torch.equal(torch.cat(parts), whole)
    assert size == 1 or not torch.equal(whole[0], whole[1])


def test_the_same_coins_on_any_thread() -> None:
    def tossed(row: int) -> torch.Tensor:
        return toss(torch.zeros(1, WIDEST + 99), 1.0, 0.1, 3, KEY, [row])

    whole = [tossed(row) for row in range(6)]
    with ThreadPoolExecutor(3) as pool:
        assert all(torch.equal(a, b) for a, b in zip(pool.map(tossed, range(6)), whole, strict=True))


def test_in_place_whatever_the_strides() -> None:
    x = torch.linspace(-1, 1, 120).reshape(40, 3).T
    expected = toss(x.contiguous(), 0.1, 0.1, 3, KEY, range(3))
    found = toss(x, 0.1, 0.1, 3, KEY, range(3))
    assert found is x
    assert torch.equal(x, expected)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
def test_nothing(shape: tuple[int, int]) -> None:
    assert toss(torch.zeros(shape), 1.0, 0.1, 3, KEY, range(shape[0])).shape == shape
    assert fair(0, 9, KEY).shape == (0,)
    assert fair(5, 0, KEY).tolist() == [0.0] * 5


def test_named_by_labels_and_row() -> None:
    secret = SecretSeed.simulated(3)

    def tossed(row: int, *labels: str | int) -> tuple[float, ...]:
        return tuple(secret.heads(torch.zeros(1, 200), 1.0, 0.1, 3, [row], *labels)[0].tolist())

    block = secret.heads(torch.zeros(3, 200), 1.0, 0.1, 3, [7, 2, 9], "coins", 1)
    assert tuple(block[1].tolist()) == tossed(2, "coins", 1)
    assert len({tossed(2, "coins", 1), tossed(3, "coins", 1), tossed(2, "coins", 2), tossed(0, "coins", 1, 2)}) == 4
    sums = [secret.fair(200, 9, "coins", number, "server") for number in (1, 1, 2)]
    assert torch.equal(sums[0], sums[1])
    assert not torch.equal(sums[0], sums[2])


def test_noise_and_coins_share_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even under one name: a stream that is read twice would tie one to the other."""
    keys = []
    monkeypatch.setattr("hush.random.seeds.toss", lambda *given: keys.append(given[4]))
    monkeypatch.setattr("hush.random.seeds.fair", lambda *given: keys.append(given[2]))
    monkeypatch.setattr("hush.random.seeds.add_normals", lambda *given: keys.append(given[2]))
    for secret in (SecretSeed.simulated(3), SecretSeed.system()):
        secret.heads(torch.zeros(1, 1), 1.0, 0.1, 1, [0], "coins", 1)
        secret.fair(1, 1, "coins", 1)
        secret.add_normals(torch.zeros(1, 1), 1.0, [0], "coins", 1)
    assert len(set(keys)) == 6


def test_the_system_gives_every_row_its_own() -> None:
    """Even if somebody names two rows alike, and never the same again."""
    secret = SecretSeed.system()
    x = secret.heads(torch.zeros(2, 200), 1.0, 0.1, 3, [4, 4], "coins", 1)
    again = secret.heads(torch.zeros(2, 200), 1.0, 0.1, 3, [4, 4], "coins", 1)
    assert len({tuple(row.tolist()) for row in (*x, *again)}) == 4
    assert not torch.equal(secret.fair(200, 3, "a"), secret.fair(200, 3, "a"))
