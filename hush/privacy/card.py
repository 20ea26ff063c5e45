"""The privacy card: one page that says what is protected, against whom, and on which assumptions."""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from hush.privacy import findings, meaning, sums
from hush.privacy.assumptions import assumptions
from hush.privacy.events import relation
from hush.privacy.facts import Facts, Finding
from hush.privacy.neighbours import neighbours, sentence
from hush.privacy.sections import MEDIAN, SHOWN, UNAUDITED, attacks, paragraph, sections
from hush.privacy.shown import shown
from hush.privacy.views import stated
from hush.privacy.warnings import warnings

_SEES = {
    "model": "anyone who receives the released models of all rounds, and does not know who took part",
    "server": "the server: knows who took part in each round, and sees the sum of their uploads",
    "colluding": "the server, to which colluding clients reveal their shares of the noise: those of the others count",
    "upload": "whoever reads single uploads (the server, the line): only the client's own noise share counts",
}
_SEES_RECORDS = {
    "model": "anyone who receives the released models of all rounds; they may show which clients took part",
    "server": "the server: knows which clients took part in each round, and sees what they send",
    "upload": "whoever reads single uploads (the server, the line): each carries all of its client's noise",
}
_SEES_SUMS = {
    **_SEES,
    "upload": "whoever took the mask off a single upload (enough of its neighbours colluding with the server, or both"
    " of two servers): only the client's own noise share counts",
}
_SEES_RECORD_SUMS = {
    **_SEES_RECORDS,
    "server": "the server: knows which clients took part in each round, and is counted as if it saw what each sends",
    "upload": "whoever took the mask off a single upload: each carries all of its client's noise",
}
_SEES_TURNS = "anyone who receives the released models of all rounds; whose turn it is in which round is public"
_PROTECTED = {
    "client": "the whole contribution of one client (a party that trains on data of its own), in all rounds together",
    "record": "one record of one client, in all rounds together",
}


def card(facts: Facts) -> dict[str, Any]:
    """The card as a JSON object. A scheme without a guarantee gets "none" and the reason, never a number."""
    found = _stated(facts)
    return audited({**found, "warnings": warnings(found)}, facts.audit)


def audited(card: Mapping[str, Any], found: Sequence[Finding], wrong: Sequence[str] = ()) -> dict[str, Any]:
    """A card that knows of no attack, with what attacks found; what should alarm its reader comes first."""
    rows = [findings.row(one) for one in found]
    return {**card, "audit": rows, "warnings": [*findings.alarms(rows), *wrong, *card.get("warnings", ())]}


def _stated(facts: Facts) -> dict[str, Any]:
    common = {
        "scheme": facts.scheme,
        "guarantee": f"differential privacy, {facts.level} level" if facts.private else "none",
        "rounds": facts.rounds,
        "population": facts.population,
        "cohort": facts.cohort,
        "sampling": facts.sampling,
        "participation": {"worst": facts.participation_worst, "median": facts.participation_median},
        "unnoised": list(facts.unnoised),
        "result": facts.result,
    }
    if facts.canaries is not None:
        common["canaries"] = facts.canaries
    if facts.secure is not None:
        common["secure"] = {"protocol": facts.secure, "servers": facts.servers, "corrupt": facts.corrupt}
    if not facts.private:
        claim = {"epsilon": stated(facts.paper_epsilon), "how": facts.paper_how} if facts.paper_epsilon else None
        return {**common, "reason": facts.reason, **({"paper": claim} if claim else {})}
    return {
        **common,
        "level": facts.level,
        "units": facts.units,
        "clipping": facts.clipping,
        "protected": _PROTECTED[facts.level],
        "relation": relation(facts.sampling if facts.level == "client" else facts.batches, facts.level),
        "neighbours": _neighbours(facts),
        "delta": facts.delta,
        "accountant": facts.accountant,
        "adversaries": [_adversary(name, facts) for name in _SEES if name in facts.epsilon],
        "paper": _paper(facts),
        "noise_source": facts.noise_source,
        "assumptions": [*assumptions(facts), *facts.assumptions],
        **({"records": _records(facts)} if facts.level == "record" else {}),
        **({} if facts.integers is None else {"integers": sums.described(facts.integers, facts.tolerance)}),
    }


def render(card: Mapping[str, Any]) -> str:
    """The card as a page of plain text."""
    found = sections(card)
    lines = [f"Privacy card: {card['scheme']}", ""]
    if card.get("warnings"):
        lines = [*lines[:1], *_listed("Warnings", card["warnings"]), ""]
    for name, text in found.facts:
        lines += _wrapped(name, text)
    if found.adversaries:
        lines += ["", f"{'against':<10}{'epsilon':>9}{'median':>9}  who that is, and what it means"]
        for row in found.adversaries:
            numbers = f"{shown(row['epsilon']):>9}{shown(row.get('epsilon_median', '')):>9}"
            lines.append(_row(f"{row['name']:<10}{numbers}  ", paragraph(row)))
        lines.append(" " * 10 + MEDIAN)
    for name, text in found.notes:
        lines += ["", *_wrapped(name, text)]
    if found.audit is not None:
        lines += ["", *_audit(found.audit)]
    for title, items in found.lists:
        lines += _listed(title, items)
    if found.details:
        lines += ["", "Details"]
    for name, text in found.details:
        lines += _wrapped(name, text)
    return "\n".join(lines) + "\n"


def _audit(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return _wrapped("Audit", UNAUDITED)
    width = max(18, 2 + max(len(row["attack"]) for row in rows))
    lines = [f"{'attack':<{width}}{'view':<10}{'proven':>8}{'shown':>10}{'confidence':>12}"]
    for row in rows:
        numbers = f"{shown(row['stated']):>8}{findings.bound(row['shown']):>10}{findings.sure(row['confidence']):>12}"
        lines.append(f"{row['attack']:<{width}}{row['view']:<10}{numbers}{'  alarm' if row['alarm'] else ''}")
    lines += [fill(text, 100, initial_indent="  - ", subsequent_indent="    ") for text in (SHOWN, *attacks(rows))]
    return lines


def _adversary(name: str, facts: Facts) -> dict[str, Any]:
    if facts.secure is None:
        sees = _SEES if facts.level == "client" else _SEES_RECORDS
    else:
        sees = _SEES_SUMS if facts.level == "client" else _SEES_RECORD_SUMS
    if facts.sampling == "once":
        sees = {**sees, "model": _SEES_TURNS}
    without = neighbours(name, facts.sampling, facts.level, trusted=facts.trusted)
    row: dict[str, Any] = {"name": name, "sees": sees[name], "without": without, **_colluding(name, facts)}
    asked = meaning.question(name, facts.sampling, facts.batches, facts.level)
    row |= {"guessed": asked, "epsilon": facts.epsilon[name]}
    if f"{name}_median" in facts.epsilon:
        row["epsilon_median"] = facts.epsilon[f"{name}_median"]
    if name == "model" and row["epsilon"] == "none" and facts.slack > 0:
        row["why"] = (
            f"Everybody sees that a round is aborted, and one client decides it with probability {facts.slack:.2g} a"
            " round: more than delta allows"
        )
    return meant({**row, "delta": facts.delta, "accountant": facts.accountant, "rounds": facts.rounds})


def meant(row: Mapping[str, Any]) -> dict[str, Any]:
    """An adversary's row with what its numbers mean: how often a guess can be right, and that in a sentence."""
    epsilon, delta = row["epsilon"], row["delta"]
    said = meaning.meaning(row["guessed"], delta, epsilon, row.get("epsilon_median"))
    why = f". {row['why']}" if "why" in row and epsilon == "none" else ""
    return {**row, "guess": meaning.guess(epsilon, delta), "meaning": said + why}


def _colluding(name: str, facts: Facts) -> dict[str, Any]:
    """How many clients may reveal to this adversary what they know, in number and in words."""
    if facts.level == "record" and name == "model":
        return {"colluding": "any", "helped": "Colluding clients: any number, as long as nobody reveals who was drawn"}
    if facts.level == "record" or name == "upload":
        return {"colluding": "any", "helped": "Colluding clients: any number, since no noise of others is counted"}
    if name != "colluding":
        return {"colluding": 0, "helped": "Colluding clients: none"}
    most = math.ceil(facts.corrupt * facts.cohort - 1e-9)
    part, whole = f"up to {facts.corrupt:.0%} of a round's, rounded up", round(facts.cohort)
    count = f"{whole}" if whole == facts.cohort else f"about {whole}"
    return {"colluding": most, "helped": f"Colluding clients: {part}, that is {most} of {count}"}


def _neighbours(facts: Facts) -> str:
    views = [name for name in _SEES if name in facts.epsilon]
    return sentence(views, facts.sampling, facts.batches, facts.level, facts.trusted)


def _paper(facts: Facts) -> dict[str, Any] | None:
    """The papers' accounting, where it differs from the card's own."""
    if facts.paper_epsilon is None or facts.sampling == "once":
        return None
    if facts.level == "record":
        how = "moments, a record drawn with its client's probability times its own" + (
            ", and one clipped gradient changed by it" if facts.reach > 1 else ""
        )
        return {"epsilon": stated(facts.paper_epsilon), "how": how}
    if facts.sampling == "poisson" and facts.accountant == "moments":
        return None
    return {"epsilon": stated(facts.paper_epsilon), "how": "moments, cohorts taken as Poisson"}


def _records(facts: Facts) -> dict[str, Any]:
    """How records are drawn within their client."""
    unnoticed = None if facts.unnoticed_epsilon is None else stated(facts.unnoticed_epsilon)
    return {
        "batch": facts.batch,
        "steps": facts.steps,
        "reach": facts.reach,
        "batches": facts.batches,
        "epsilon_unnoticed": unnoticed,
    }


def _row(head: str, text: str) -> str:
    kept = text.replace(" %", "\xa0%")  # no line begins with the sign of a percentage
    return fill(kept, 100, initial_indent=head, subsequent_indent=" " * len(head)).replace("\xa0", " ")


def _wrapped(name: str, text: str) -> list[str]:
    return [_row(f"{name:<13}", text)]


def _listed(title: str, items: list[str]) -> list[str]:
    rows = [_row("  - ", item) for item in items or ["nothing"]]
    return ["", title, *rows]
