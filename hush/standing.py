"""What a run's privacy card says of it."""

from collections.abc import Sequence
from typing import Any

from hush.aggregators import SecureSum
from hush.catalogue import entry
from hush.experiment import DELTA, Experiment
from hush.privacy import Event, Facts, Sampling, paper_epsilon, unnoticed_epsilon, views
from hush.privacy.integers import published, shares
from hush.privacy.sums import WholeNoise
from hush.stages import Coins, CorrelatedNoise, IntegerNoise, Quantise, TwoBit, twobit
from hush.state import State

_FIGURES = (
    "the figures of participation here, and those of the server, colluding and upload views, tell of the cohorts: they"
    " are for the server's side"
)

_SHARED = "rows are held by several clients: a client is protected, and a person whose rows several of them hold is not"


def facts(experiment: Experiment, state: State, events: Sequence[Event]) -> Facts:
    """What the card says of the run so far, given the events of its ledger."""
    wanted, sampling = experiment.config, experiment.scheme.sampling
    delta, level = wanted.scheme.delta or DELTA, experiment.scheme.level or "client"
    source, claim = experiment.scheme.source, _claim(experiment)
    published = entry(wanted.scheme.name).paper != "hush"
    return Facts(
        scheme=wanted.scheme.name,
        private=experiment.scheme.private,
        rounds=state.round,
        delta=delta,
        accountant=wanted.scheme.accountant,
        sampling=sampling.kind,
        population=experiment.task.clients,
        cohort=sampling.cohort(experiment.task.clients),
        epsilon=views(events, state.participation, delta, wanted.scheme.accountant),
        participation_worst=state.participation.worst(),
        participation_median=state.participation.median(),
        level=level,
        **(_batches(events, delta, wanted.scheme.accountant) if level == "record" and events else {}),
        assumptions=(
            *(() if sampling.kind == "once" else (_cohorts(experiment.scheme.secure),)),
            *((_SHARED,) if experiment.task.split.shared else ()),
        ),
        uncovered=experiment.scheme.uncovered,
        unnoised=(
            *experiment.notes,
            *filter(None, [experiment.scheme.uncovered]),
            "how many clients and classes there are, and the shape of the data: assumed public",
            "hyper-parameters that were given (rates, rounds, ratio): assumed chosen without the clients' data",
            "test metrics and the best round: on test rows, which nothing protects",
            *(() if sampling.kind == "once" else (_FIGURES,)),
        ),
        trusted=source is not None and not source.shared,
        tolerance=experiment.scheme.tolerance,
        dropout=sampling.dropout,
        slack=experiment.scheme.slack(experiment.task.clients),
        correlated=isinstance(source, CorrelatedNoise),
        coins=isinstance(source, Coins),
        **_secure(experiment, state.participation.worst() if sampling.kind == "once" else state.round, delta),
        **{"paper_epsilon": paper_epsilon(events, delta) if events and published else None, **claim},
    )


def _cohorts(secure: bool) -> str:
    if secure:
        return "who took part stays with the server and, in a secure sum, with that cohort's clients"
    return "who took part stays with the server; how many, with the server and that cohort's clients"


def _secure(experiment: Experiment, rounds: int, delta: float) -> dict[str, Any]:
    """How uploads were added, and the whole noise in them."""
    scheme, task = experiment.scheme, experiment.task
    found = scheme.aggregator
    if not isinstance(found, SecureSum):
        return {}
    whole = None
    specs = scheme.specs(scheme.coordinates.count(task.layout))
    for stage, before in zip(scheme.stages, specs, strict=False):
        if isinstance(stage, Quantise):
            grid = stage
        if isinstance(stage, IntegerNoise):
            rate, cohort = scheme.sampling.rate(task.clients), scheme.sampling.cohort(task.clients)
            floor = max(1.0, (1 - scheme.tolerance) * cohort)
            noise = shares(stage.kind, stage.multiplier, grid.steps, before.size, floor, grid.beta)
            kind: Sampling = "fixed" if scheme.sampling.kind == "fixed" else "poisson"
            spent = published(noise, delta, rate, rounds, kind) if rounds else None
            loss = before.l2 / grid.steps - 1
            whole = WholeNoise(stage.kind, grid.bits, grid.steps, before.size, before.l2, stage.multiplier, loss, spent)
    return {
        "integers": whole,
        "secure": "full" if found.full else "simulated",
        "servers": found.servers,
        "corrupt": found.corrupt,
    }


def _claim(experiment: Experiment) -> dict[str, Any]:
    """What the card says of a scheme whose paper claims a guarantee that does not hold."""
    if experiment.scheme.apart:
        return {"reason": "nothing travels, and the models are what training made of the data"}
    for stage in experiment.scheme.stages:
        if isinstance(stage, TwoBit):
            return {
                "reason": "two bits of each weight travel as they are; given the client's seat, which the server"
                " draws, an upload is a function of the update, and updates that differ in one bit are told apart"
                " with certainty",
                "paper_epsilon": twobit.paper_epsilon(stage.places),
                "paper_how": f"ln(p/(p-2)) at p={stage.places}, for two numbers that differ in one bit, if nobody"
                " knew which bit was sent; this is not differential privacy",
            }
    return {}


def _batches(events: Sequence[Event], delta: float, accountant: str) -> dict[str, Any]:
    """What the card says of the records' batches, which are the same in every round."""
    found = {name: getattr(events[-1], name) for name in ("batch", "steps", "reach", "batches")}
    return {**found, "unnoticed_epsilon": unnoticed_epsilon(events, delta, accountant)}
