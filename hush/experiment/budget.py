"""From a privacy budget to the noise multiplier of a run."""

import math
from dataclasses import replace
from typing import Any, Literal, cast

import torch

from hush.catalogue.entries import Entry
from hush.catalogue.values import Settings
from hush.core.protocols import named
from hush.core.scheme import Scheme
from hush.core.spec import Plan, Spec
from hush.core.task import Registered
from hush.errors import Mistake
from hush.experiment.config import Config
from hush.parts.aggregators import SecureSum
from hush.privacy.calibration import noise_for, spent
from hush.privacy.events import Event
from hush.privacy.shown import shown


def noise(config: Config, entry: Entry, settings: Settings, task: Registered) -> float | None:
    """The smallest multiplier that keeps to epsilon over all rounds and the vote, or the one that was given."""
    scheme, population = config.scheme, task.clients
    if scheme.epsilon is None or scheme.delta is None:
        return scheme.noise
    summed, twice = (_summed(config, entry.scheme(replace(settings, noise=noise))) for noise in (1.0, 2.0))
    sampling = summed.sampling
    factor = _factor(config, summed, task)
    if not math.isclose(factor, 2 * _factor(config, twice, task)):
        raise Mistake(f"{entry.name}: twice the noise is not worth twice as much: build it with settings.multiplier()")
    if entry.level == "record":
        event = _event(summed, task)
        records = {"batch": event.batch, "steps": event.steps, "reach": event.reach}
        return _budgeted(config, factor, event.rate, config.run.rounds, scheme.accountant, event.batches, **records)
    if sampling.turns is not None:
        return _budgeted(config, factor, 1.0, sampling.turns.passes, scheme.accountant)
    releases = config.run.rounds + (scheme.select == "vote")
    _check_slack(config, summed, population, releases)
    kind: Literal["poisson", "fixed"] = "fixed" if sampling.kind == "fixed" else "poisson"
    rate, slack = sampling.rate(population), summed.slack(population)
    return _budgeted(config, factor, rate, releases, scheme.accountant, kind, slack)


def _budgeted(config: Config, factor: float, *releases: Any, **records: Any) -> float:
    """The smallest noise that keeps to the epsilon over these releases; or the given one, which must keep to it too.

    factor: the multiplier of noise shares over the one that the epsilon is accounted with.
    """
    scheme = config.scheme
    epsilon, delta = cast(float, scheme.epsilon), cast(float, scheme.delta)

    def needed() -> float:
        found = noise_for(epsilon, delta, *releases, **records)
        return found if factor == 1 else math.ceil(found * factor * 1000) / 1000

    if scheme.noise is None:
        return needed()
    found = spent(scheme.noise / factor, delta, *releases, **records)
    if found <= epsilon:
        return scheme.noise
    raise Mistake(
        f"noise={scheme.noise:g} and epsilon={epsilon:g} do not agree: over {config.run.rounds} rounds this noise"
        f" spends epsilon {shown(found)} at delta {delta:g}; leave the noise out for"
        f" {needed():g}, or take fewer rounds or a larger epsilon"
    )


def _summed(config: Config, scheme: Scheme) -> Scheme:
    """The scheme with the aggregator that it is going to have, for what is known without its noise."""
    wanted = config.secure
    if wanted.mode is None:
        return scheme
    given = {"servers": wanted.servers, "corrupt": wanted.corrupt}
    known: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return replace(scheme, aggregator=SecureSum(**known))


def _event(scheme: Scheme, task: Registered) -> Event:
    """What a round of a scheme that protects records releases."""
    found = scheme.trainer.event(1, scheme.sampling, task)
    if found is None:
        raise Mistake(f"{named(scheme.trainer)} protects records and does not say by what: give it an event")
    return found


def _factor(config: Config, scheme: Scheme, task: Registered) -> float:
    """The multiplier of a scheme's noise over the one that a round's budget asks for; `scheme` has the multiplier 1.

    model: the released noise, with the shares of the whole cohort, has the budget's. server: the noise of those that
    must stay has it. colluding: of those, the ones that do not collude have it. All in every likely cohort.
    """
    source, sampling, population = scheme.source, scheme.sampling, task.clients
    against = config.scheme.against or "model"
    if source is None:
        return 1 / _event(scheme, task).noise
    expected = sampling.cohort(population)
    spread = 4 * math.sqrt(expected) if sampling.kind == "poisson" else 1.0
    least = max(sampling.floor, math.floor(expected - spread), 1)
    worth = []
    for n in range(least, math.ceil(expected + spread) + 1):
        floor = round((1 - scheme.tolerance) * n, 9)
        plan = Plan(1, torch.empty(0), None, expected, floor, spare=scheme.tolerance)
        helpers = scheme.aggregator.colluding(n) if against == "colluding" else 0
        found = source.multipliers(Spec(1, l2=1.0), plan, max(0.0, floor - helpers))
        worth.append(found.model if against == "model" else found.server)
    if min(worth) <= 0:
        raise Mistake(f"against={against!r}: cohorts of {least} clients are left without noise: take larger ones")
    return 1 / min(worth)


def _check_slack(config: Config, scheme: Scheme, population: int, releases: int) -> None:
    """Refuse aborts that everybody sees and that would cost more than delta."""
    sampling, delta = scheme.sampling, cast(float, config.scheme.delta)
    if sampling.slack(population) * releases >= delta and config.secure.mode is not None:
        raise Mistake(
            f"a secure sum aborts below {sampling.floor} clients, and everybody sees it: in {releases} rounds that"
            " costs more than delta; take a larger cohort, or fixed sampling"
        )
    if sampling.slack(population) * releases >= delta:
        raise Mistake(
            f"floor={sampling.floor} is too near the cohort: visible aborts alone cost more than delta; lower it"
        )
    if scheme.aggregator.slack(sampling, population, scheme.tolerance) * releases >= delta:
        raise Mistake(
            f"dropout={sampling.dropout:g}: the probability that one client decides whether a secure sum is aborted, in"
            f" {releases} rounds, is more than delta={delta:g}: take larger cohorts, a larger tolerance (up to a third)"
            " or a lower dropout"
        )
    slack = scheme.slack(population) * releases
    if slack >= delta:
        raise Mistake(
            f"delta={delta:g} is less than the probability that a cohort outgrows its places in {releases} rounds"
            f" ({slack:.1g}): take a larger delta, fewer rounds, or fixed sampling"
        )
