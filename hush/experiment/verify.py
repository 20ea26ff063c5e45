"""A run's card and epsilons computed anew from its verified ledger: what is stored is compared, never believed."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.plans import planned
from hush.core.state import State
from hush.data.fetch import Say
from hush.errors import Mistake
from hush.experiment import audits, checkpoint, config, federated, population
from hush.experiment.config import Config
from hush.experiment.journal import CHECKPOINT
from hush.experiment.outcome import NOTHING, outcome
from hush.experiment.provenance import provenance
from hush.experiment.report import page, runs
from hush.experiment.report.runs import Row, finite
from hush.experiment.resolving import DELTA, Experiment, build
from hush.experiment.statement import facts
from hush.privacy.card import audited, meant
from hush.privacy.card import card as stated_card
from hush.privacy.events import Event, relation
from hush.privacy.ledger import Ledger
from hush.privacy.views import paper_epsilon, stated, unnoticed_epsilon, views
from hush.privacy.warnings import warnings
from hush.random.seeds import PublicSeed, SecretSeed

_AGREE = 1e-9  # another machine's logarithms may differ in the last bits; what is printed is computed here


def card(path: Path, say: Say = population.quiet) -> dict[str, Any]:
    """The card of a run as its ledger, its configuration and its checkpoint give it.

    A stored card that says something else is refused, and a page of a finished run too. A ledger that is ahead of the
    checkpoint, as a kill leaves it, counts in full: see _caught_up. `say` hears of a run that is not finished, and
    where its data is not at hand, that the figures alone were computed. Beside what the ledger gives it says what
    attacks found (audit.json), and names versions and files.
    """
    ledger = Ledger.load(path / "privacy.json")
    if ledger.card is None:
        raise Mistake(f"{path} has no card yet: let the run finish, or go on with --resume")
    try:
        found, run = _checked(path, ledger.card, ledger, say), runs.read(path)
        if len(run.rounds) < run.total:
            done = f"{len(run.rounds)} of {run.total} rounds are done"
            say(f"{path} is not finished: {done}, and its card has {found['rounds']}")
        _page(path)
        return {**audited(found, audits.read(path), audits.wrong(path)), **provenance(path)}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, Mistake):
            raise
        raise Mistake(f"{path} holds a card that cannot be read: restore privacy.json from a copy") from None


def row(path: Path, last: Row) -> None:
    """Refuse a last round that states other epsilons than the ledger gives for it."""
    said = {view: value if finite(value) else "none" for view, value in last["epsilon"].items()}
    if set(said.values()) <= {"none"}:
        return
    if not (path / "privacy.json").exists():
        raise Mistake(f"{path} states an epsilon and has no privacy.json that shows it: restore it from a copy")
    wanted, state = _sources(path)
    events = Ledger.load(path / "privacy.json").events
    if last["round"] == state.round:
        known = _epsilons(events[: state.participation.charged], state, wanted)
    else:  # a kill left rounds that the checkpoint does not hold: only the models' readers can be counted for them
        known = _epsilons([event for event in events if event.round <= last["round"]], state, wanted)
        known = {"model": known["model"]} if events and events[0].sampling != "once" else {}
    given = {view: value for view, value in said.items() if view in known or last["round"] == state.round}
    _compare(path, given, known, "rounds.jsonl")


def _page(path: Path) -> None:
    """Refuse a page of a finished run that shows something else than the run's files."""
    run, stored = runs.read(path), path / "report.html"
    if len(run.rounds) < run.total or not (path / "model.safetensors").exists() or not stored.exists():
        return
    if not page.shows(stored.read_text(errors="replace"), run):
        raise Mistake(
            f"{stored} does not show what the run's files hold: it was changed, or written by another version of hush;"
            " let `hush run --resume` write it anew"
        )


def _sources(path: Path) -> tuple[Config, State]:
    if not (path / CHECKPOINT).exists():
        raise Mistake(f"{path} has no checkpoint, which says who took part: restore it from a copy")
    return config.read(path / "config.toml"), checkpoint.load_state(path / CHECKPOINT)[0]


def _checked(path: Path, stored: Mapping[str, Any], ledger: Ledger, say: Say) -> dict[str, Any]:
    wanted, state = _sources(path)
    events, charged = ledger.events, state.participation.charged
    rows = runs.read(path).rounds
    if events and rows and rows[-1]["round"] > max(event.round for event in events):
        raise Mistake(f"{path}: the ledger lacks events of rounds in rounds.jsonl: restore privacy.json, privacy.jsonl")
    if charged > len(events):
        raise Mistake(f"{path}: the ledger lacks events that the checkpoint was charged for: restore privacy.json")
    if events and (stored["rounds"] > state.round or stored["guarantee"] == "none"):
        found = {"rounds": state.round, "guarantee": f"differential privacy, {events[-1].level} level"}
        _compare(path, {key: stored[key] for key in found}, found)
    experiment = _experiment(path, wanted, say)
    seen = NOTHING if experiment is None else outcome(experiment, state, path)
    if stored["rounds"] == state.round:  # else the run was killed between checkpoint and card
        # Written after a round, or after one more event was recorded, of a round that failed.
        counts = sorted({charged, min(charged + 1, len(events)), len(events)}, reverse=True)
        for number, count in enumerate(counts, 1):
            try:
                if events:
                    _compare(path, _said(stored), _figures(events[:count], state, wanted, stored))
                if experiment is not None:
                    _compare(path, _flat(stored), _flat(stated_card(facts(experiment, state, events[:count], seen))))
                break
            except Mistake:
                if number == len(counts):
                    raise
    if experiment is not None:
        state = _caught_up(experiment, path, state, events)
        return stated_card(facts(experiment, state, events, seen))
    _compare(path, _flat({"warnings": stored["warnings"]}), _flat({"warnings": warnings(stored)}))
    found = _renewed(stored, state, _figures(events, state, wanted, stored)) if events else dict(stored)
    return {**found, "warnings": warnings(found)}


def _caught_up(experiment: Experiment, path: Path, state: State, events: tuple[Event, ...]) -> State:
    """The state with the participations of the rounds that a simulation finished after its checkpoint.

    Their cohorts are drawn again by the run's own seed, which must give the turns of the checkpoint, each event of the
    ledger, and the epsilons of the last row. Else, and of draws that nobody can repeat, the ledger charges everybody.
    """
    scheme, task, wanted = experiment.scheme, experiment.task, experiment.config.run
    secret, seed, turns = SecretSeed.simulated(wanted.seed), PublicSeed(wanted.seed), np.zeros(task.clients, np.int64)
    left, clip = list(events[state.participation.charged :]), state.clip
    if experiment.deployed or federated.stored(path) is not None or not left:
        return state
    for number in range(1, state.round + 1):
        turns[scheme.sampling.draw(task.clients, secret, number)] += 1
    if not np.array_equal(turns, state.participation.rounds):
        return state
    found, said = state.copy(), None
    rows = [row for row in runs.read(path).rounds if row["round"] > state.round]
    for number, row in enumerate(rows, state.round + 1):
        cohort, live = scheme.sampling.draw(task.clients, secret, number), state.live
        if not scheme.coordinates.fixed:
            live = scheme.coordinates.draw(task.problem, seed, number, None)
        mean, drawn = scheme.sampling.cohort(task.clients), len(cohort)
        plan = planned(scheme, task.problem, seed, number, state.weights, live, drawn=drawn, mean=mean, clip=clip)
        if row["round"] != number or not left or scheme.event(plan, task) != left.pop(0):
            break
        answered = plan.floor if row["aborted"] else min(row["cohort"], drawn)
        event = scheme.event(plan, task, present=None if answered == plan.floor else int(answered))
        assert event is not None
        found.participation.add(event, cohort)
        found.books.round, clip, said = number, row["clip"], row["epsilon"]
        found = replace(found, round=number)
    known = _epsilons(events[: found.participation.charged], found, experiment.config)
    alike = said is not None and said.keys() == known.keys() and all(_same(said[view], known[view]) for view in said)
    return found if alike else state


def _experiment(path: Path, wanted: Config, say: Say) -> Experiment | None:
    """What the configuration stands for; None, and a sentence, where that needs data or code that is not to be had."""
    missing = population.missing(wanted)
    if missing is None:
        return federated.rebuilt(path, wanted, say) or build(wanted, say)
    say(f"{missing}: the card's figures were computed anew, its sentences are as stored")
    return None


def _epsilons(events: tuple[Event, ...] | list[Event], state: State, wanted: Config) -> dict[str, float | str]:
    return views(events, state.participation, wanted.scheme.delta or DELTA, wanted.scheme.accountant)


def _figures(events: tuple[Event, ...], state: State, wanted: Config, stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a card says in numbers and in words that follow from the events."""
    delta, accountant, first = wanted.scheme.delta or DELTA, wanted.scheme.accountant, events[0] if events else None
    found: dict[str, Any] = {
        "scheme": wanted.scheme.name,
        "rounds": state.round,
        "population": state.participation.rounds.size,
        "delta": delta,
        "accountant": accountant,
        "took part at most": state.participation.worst(),
        "took part, median": state.participation.median(),
        **{f"epsilon, {view}": value for view, value in _epsilons(events, state, wanted).items()},
    }
    if first is not None:
        drawn = first.sampling if first.level == "client" else first.batches
        found |= {"sampling": first.sampling, "level": first.level, "relation": relation(drawn, first.level)}
        found["guarantee"] = f"differential privacy, {first.level} level"
    if stored.get("paper"):
        found["epsilon, paper"] = stated(paper_epsilon(events, delta))
    if stored.get("records"):
        found["epsilon, unnoticed"] = stated(unnoticed_epsilon(events, delta, accountant))
        found |= {f"records, {name}": getattr(events[-1], name) for name in ("batch", "steps", "reach", "batches")}
    return found


def _said(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a stored card."""
    names = ("scheme", "rounds", "population", "delta", "accountant", "sampling", "level", "relation", "guarantee")
    found = {name: stored[name] for name in names}
    found |= {"took part at most": stored["participation"]["worst"]}
    found |= {"took part, median": stored["participation"]["median"]}
    for one in stored["adversaries"]:
        found[f"epsilon, {one['name']}"] = one["epsilon"]
        if "epsilon_median" in one:
            found[f"epsilon, {one['name']}_median"] = one["epsilon_median"]
        found |= {f"{name} of {one['name']}": one[name] for name in ("delta", "accountant", "rounds")}
    if stored.get("paper"):
        found["epsilon, paper"] = stored["paper"]["epsilon"]
    if stored.get("records"):
        found["epsilon, unnoticed"] = stored["records"]["epsilon_unnoticed"]
        found |= {f"records, {name}": stored["records"][name] for name in ("batch", "steps", "reach", "batches")}
    return found


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """What a card holds, each thing by the way to it."""
    if isinstance(value, Mapping):
        parts = [(f"{name} {key}".strip(), part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{name} {number}", part) for number, part in enumerate(value, 1)]
    else:
        return {name: value}
    return {key: found for name, part in parts for key, found in _flat(part, name).items()}


def _compare(path: Path, said: Mapping[str, Any], found: Mapping[str, Any], where: str = "the card") -> None:
    """Refuse the first thing said that is not what was found; what is found must be said."""
    for key in (*said, *(key for key in found if key not in said)):
        known = found.get(key, found.get(key.partition(" of ")[0]))
        value: Any = said.get(key)
        if not _same(value, known):
            raise Mistake(
                f"{path}: {where} says {key} {value}, and the run's ledger and configuration give {known}: it was"
                " changed, or written by another version of hush; restore it from a copy, or let `hush run --resume`"
                " write it anew"
            )


def _same(one: Any, other: Any) -> bool:
    return math.isclose(one, other, rel_tol=_AGREE) if finite(one) and finite(other) else bool(one == other)


def _renewed(stored: Mapping[str, Any], state: State, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The stored card with every figure as it was found."""
    rows = []
    for one in stored["adversaries"]:
        fresh = {"epsilon": figures[f"epsilon, {one['name']}"], "rounds": state.round}
        if "epsilon_median" in one:
            fresh["epsilon_median"] = figures[f"epsilon, {one['name']}_median"]
        rows.append(meant({**one, **fresh, "delta": figures["delta"], "accountant": figures["accountant"]}))
    took = {"worst": figures["took part at most"], "median": figures["took part, median"]}
    found = {**stored, "rounds": state.round, "adversaries": rows, "participation": took}
    if stored.get("paper"):
        found["paper"] = {**stored["paper"], "epsilon": figures["epsilon, paper"]}
    if stored.get("records"):
        found["records"] = {**stored["records"], "epsilon_unnoticed": figures["epsilon, unnoticed"]}
    return found
