"""A scheme in integers: the same noise by the ledger, little more in truth, and no sum that wraps."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from contracts.parts import TURNS, Says, wide
from torch import nn

from hush.catalogue.entries import ENTRIES
from hush.catalogue.secure_form import secured
from hush.catalogue.values import Settings
from hush.core.clients import Order
from hush.core.integers import Integers
from hush.core.packing import Codes
from hush.core.plain import All, Sum
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Total
from hush.core.state import Books
from hush.core.task import Task
from hush.errors import Mistake
from hush.federation.simulated import Simulated
from hush.models.weights import flatten
from hush.parts.aggregators import SecureSum
from hush.parts.aggregators.secure import LEAST
from hush.parts.sampling import Fixed, Poisson
from hush.parts.stages import (
    AdaptiveClip,
    Clip,
    FixedPoint,
    IntegerNoise,
    Noise,
    Quantise,
    Rotate,
    ServerNoise,
    Sign,
    Weigh,
)
from hush.privacy import grids
from hush.random.seeds import SecretSeed

REFUSED = ("two-bit", "standalone", "centralized")
SUMMED = [name for name in ENTRIES if name not in (*REFUSED, *TURNS)]
OTHERS = ("dp-fedavg", "two-bit-dp", *TURNS)  # whose noise is not in shares
SHARED = [name for name, e in ENTRIES.items() if e.level == "client" and name not in OTHERS]
SIGMA, S, CLIENTS = 1.3, 0.7, 10


@pytest.fixture(scope="module")
def large() -> Task:
    """100,100 weights and ten clients."""
    return wide(lambda: nn.Linear(1000, 100), CLIENTS)


def only(stages: tuple[Any, ...], kind: type) -> Any:
    (found,) = (stage for stage in stages if isinstance(stage, kind))
    return found


@pytest.mark.parametrize("name", SUMMED)
def test_what_becomes_of_it(name: str, task: Task, settings: Settings) -> None:
    """Everything but the last stage and the aggregator stays; uploads are integers of a few bits."""
    base = ENTRIES[name].scheme(replace(settings, sampling=Fixed(6)))
    found = secured(base, task)
    found.check(task)
    assert found.secure
    assert found.aggregator == SecureSum(False, 1, 0.1)
    same = ("trainer", "coordinates", "step", "baseline", "standalone")
    assert all(getattr(found, part) == getattr(base, part) for part in same)
    assert found.sampling == Fixed(6, floor=LEAST)
    assert (found.level, found.private) == (base.level, base.private)
    size = base.coordinates.count(task.layout)
    form, kept = found.specs(size)[-1].form, base.stages
    if isinstance(base.specs(size)[-1].form, Codes):
        assert found.stages == base.stages
    elif isinstance(base.source, Noise):
        assert [type(stage) for stage in found.stages[-3:]] == [Rotate, Quantise, IntegerNoise]
        kept = base.stages[:-1]
        assert isinstance(form, Integers)
        assert 4 <= form.width <= 12
    elif isinstance(base.source, ServerNoise):
        assert [type(stage) for stage in found.stages[-3:]] == [Rotate, Quantise, ServerNoise]
        assert found.source == base.source
        kept = base.stages[:-1]
    else:
        assert isinstance(found.stages[-1], FixedPoint)
        assert form == Integers(32)
    assert found.stages[: len(kept)] == kept
    assert secured(base, task, full=True, servers=2, corrupt=0.2).aggregator == SecureSum(True, 2, 0.2)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("two-bit", "BitVote does not add the uploads up: it has no secure sum"),
        ("standalone", "nothing travels in this scheme: there is nothing to add up in secret"),
        ("centralized", "nothing travels in this scheme"),
    ],
)
def test_what_has_no_sum(name: str, sentence: str, task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match=sentence):
        secured(ENTRIES[name].scheme(settings), task)


def test_once_is_enough(task: Task, settings: Settings) -> None:
    found = secured(ENTRIES["fl-top-dp"].scheme(settings), task)
    with pytest.raises(Mistake, match="SecureSum does not add the uploads up"):
        secured(found, task)
    whole = replace(found, aggregator=Sum())
    assert secured(whole, task, full=True).stages == found.stages


@pytest.mark.parametrize("name", ["fl-sign", "fl-sign-dp", "two-bit-dp"])
def test_bits_of_codes_are_what_they_are(name: str, task: Task, settings: Settings) -> None:
    with pytest.raises(Mistake, match="bits=12 cannot be chosen: codes add up exactly"):
        secured(ENTRIES[name].scheme(settings), task, bits=12)


def test_bits_and_loss(task: Task, settings: Settings) -> None:
    """The fewest bits for the loss; or as told, with the finest grid."""
    base = ENTRIES["fl-std-dp"].scheme(settings)

    def grid(**given: Any) -> tuple[int, float]:
        whole = only(secured(base, task, **given).stages, Quantise)
        return whole.bits, grids.loss(whole.steps, secured(base, task, **given).specs(910)[-1].size)

    usual, found = grid(), [grid(rounding=loss) for loss in (0.3, 0.03, 0.003)]
    assert usual == grid(rounding=0.05)
    assert usual[1] <= 0.05 < grid(bits=usual[0] - 1)[1]
    for (bits, lost), allowed in zip(found, (0.3, 0.03, 0.003), strict=True):
        assert lost <= allowed
        assert grid(bits=bits) == (bits, lost)
    assert found[0][0] < found[1][0] < found[2][0]
    assert only(secured(ENTRIES["fl-std"].scheme(settings), task, bits=20).stages, FixedPoint).bits == 20
    with pytest.raises(Mistake, match=r"bits=2 are too few .* take more bits"):
        secured(base, task, bits=2)
    with pytest.raises(Mistake, match=r"rounding=0 must be positive"):
        secured(base, task, rounding=0.0)
    with pytest.raises(Mistake, match=r"kind=laplace"):
        secured(base, task, kind="laplace")


def test_the_reach_of_weighted_updates(task: Task, settings: Settings) -> None:
    """A client's update times its 20 records has as much room as that of others."""
    plain, weighted = (secured(ENTRIES[name].scheme(settings), task).stages[-1] for name in ("fl-top", "fl-std"))
    assert isinstance(plain, FixedPoint)
    assert isinstance(weighted, FixedPoint)
    assert (plain.reach, weighted.reach) == (8.0, 160.0)
    assert plain.clients == weighted.clients == 5


def test_room() -> None:
    assert Fixed(7).largest(100) == 7
    assert Poisson(0.1).largest(100) == 20  # 10 and three deviations
    assert Poisson(0.9).largest(10) == 10
    sampling, secret = Poisson(0.1), SecretSeed.simulated(0)
    sizes = [len(sampling.draw(100, secret, round)) for round in range(3000)]
    assert np.mean(np.array(sizes) > 20) < 3e-3


def test_cohorts_that_are_too_small_are_left_out() -> None:
    assert Poisson(0.1, tolerance=0.2).at_least(LEAST) == Poisson(0.1, LEAST, 0.2)
    assert Fixed(9, 5).at_least(LEAST) == Fixed(9, 5)


TOLERANCES = pytest.mark.parametrize(("tolerance", "stay"), [(None, 10), (0.2, 10), (0.2, 8)])


@pytest.mark.parametrize("kind", grids.KINDS)
@TOLERANCES
def test_deviation(kind, tolerance: float | None, stay: int, large: Task) -> None:
    """What noise there is in a decoded sum: sigma S (1 + loss) / sqrt(1 - tolerance), whoever stays."""
    base = ENTRIES["fl-std-dp"].scheme(Settings(sampling=Fixed(10, tolerance=tolerance), clip=Clip(S), noise=SIGMA))
    row = torch.randn(100_100, generator=torch.Generator().manual_seed(1))
    scheme = replace(secured(base, large, kind=kind), trainer=Says(row))  # is clipped to S, the same for all
    scheme.check(large)
    floor = 10.0 * (1 - (tolerance or 0.0))
    plan = Plan(1, flatten(large.model), None, 10.0, floor, spare=tolerance or 0.0)
    secret = SecretSeed.simulated(4)
    transport = Simulated(block=2, lost=lambda round, client: client >= stay)

    def released(scheme: Scheme) -> torch.Tensor:
        total = transport.of(large).collect(Order(scheme, plan, np.arange(10), secret, Books.first(10)))
        assert total.count == stay
        return scheme.server(plan, total, secret).body

    noisy, quiet = released(scheme), released(replace(scheme, stages=scheme.stages[:-1]))
    noise = noisy - quiet
    spec = scheme.specs(100_100)
    whole = only(scheme.stages, Quantise)
    lost = grids.loss(whole.steps, spec[-1].size)
    assert 0 < lost <= 0.05
    stated = SIGMA * S * (1 + lost)
    worth = only(scheme.stages, IntegerNoise).multiplier / SIGMA
    assert 1 < worth < 1.002
    expected = stated * worth * math.sqrt(10 / floor)
    assert float(noise.std()) == pytest.approx(expected, rel=0.01)
    assert abs(float(noise.mean())) < 5 * expected / math.sqrt(100_100)
    assert float(noise.abs().max()) < 6 * expected  # nothing wrapped
    # and besides it nothing but rounding, of at most half a step each
    exact = row.double() * (S / float(row.double().norm())) * stay
    assert float((quiet - exact).std()) < 0.5 * S / whole.steps * math.sqrt(stay) * 1.01
    assert not torch.equal(noisy, quiet)


def test_deviation_of_the_server_s_noise(large: Task) -> None:
    """A trusted server's is added to a sum that has room for it."""
    base = ENTRIES["dp-fedavg"].scheme(Settings(sampling=Fixed(10), clip=Clip(S), noise=SIGMA))
    row = torch.randn(100_100, generator=torch.Generator().manual_seed(1))
    scheme = replace(secured(base, large), trainer=Says(row))
    plan, secret = Plan(1, flatten(large.model), None, 10.0, 0.0), SecretSeed.simulated(4)
    total = Simulated().of(large).collect(Order(scheme, plan, np.arange(10), secret, Books.first(10)))
    quiet = replace(scheme, stages=scheme.stages[:-1]).server(plan, total, secret).body
    noise, whole = scheme.server(plan, total, secret).body - quiet, only(scheme.stages, Quantise)
    expected = SIGMA * S * (1 + grids.loss(whole.steps, scheme.specs(100_100)[-1].size))
    assert float(noise.std()) == pytest.approx(expected, rel=0.01)
    assert expected <= SIGMA * S * 1.05
    assert float(noise.abs().max()) < 6 * expected
    event = scheme.event(plan, large)
    assert event is not None
    assert (event.noise, event.server, event.share) == (SIGMA, 0.0, 0.0)


SAMPLINGS = [Fixed(6), Fixed(6, tolerance=0.2), Fixed(7, tolerance=0.3), Poisson(0.5)]


@pytest.mark.parametrize("kind", grids.KINDS)
@pytest.mark.parametrize("name", SHARED)
def test_the_ledger_sees_the_multiplier_that_was_given(name: str, kind, task: Task, settings: Settings) -> None:
    for sampling in SAMPLINGS:
        scheme = secured(ENTRIES[name].scheme(replace(settings, sampling=sampling)), task, kind=kind)
        count, plain = scheme.coordinates.count(task.layout), ENTRIES[name].scheme(replace(settings, sampling=sampling))
        live = None if isinstance(scheme.coordinates, All) else torch.arange(count)
        for cohort in (6, 7) if isinstance(sampling, Fixed) else range(3, 13):
            size = sampling.size if isinstance(sampling, Fixed) else cohort
            floor = round((1 - scheme.tolerance) * size, 9)
            plan = Plan(1, flatten(task.model), live, sampling.cohort(12), floor, spare=scheme.tolerance)
            event, before = scheme.event(plan, task), plain.event(plan, task)
            assert event is not None
            assert before is not None
            whole = math.sqrt(math.ceil(floor) / floor) if kind == "gaussian" else 1.0  # who stay are whole clients
            assert before.noise == pytest.approx(0.8 / math.sqrt(1 - scheme.tolerance))
            assert before.noise <= event.noise <= before.noise * 1.002
            seen, plainly = (e.noise if e.server is None else e.server for e in (event, before))
            assert plainly == pytest.approx(0.8)
            assert 0.8 <= seen <= 0.8 * 1.002 * whole
            assert event.noise >= event.share >= 0.95 * before.share
            same = ("round", "rate", "sampling", "label")
            assert all(getattr(event, key) == getattr(before, key) for key in same)
            least = replace(plain, sampling=scheme.sampling).event(plan, task)
            assert least is not None
            assert event.slack == least.slack  # rounds with fewer than three clients are aborted, for all to see


@pytest.mark.parametrize("tolerance", [0.05, 0.12, 0.2, 0.25, 0.3])
@pytest.mark.parametrize("kind", grids.KINDS)
def test_cohorts_of_any_size_are_worth_it(kind, tolerance: float, task: Task, settings: Settings) -> None:
    """A budget is met whoever is drawn: shares for part of a client do not make it less."""
    sampling = Poisson(0.4, tolerance=tolerance)
    scheme = secured(ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=sampling)), task, kind=kind)
    for cohort in range(3, 13):
        floor = round((1 - tolerance) * cohort, 9)
        event = scheme.event(Plan(1, flatten(task.model), None, 4.8, floor, spare=tolerance), task)
        assert event is not None
        assert event.noise >= 0.8 / math.sqrt(1 - tolerance), cohort
        assert event.server is not None
        assert event.server >= 0.8, cohort


def test_noise_of_the_server_hides_a_wrap_too(task: Task, settings: Settings) -> None:
    """A sum at the edge of its modulus, and the same with a step more, which one client can add: what is released,
    with the very same noise, would distinguish them if the sum had wrapped before it got its noise."""
    scheme = secured(ENTRIES["dp-fedavg"].scheme(replace(settings, sampling=Fixed(6))), task)
    specs, whole = scheme.specs(910), only(scheme.stages, Quantise)
    edge, bound = 2 ** (whole.bits - 1), specs[-1].l2
    few = math.floor((6 * bound / edge) ** 2)  # in so many numbers, clients at their bound reach the edge together
    if few < 1:
        return  # no sum can wrap
    assert few <= bound**2  # one client can move each of them by a step
    plan, secret = Plan(1, flatten(task.model), None, 6.0, 0.0), SecretSeed.simulated(4)
    released = []
    for top in (edge - 1, edge):
        body = torch.zeros(specs[-1].size, dtype=torch.float64)
        body[:few] = top
        released.append(scheme.server(plan, Total(body, 6, 6.0), secret).body)
    grid = specs[scheme.stages.index(whole)].l2 / whole.steps
    apart = float((released[0] - released[1]).norm()) / grid  # where noise meets the edge one may wrap; not all of them
    assert apart < edge * math.sqrt(few), f"one client moves the release by {apart:.0f} steps, its bound is {bound:.0f}"


@pytest.fixture
def wrong(task: Task, settings: Settings) -> dict[str, Scheme]:
    """Schemes that a check must refuse."""
    open_, private = ENTRIES["fl-top"].scheme(settings), ENTRIES["fl-std-dp"].scheme(settings)
    good = secured(private, task)
    *front, whole, noise = good.stages
    voted = ENTRIES["fl-top-dp"].scheme(replace(settings, vote=0.5))
    return {
        "Clip after a code": replace(good, stages=(*front, whole, Clip(1.0))),
        "Rotate after noise, codes or integers": replace(good, stages=(*front, whole, Rotate(), noise)),
        "Noise.* on integers cannot be packed: take IntegerNoise": replace(good, stages=(*front, whole, Noise(1.0))),
        "Weigh.. after": replace(good, stages=(*front, whole, Weigh())),
        "Sign.. after": replace(good, stages=(*front, whole, Sign())),
        "AdaptiveClip after a code": replace(good, stages=(*front, whole, AdaptiveClip())),
        "IntegerNoise.* after another noise": replace(good, stages=(*good.stages, noise)),
        "ServerNoise.* after another Noise": replace(good, stages=(*good.stages, ServerNoise(1.0))),
        "IntegerNoise.* needs integers of bounded norm": replace(
            open_, stages=(FixedPoint(1.0, 20, 5), IntegerNoise(1.0))
        ),
        "Floats cannot be added modulo 2.b: make integers": replace(private, aggregator=SecureSum()),
        "floor=0 of the sampling lets a sum have fewer than 3": replace(good, sampling=Fixed(5)),
        "floor=2 of the sampling": replace(good, sampling=Fixed(5, 2)),
        "tolerance=0.34 is more than a third": replace(good, sampling=Fixed(5, 3, 0.34)),
        "a vote on the coordinates is not held in integers: take TopK": secured(voted, task),
    }


@pytest.mark.parametrize("number", range(14))
def test_refused_before_any_round(number: int, wrong: dict[str, Scheme], task: Task) -> None:
    sentence, scheme = list(wrong.items())[number]
    assert len(wrong) == 14
    with pytest.raises(Mistake, match=sentence):
        scheme.check(task)


@pytest.mark.parametrize("sampling", [Fixed(2), Poisson(0.1)], ids=["fixed", "poisson"])
def test_cohorts_of_which_none_could_be_opened(sampling, task: Task, settings: Settings) -> None:
    """Rounds that are all aborted, and paid for, are refused before the first."""
    with pytest.raises(Mistake, match="cohort="):
        secured(ENTRIES["fl-top-dp"].scheme(replace(settings, sampling=sampling)), task).check(task)


@pytest.mark.parametrize("noise", [IntegerNoise(1.0), ServerNoise(1.0)], ids=["integer", "server"])
def test_a_bound_is_not_in_the_steps_of_a_fixed_point(noise, task: Task, settings: Settings) -> None:
    """Noise sized by the bound of Clip would be next to nothing in steps: it must be refused."""
    base = ENTRIES["fl-std-dp"].scheme(replace(settings, sampling=Fixed(5, 3)))
    scheme = replace(base, stages=(Clip(0.5), FixedPoint(1.0, 20, 5), noise), aggregator=SecureSum())
    with pytest.raises(Mistake):
        scheme.check(task)
