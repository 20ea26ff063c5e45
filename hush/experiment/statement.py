"""What a run's privacy card says of it."""

from collections.abc import Sequence
from typing import Any

from hush.core.scheme import Scheme
from hush.core.state import State
from hush.core.task import Registered
from hush.experiment.outcome import NOTHING, Outcome
from hush.experiment.resolving import DELTA, Experiment
from hush.privacy.events import BatchSampling, Event
from hush.privacy.facts import SEED, SYSTEM, Facts
from hush.privacy.integers import published, shares
from hush.privacy.sums import IntegerSum
from hush.privacy.views import paper_epsilon, unnoticed_epsilon, views
from hush.privacy.warnings import warnings

CANARIES = 0.1  # of the clients or records: more of them cost the model much
_FIGURES = (
    "the figures of participation here, and those of the server, colluding and upload views, reveal the cohorts: they"
    " are for the server's side"
)

_SHARED = "rows are held by several clients: a client is protected, and a person whose rows several of them hold is not"


def facts(experiment: Experiment, state: State, events: Sequence[Event], seen: Outcome = NOTHING) -> Facts:
    """What the card says of the run so far, given the events of its ledger and what has come of it."""
    wanted, sampling = experiment.config, experiment.scheme.sampling
    delta, level = wanted.scheme.delta or DELTA, experiment.scheme.level or "client"
    source, claim = experiment.scheme.source, _claim(experiment)
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
        units=int(experiment.task.sizes.sum()) if level == "record" else experiment.task.clients,
        result=seen.result,
        clipping=seen.clipping,
        **(_batches(events, delta, wanted.scheme.accountant) if level == "record" and events else {}),
        assumptions=(
            *(() if sampling.kind == "once" else (_cohorts(experiment.scheme.secure),)),
            *((_SHARED,) if experiment.task.shared else ()),
        ),
        canaries=None if experiment.canaries is None else experiment.canaries.note,
        noise_source=SYSTEM if experiment.deployed else SEED,
        uncovered=experiment.scheme.uncovered,
        unnoised=(
            *experiment.notes,
            *filter(None, [experiment.scheme.uncovered]),
            "how many clients and classes there are, and the shape of the data: assumed public",
            "hyper-parameters that were given (rates, rounds, ratio): assumed chosen without the clients' data",
            "test metrics, the best round and a trial of the clip: on test rows, which nothing protects",
            *_shown(experiment),
            *(() if sampling.kind == "once" else (_FIGURES,)),
        ),
        trusted=source is not None and not source.shared,
        tolerance=experiment.scheme.tolerance,
        dropout=sampling.dropout,
        slack=experiment.scheme.slack(experiment.task.clients),
        floating=source is None or source.floating,
        noise_assumptions=() if source is None else source.assumptions,
        **_secure(experiment, state.participation.worst() if sampling.kind == "once" else state.round, delta),
        **{"paper_epsilon": paper_epsilon(events, delta) if events and experiment.published else None, **claim},
    )


def _shown(experiment: Experiment) -> tuple[str, ...]:
    """What the page shows of clients' records, and no noise covers."""
    data, lines = experiment.data, list[str]()
    if data is not None and data.rules:
        lines.append("how many rows there are, and how many each rule of the schema dropped: counted for the page")
    elif data is not None and experiment.config.data.partition != "sites":
        lines.append("how many rows there are: counted for the page")
    if data is not None and data.holders is not None:
        lines.append(
            "results by client, on the page: on test rows that each client gave for this; in a deployment no server"
            " has them"
            if experiment.config.data.partition != "sites"
            else "results by client, on the page: on the server's own test rows, by the client that its table names"
        )
    return tuple(lines)


def planned(experiment: Experiment) -> list[str]:
    """The warnings that can be given before anything is trained: about clients, delta and the epsilon asked for."""
    wanted, clients = experiment.config.scheme, experiment.task.clients
    level = experiment.scheme.level
    canaries = _many_canaries(experiment)
    if level is None:
        return canaries
    asked = [] if wanted.epsilon is None else [{"name": "model", "epsilon": wanted.epsilon}]
    units = int(experiment.task.sizes.sum()) if level == "record" else clients
    known = {"guarantee": level, "level": level, "population": clients, "units": units, "adversaries": asked}
    return [*warnings({**known, "delta": wanted.delta or DELTA}), *canaries]


def _many_canaries(experiment: Experiment) -> list[str]:
    """A run is for its model: what the audit takes from it is said before it begins."""
    if experiment.canaries is None:
        return []
    count, kind = len(experiment.canaries.included), experiment.canaries.attack.removeprefix("canary ")
    whole = int(experiment.task.sizes.sum()) if kind == "records" else experiment.task.clients
    if count <= CANARIES * whole:
        return []
    return [
        f"{count} of {whole:,} {kind} are canaries of the audit, and the model learns nothing of them: take fewer"
        " (--set run.canaries=N), or leave --audit out and run hush audit RUN --canaries N afterwards"
    ]


def _cohorts(secure: bool) -> str:
    if secure:
        return "who took part stays with the server and, in a secure sum, with that cohort's clients"
    return "who took part stays with the server; how many, with the server and that cohort's clients"


def _secure(experiment: Experiment, rounds: int, delta: float) -> dict[str, Any]:
    """How uploads were added, and the integer noise in them."""
    scheme, task = experiment.scheme, experiment.task
    found = scheme.aggregator.secrecy
    if found is None:
        return {}
    whole = _integers(scheme, task, rounds, delta)
    return {"integers": whole, "secure": found.mode, "servers": found.servers, "corrupt": found.corrupt}


def _integers(scheme: Scheme, task: Registered, rounds: int, delta: float) -> IntegerSum | None:
    """The integer noise, and what the published bounds say of it."""
    source = scheme.source
    if source is None or source.integer is None:
        return None
    place, specs = scheme.stages.index(source), scheme.specs(scheme.coordinates.count(task.layout))
    before, multiplier, rounding = specs[place], specs[place + 1].noise, specs[place].rounding
    width = before.form.modulus
    if rounding is None or multiplier is None or width is None:
        return None
    rate, cohort = scheme.sampling.rate(task.clients), scheme.sampling.cohort(task.clients)
    floor = max(1.0, (1 - scheme.tolerance) * cohort)
    noise = shares(source.integer, multiplier, rounding.steps, before.size, floor, rounding.beta)
    kind: BatchSampling = "fixed" if scheme.sampling.kind == "fixed" else "poisson"
    spent = published(noise, delta, rate, rounds, kind) if rounds else None
    loss = before.l2 / rounding.steps - 1
    return IntegerSum(source.integer, width, rounding.steps, before.size, before.l2, multiplier, loss, spent)


def _claim(experiment: Experiment) -> dict[str, Any]:
    """What the card says of a scheme whose paper claims a guarantee that does not hold."""
    if experiment.scheme.baseline:
        return {"reason": "nothing travels, and the models are what training made of the data"}
    for claim in (stage.claim for stage in experiment.scheme.stages):
        if claim is not None:
            return {"reason": claim.reason, "paper_epsilon": claim.epsilon, "paper_how": claim.how}
    return {}


def _batches(events: Sequence[Event], delta: float, accountant: str) -> dict[str, Any]:
    """What the card says of the records' batches, which are the same in every round."""
    found = {name: getattr(events[-1], name) for name in ("batch", "steps", "reach", "batches")}
    return {**found, "unnoticed_epsilon": unnoticed_epsilon(events, delta, accountant)}
