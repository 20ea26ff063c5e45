"""PoissonBinomial as a stage: what is sent, what comes back, and what a whole round of them tells."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from contexts import Context
from scipy import stats

from hush.core.packing import Codes
from hush.core.spec import Plan, Spec, Total
from hush.errors import Aborted, Mistake
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import AdaptiveClip, Clip, Noise, PoissonBinomial, Sign
from hush.privacy.accountants import gaussian_epsilon
from hush.privacy.poisson_binomial import spread
from hush.random.seeds import SecretSeed

SECRET = SecretSeed.simulated(9)
BITS = [1, 2, 4, 8]


def context(members: int, cohort: float, l2: float = 0.5, round: int = 1, clip: float | None = None) -> Context:
    plan = Plan(round, torch.zeros(1), None, cohort, float(members), clip)
    return Context(Spec(3, l2=l2, clip=clip), plan, np.arange(members), torch.ones(members), SECRET)


def passed(stage: PoissonBinomial, x: torch.Tensor, ctx: Context) -> torch.Tensor:
    """The decoded sum of these rows."""
    sent = stage.encode(x.clone(), ctx)
    return stage.decode(Total(sent.double().sum(dim=0), len(x), float(len(x))), ctx).body


@pytest.mark.parametrize("bits", BITS)
def test_what_is_sent_fits_its_form(bits: int) -> None:
    """Of a two-bit number -3, -1, 1, 3, all of them, and the very same bits after the wire."""
    stage = PoissonBinomial(1.0, bits)
    spec = stage.spec(Spec(20_000, l2=0.5))
    assert (spec.form, spec.noise, spec.l2, spec.size) == (Codes(bits), 1.0, 0.5, 20_000)
    sent = stage.encode(torch.zeros(1, 20_000), context(1, 4))[0]
    assert torch.equal(spec.form.unpack(spec.form.pack(sent), 20_000), sent)
    assert len(spec.form.pack(sent)) == 20_000 * bits // 8
    if bits < 8:
        assert set(sent.tolist()) == set(range(-(2**bits) + 1, 2**bits, 2))


@pytest.mark.parametrize("present", [0, 1, 7, 10])
@pytest.mark.parametrize("bits", BITS)
def test_deviation(bits: int, present: int) -> None:
    """r sqrt(places) / 2 sigma S, however many are there: the sum does not reveal it."""
    stage, size = PoissonBinomial(1.3, bits, spare=0.0), 100_000
    body = passed(stage, torch.zeros(present, size), context(present, 10))
    expected = 1.3 * 0.5 * spread(10, 1 / 16) * math.sqrt(10) / 2
    assert float(body.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * size))
    assert 1.3 * 0.5 < expected < 1.3 * 0.5 * 1.11
    assert abs(float(body.mean())) < 5 * expected / math.sqrt(size)


@pytest.mark.parametrize("bits", BITS)
def test_unbiased(bits: int) -> None:
    """The decoded sum is that of the updates, over a million draws; what is beyond the edge counts as the edge."""
    stage, size, ctx = PoissonBinomial(2.0, bits), 1_000_000 // 2 ** (bits // 2), context(3, 3.0)
    k = 1 / (2.0 * 0.5 * math.sqrt(stage.coins) * spread(stage.places(3.0), 1 / 16))
    x = torch.tensor([0.3, -0.9, 5.0]) / k / 16
    body = passed(stage, x.unsqueeze(1).repeat(1, size), ctx)
    assert float(body.mean()) == pytest.approx((0.3 - 0.9 + 1) / k / 16, abs=5 * float(body.std()) / math.sqrt(size))


def test_coins_of_all_clients_are_their_own() -> None:
    sent = PoissonBinomial(1.0).encode(torch.zeros(4, 50_000), context(4, 4)).double()
    apart = torch.corrcoef(sent) - torch.eye(4)
    assert float(apart.abs().max()) < 5 / math.sqrt(50_000)
    again = PoissonBinomial(1.0).encode(torch.zeros(4, 50_000), context(4, 4, round=2)).double()
    assert abs(float(torch.corrcoef(torch.stack([sent[0], again[0]]))[0, 1])) < 5 / math.sqrt(50_000)


def test_places() -> None:
    assert [PoissonBinomial(1.0, spare=0.0).places(n) for n in (1.0, 5.0, 3 * 0.1 * 10, 29.000000000001)] == [
        1,
        5,
        3,
        29,
    ]
    assert PoissonBinomial(1.0, spare=0.0).places(0.0) == 1
    assert PoissonBinomial(1.0).places(100.0) == 166
    for cohort in (0.5, 3.0, 16.7, 100.0, 1000.0):
        assert stats.poisson.sf(PoissonBinomial(1.0).places(cohort), cohort) < math.exp(-18)


def test_too_many_for_their_places() -> None:
    stage, ctx = PoissonBinomial(1.0, spare=0.0), context(4, 3)
    with pytest.raises(Aborted, match="a cohort of 4 is larger than its 3 places"):
        stage.decode(Total(torch.zeros(5, dtype=torch.float64), 4, 4.0), ctx)


def test_slack() -> None:
    """The client is drawn and all places are taken by others: by counting all cases of a small population."""
    stage, rate = PoissonBinomial(1.0, spare=1.0), 0.4
    places = stage.places(2.4)
    assert places == 5
    ways = sum(math.comb(6, n) * rate**n * (1 - rate) ** (6 - n) for n in range(places, 7))
    assert stage.slack(Poisson(rate), 6) == pytest.approx(rate * ways)
    assert stage.slack(Poisson(0.5), 1) == stage.slack(Fixed(2), 6) == 0.0
    for population, cohort in ((314, 3), (6000, 100), (100_000, 1000)):
        assert 0 < 300 * PoissonBinomial(1.0).slack(Poisson(cohort / population), population) < 1e-7


def test_multipliers() -> None:
    """The sum of all places is sigma's; against the server those of the floor count, of an upload its own."""
    stage, plan = PoissonBinomial(1.5), context(90, 100.0).plan
    found = stage.multipliers(Spec(3, l2=1.0), plan, plan.floor)
    whole = 1.5 * spread(166, 1 / 16)
    assert found.model == 1.5
    assert found.server == pytest.approx(whole / spread(90, 1 / 16))
    assert found.upload == pytest.approx(whole / spread(1, 1 / 16))
    assert stage.multipliers(Spec(3, l2=1.0), plan, 90.7).server == found.server
    assert stage.multipliers(Spec(3, l2=1.0), plan, 1).server == found.upload
    assert stage.multipliers(Spec(3, l2=1.0), plan, 0).server == 0
    full = PoissonBinomial(1.5, spare=0.0).multipliers(Spec(3, l2=1.0), replace(plan, floor=100.0), 100)
    assert full.server == full.model


def test_refused() -> None:
    with pytest.raises(Mistake, match="needs a bounded input: put Clip"):
        PoissonBinomial(1.0).spec(Spec(3))
    with pytest.raises(Mistake, match="one is enough"):
        PoissonBinomial(1.0).spec(Noise(1.0).spec(Spec(3, l2=1.0)))
    for later in (Clip(1.0), Noise(1.0), Sign(), PoissonBinomial(1.0)):
        with pytest.raises(Mistake):
            later.spec(PoissonBinomial(1.0).spec(Spec(3, l2=1.0)))
    for made in ({"multiplier": 0.0}, {"multiplier": math.inf}, {"bits": 3}, {"edge": 0.3}, {"spare": -1.0}):
        with pytest.raises(Mistake, match="must be"):
            PoissonBinomial(**{"multiplier": 1.0, **made})


@pytest.mark.parametrize("bits", BITS)
def test_adaptive_clip(bits: int) -> None:
    """Its count comes through without bias and with the noise of any other number: the bound can follow it."""
    clip, coins, rounds = AdaptiveClip(0.1), PoissonBinomial(1.0, bits, spare=0.0), 60
    before = Spec(2)
    between = clip.spec(before)
    after = coins.spec(between)
    assert after.size == 2 + math.ceil(1024 / coins.coins)
    expected = between.l2 * spread(10, 1 / 16) * math.sqrt(10) / 2
    for within in (2, 10):
        counts = []
        for number in range(rounds):
            ctx = replace(context(10, 10, round=number), spec=before)
            x = clip.encode(torch.cat([torch.full((within, 2), 0.01), torch.ones(10 - within, 2)]), ctx)
            ctx = replace(ctx, spec=between)
            sent = coins.encode(x, ctx)
            assert sent.shape == (10, after.size)
            total = coins.decode(Total(sent.double().sum(dim=0), 10, 10.0), ctx)
            assert total.body.shape == (3,)
            counts.append(float(total.body[-1]))
        assert np.mean(counts) == pytest.approx(0.02 * (within - 5), abs=5 * expected / math.sqrt(rounds))
        assert np.std(counts) == pytest.approx(expected, rel=0.4)


def test_a_count_that_would_be_cut() -> None:
    spec = AdaptiveClip(0.1).spec(Spec(2))
    with pytest.raises(Mistake, match=r"noise=0\.02 is so little .* take more noise"):
        PoissonBinomial(0.02).encode(torch.zeros(1, 3), replace(context(1, 10), spec=spec))


def statistics(present: bool, mistaken: int, width: int, rounds: int) -> np.ndarray:
    """Per round, the sum of all decoded numbers: three clients push down, and one up if it is there.

    A round is a block of `width` numbers, so that one call tosses many rounds.
    """
    coins, bound = PoissonBinomial(1.0, bits=1, spare=0.0), 0.5
    found = []
    for number in range(rounds // 5000):
        ctx = context(3 + present, 4.0, l2=bound / mistaken, round=1 + number + 1000 * present)
        block = torch.cat([-torch.ones(3, width), torch.ones(int(present), width)])
        x = Clip(bound).encode(block, ctx).repeat(1, 5000)
        found.append(passed(coins, x, ctx).reshape(5000, width).sum(dim=1).numpy())
    return np.concatenate(found)


def least_epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """What two samples prove: the best threshold of the first half, Clopper and Pearson's bounds on the second."""
    half = len(p) // 2

    def proven(cut: float, a: np.ndarray, b: np.ndarray) -> float:
        hits = int((a >= cut).sum()), int((b >= cut).sum())
        low = stats.beta.ppf(0.005, hits[0], half - hits[0] + 1) if hits[0] else 0.0
        high = stats.beta.ppf(0.995, hits[1] + 1, half - hits[1])
        return math.log((low - delta) / high) if low > delta else 0.0

    cuts = np.quantile(p[:half], np.linspace(0.02, 0.98, 49))
    best = max(cuts, key=lambda cut: proven(cut, p[:half], q[:half]))
    return proven(best, p[half:], q[half:])


def test_audit() -> None:
    """The worst pair that is known, through clip, coins and server: within the guarantee, and more than half of it.

    With coins of twice the bias, on purpose, the same attack breaks it.
    """
    delta, bound = 1e-2, gaussian_epsilon(1.0, 1e-2)
    found = {}
    for mistaken in (1, 2):
        # As many numbers as it takes to have all of them just within the edge, where a coin tells most.
        width = math.ceil((mistaken * 16 / spread(4, 1 / 16)) ** 2)
        p, q = (statistics(present, mistaken, width, 20_000 // mistaken) for present in (True, False))
        found[mistaken] = least_epsilon(p, q, delta)
    assert 0.5 * bound < found[1] < bound < found[2]
