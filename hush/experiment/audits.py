"""audit.json in a run's directory: what attacks on the run found. An alarm stays there, whatever comes after it."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hush.data import files
from hush.errors import Mistake
from hush.experiment.report import page
from hush.privacy import findings
from hush.privacy.facts import Finding
from hush.privacy.shown import shown

FILE = "audit.json"
CANARY = "canary"  # begins the names of their attacks


def read(run: Path) -> tuple[Finding, ...]:
    """What was found; nothing where no audit was run."""
    return _stored(run).findings


def wrong(run: Path) -> tuple[str, ...]:
    """What else an audit found not to be as it should, in sentences."""
    return _stored(run).wrong


def trials(run: Path) -> int:
    """In each world, so far; 0 where an earlier version did not count them."""
    return _stored(run).trials


def tried(run: Path) -> bool:
    """Whether there were trials, counted or not."""
    return any(_kind(one) != CANARY for one in read(run)) or trials(run) > 0


def alarms(run: Path) -> list[str]:
    """Every finding that is more than is proven, and what else is wrong, in sentences."""
    found = _stored(run)
    return [*findings.alarms([findings.row(one) for one in found.findings]), *found.wrong]


def sentence(run: Path) -> str:
    """What the canaries of a run showed, or where nothing is promised what showed most."""
    found = read(run)
    if any(one.alarm for one in found):
        return "more is shown than is proven: see the warnings"
    if wrong(run):
        return "something is not as it should be: see the warnings"
    if not found:
        return "nothing was tried"
    one = max(found, key=lambda one: one.shown) if found[0].stated is None else found[0]
    what = "" if _kind(one) == CANARY else " of such a trial"
    proven = "no epsilon is promised" if one.stated is None else f"{shown(one.stated)} is proven{what}"
    if one.shown == math.inf:
        return f"{one.attack}: all is recovered, {proven}"
    least = "nothing" if one.shown < 0.01 else f"epsilon {findings.bound(one.shown)} or more"
    return f"{one.attack}: shows {least}, {proven}"


def add(run: Path, found: Sequence[Finding], wrong: Sequence[str] = (), trials: int = 0) -> None:
    """Put canaries, or so many trials, there in place of earlier ones; the run's page shows them then.

    What was an alarm gives way only to one of the same attack and view that shows as much: an audit that is repeated
    until it is quiet has still raised it.
    """
    before, kinds = _stored(run), {_kind(one) for one in found}
    kept = [one for one in before.findings if one.alarm or _kind(one) not in kinds]
    whole = {(one.attack, one.view): one for one in kept}
    for one in found:
        old = whole.get((one.attack, one.view))
        if old is None or (one.alarm and one.shown >= old.shown) or not old.alarm:
            whole[one.attack, one.view] = one
    ordered = sorted(whole.values(), key=lambda one: _kind(one) != CANARY)  # which come first
    content = {
        "trials": max(trials, before.trials),
        "findings": [findings.written(one) for one in ordered],
        "wrong": list(dict.fromkeys([*before.wrong, *wrong])),
    }
    files.write(run / FILE, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    if (run / "report.html").exists():
        page.write(run)


class _Stored(NamedTuple):
    findings: tuple[Finding, ...] = ()
    wrong: tuple[str, ...] = ()
    trials: int = 0


def _kind(finding: Finding) -> str:
    return CANARY if finding.attack.startswith(CANARY) else "trial"


def _stored(run: Path) -> _Stored:
    place = run / FILE
    if not place.exists():
        return _Stored()
    try:
        content = json.loads(place.read_bytes())
        found = tuple(findings.parsed(one) for one in content["findings"])
        wrong, trials = tuple(str(one) for one in content.get("wrong", [])), content.get("trials", 0)
        if not isinstance(trials, int) or isinstance(trials, bool) or trials < 0:
            raise ValueError(f"trials is {trials!r}")
        return _Stored(found, wrong, trials)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else "its findings cannot be read"
        raise Mistake(
            f"{place} is damaged ({why}): delete it and run `hush audit {run}`, or restore it from a copy"
        ) from None
